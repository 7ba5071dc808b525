//! Watched folders.

use crate::fixture::{SIDE, config, get, outputs_calibration, picture, server};
use axum::Router;
use flipcast_serve::{Log, ServeConfig, ServeError, Server, Subject, WatchedFolder};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

fn png_bytes(index: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, SIDE as u32, SIDE as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(picture(index).rgb()).unwrap();
    bytes
}

/// Waits until the first watched folder stands as wanted.
async fn until(router: &Router, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..150 {
        last = get(router, "/watched").await.json()["folders"][0].clone();
        if wanted(&last) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{last}");
}

fn watching(state: &Path, folder: &Path) -> Server {
    let watch = vec![WatchedFolder { path: folder.to_owned(), stream: "door".to_owned() }];
    server(ServeConfig { watch, ..config(state) })
}

#[tokio::test]
async fn files_are_counted_once_across_restarts_and_bad_ones_are_named() {
    let (state, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("day-1")).unwrap();
    std::fs::write(at("a.png"), png_bytes(1)).unwrap();
    std::fs::write(at("day-1/b.PNG"), png_bytes(2)).unwrap();
    std::fs::write(at("broken.png"), &png_bytes(3)[..60]).unwrap();
    std::fs::write(at(".copying.png"), png_bytes(4)).unwrap();
    std::fs::write(at("notes.txt"), "no image").unwrap();
    let server = watching(state.path(), folder.path());
    let router = server.router();
    let done = until(&router, |folder| folder["counted"] == 2 && folder["waiting"] == 0).await;
    assert_eq!((&done["unreadable"], &done["stream"]), (&1.into(), &"door".into()));
    assert!(done["problems"]["broken.png"].as_str().is_some_and(|reason| !reason.is_empty()), "{done}");
    assert_eq!(get(&router, "/streams/door").await.json()["images"], 2);
    let metrics = String::from_utf8(get(&router, "/metrics").await.body).unwrap();
    assert!(metrics.lines().any(|line| line == "flipcast_watched_files_unreadable 1.0"), "{metrics}");
    drop((server, router));
    tokio::time::sleep(Duration::from_millis(1200)).await;

    // What came while nobody watched, by a move; and a file that is whole at last.
    std::fs::rename(at(".copying.png"), at("c.png")).unwrap();
    std::fs::write(at("broken.png"), png_bytes(3)).unwrap();
    std::fs::remove_file(at("a.png")).unwrap();
    let server = watching(state.path(), folder.path());
    let router = server.router();
    let done = until(&router, |folder| folder["counted"] == 2 && folder["waiting"] == 0).await;
    assert_eq!(done["unreadable"], 0, "{done}");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(get(&router, "/streams/door").await.json()["images"], 4);
}

#[test]
fn folders_that_cannot_be_watched_are_refused_at_the_start() {
    let (state, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let missing = folder.path().join("missing");
    let watch = vec![WatchedFolder::parse(&format!("{}=door", missing.display()))];
    let (model, calibration) = crate::fixture::network();
    let subject = Subject::Network { model, calibration, device: flipcast_run::Device::cpu(1) };
    let refused = Server::new(subject, ServeConfig { watch, ..config(state.path()) }, Log::new(std::io::sink()));
    assert!(matches!(refused.err(), Some(ServeError::Watch { path, .. }) if path == missing));
    let watch = vec![WatchedFolder::parse(&folder.path().display().to_string())];
    let state = tempfile::tempdir().unwrap();
    let subject = Subject::Outputs(outputs_calibration());
    let refused = Server::new(subject, ServeConfig { watch, ..config(state.path()) }, Log::new(std::io::sink()));
    assert!(matches!(refused.err(), Some(ServeError::Setting { setting: "a watched folder", .. })));
    assert_eq!(WatchedFolder::parse("/a/b").stream, "b");
    assert_eq!(WatchedFolder::parse("/a/b=c"), WatchedFolder { path: "/a/b".into(), stream: "c".to_owned() });
}
