//! Networks without batch norms: embeddings stand in for the second look.

use crate::fixture::{calibrated, config, get, one_look, pictures, send};
use flipcast_run::monitor::MonitorConfig;
use flipcast_run::open::OpenedData;
use flipcast_run::{Device, EstimateSource, Ledger, Setting, Unwatched};
use flipcast_serve::{Log, ServeConfig, Server, Subject};

#[tokio::test]
async fn a_window_of_a_vision_transformer_has_the_estimate_that_its_images_have_without_a_server() {
    let (model, calibration) = calibrated("vit_tiny_patch16_32", "flipcast");
    let folder = tempfile::tempdir().unwrap();
    let monitor = MonitorConfig { window_images: 128, ..Default::default() };
    let config = ServeConfig { monitor, ..config(folder.path()) };
    let open = || {
        let subject = Subject::Network { model: &model, calibration: &calibration, device: Device::cpu(1) };
        Server::new(subject, config.clone(), Log::new(std::io::sink())).unwrap()
    };
    let mut first = 1000;
    for images in [50, 60, 70] {
        // Every request meets a server that has just started, within a window and across its end.
        let server = open();
        send(&server.router(), "s", first, images, "").await;
        first += images;
        drop(server);
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    let server = open();
    assert_eq!(get(&server.router(), "/settings").await.json()["second_look"], "recentred_embeddings");
    let stream = get(&server.router(), "/streams/s").await.json();
    let window = &stream["windows"][0];

    let data = OpenedData::new("window", pictures(1000..1128), &model).unwrap();
    let protocol = one_look("flipcast", &model);
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let source = EstimateSource::Calibration(&calibration, None);
    let (_, alone) = setting.estimate(source, &data.request(), 0.9, &mut Ledger::default(), &mut Unwatched).unwrap();
    let alone = &alone.source["combined"];
    for (name, expected) in [("accuracy", alone.accuracy), ("low", alone.low), ("high", alone.high)] {
        let found = window["estimate"][name].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-4, "{name}: {found} {expected}");
    }
    assert!(window["flips"].is_number() && stream["open"]["estimate"].is_object(), "{stream}");
    assert!(
        stream["tests"].as_array().unwrap().iter().all(|test| test["kind"] != "flips"),
        "no batch shares statistics"
    );
}
