//! What outlives the process.

use crate::fixture::{config, get, log_response, logits, outputs_server, send, server};
use axum::http::StatusCode;
use flipcast_run::monitor::MonitorConfig;
use flipcast_serve::{Log, ServeConfig, ServeError, Server, Subject};

#[tokio::test]
async fn a_server_that_begins_again_knows_everything_it_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut before = serde_json::Value::Null;
    for run in 0..3u64 {
        let server = outputs_server(config(folder.path()));
        let router = server.router();
        if run > 0 {
            assert_eq!(get(&router, "/streams/s").await.json(), before);
            let windows = get(&router, "/streams/s/windows").await.json();
            assert_eq!(windows["windows"].as_array().unwrap().len() as u64, (250 * run - 1) / 64);
        }
        for part in 0..5 {
            let (rows, _) = logits(50, 1.0, 10 * run + part);
            let answer = log_response(&router, "s", &rows, &format!("{run}/{part}")).await;
            assert_eq!(answer.status, StatusCode::ACCEPTED);
        }
        before = get(&router, "/streams/s").await.json();
        assert_eq!(before["images"], 250 * (run + 1));
        stop(server, router).await;
    }
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_counted_once_even_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    for run in 0..2 {
        let server = server(config(folder.path()));
        let router = server.router();
        for _ in 0..2 {
            let answer = send(&router, "s", 0, 3, "the same").await.json();
            let is_first = run == 0 && answer["parameters"]["counted"] == true;
            assert!(is_first || answer["parameters"]["counted"] == false);
            assert_eq!(answer["outputs"][0]["shape"], serde_json::json!([3, 3]), "it is answered all the same");
        }
        // Another body under the same id is another request.
        let other = send(&router, "s", 9 + run, 1, "the same").await.json();
        assert_eq!(other["parameters"]["counted"], true);
        assert_eq!(get(&router, "/streams/s").await.json()["images"], 4 + run);
        stop(server, router).await;
    }
}

#[test]
fn a_state_of_other_windows_or_another_calibration_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(server(config(folder.path())));
    // Threads let go of the file soon after the server is gone.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let monitor = MonitorConfig { window_images: 128, ..Default::default() };
    let (model, calibration) = crate::fixture::network();
    let device = flipcast_run::Device::cpu(1);
    let other = ServeConfig { monitor, ..config(folder.path()) };
    let subject = Subject::Network { model, calibration, device };
    let refused = Server::new(subject, other, Log::new(std::io::sink()));
    assert!(matches!(refused.err(), Some(ServeError::OtherState { what: "window size", .. })));
    let outputs = Subject::Outputs(crate::fixture::outputs_calibration());
    let refused = Server::new(outputs, config(folder.path()), Log::new(std::io::sink()));
    assert!(matches!(refused.err(), Some(ServeError::OtherState { what: "calibration", .. })));
}

/// Waits until the threads of a server have let go of its file.
async fn stop(server: Server, router: axum::Router) {
    drop((server, router));
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
}
