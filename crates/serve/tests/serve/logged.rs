//! KServe's logged CloudEvents.

use crate::fixture::{call, config, get, log_response, logits, outputs_server, pixels, server};
use axum::http::{Request, StatusCode};

#[tokio::test]
async fn a_pair_of_request_and_response_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let router = server(config(folder.path())).router();
    let (body, length) = pixels(0, 5, "");
    for _ in 0..2 {
        // The logger may send an event again.
        let request = Request::post("/")
            .header("ce-specversion", "1.0")
            .header("ce-type", "org.kubeflow.serving.inference.request")
            .header("ce-id", "7")
            .header("ce-namespace", "prod")
            .header("ce-inferenceservicename", "flowers")
            .header("inference-header-content-length", length);
        let answer = call(&router, request.body(body.clone().into()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
    }
    assert_eq!(log_response(&router, "flowers", &logits(5, 1.0, 1).0, "7").await.status, StatusCode::ACCEPTED);
    assert_eq!(get(&router, "/streams").await.json()["count"], 1);
    assert_eq!(get(&router, "/streams/prod%2Fflowers").await.json()["images"], 5);
}

#[tokio::test]
async fn without_a_network_responses_are_what_counts() {
    let folder = tempfile::tempdir().unwrap();
    let router = outputs_server(config(folder.path())).router();
    let (rows, _) = logits(200, 1.0, 4);
    for id in ["a", "b", "a"] {
        assert_eq!(log_response(&router, "s", &rows, id).await.status, StatusCode::ACCEPTED);
    }
    let stream = get(&router, "/streams/s").await.json();
    assert_eq!(stream["images"], 400, "the same event again is not counted");
    assert!(stream["windows"][0]["estimate"]["accuracy"].is_f64());
    let short = log_response(&router, "s", &rows[..2], "c").await;
    assert_eq!(short.status, StatusCode::BAD_REQUEST);
    let not_an_event = call(&router, Request::post("/").body("{}".into()).unwrap()).await;
    assert!(not_an_event.json()["error"].as_str().unwrap().contains("ce-specversion"));
}
