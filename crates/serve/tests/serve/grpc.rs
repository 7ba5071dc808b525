//! The protocol over gRPC, its messages put together by hand.

use crate::fixture::{Answer, SIDE, call, config, get, picture, server};
use axum::Router;
use axum::http::Request;

/// A field that holds bytes: its tag, its length, the bytes.
pub fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 128 {
        field.push((length & 127) as u8 | 128);
        length >>= 7;
    }
    field.push(length as u8);
    [field, bytes.to_vec()].concat()
}

async fn ask(router: &Router, name: &str, message: &[u8]) -> Answer {
    let frame = [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat();
    let request =
        Request::post(format!("/inference.GRPCInferenceService/{name}")).header("content-type", "application/grpc");
    call(router, request.body(frame.into()).unwrap()).await
}

/// A request for predictions of pictures.
pub fn infer(model: &str, images: usize) -> Vec<u8> {
    let pixels: Vec<u8> = (0..images).flat_map(|i| picture(i).into_rgb()).collect();
    let shape = [images as u8, SIDE as u8, SIDE as u8, 3];
    let tensor = [field(1, b"pixels"), field(2, b"UINT8"), field(3, &shape)].concat();
    let stream = [field(1, b"stream"), field(2, &field(3, b"cam"))].concat();
    [field(1, model.as_bytes()), field(3, b"7"), field(4, &stream), field(5, &tensor), field(7, &pixels)].concat()
}

#[tokio::test]
async fn the_six_calls_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let router = server(config(folder.path())).router();
    let model = [field(1, b"stripes"), field(2, b"1")].concat();
    for (name, message) in [("ServerLive", &[][..]), ("ServerReady", &[]), ("ModelReady", &model)] {
        assert_eq!(ask(&router, name, message).await.body, [0, 0, 0, 0, 2, 8, 1], "{name}");
    }
    let text = |answer: Answer| String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text(ask(&router, "ServerMetadata", &[]).await).contains("flipcast"));
    let metadata = text(ask(&router, "ModelMetadata", &model).await);
    assert!(metadata.contains("logits") && metadata.contains("INT64"), "{metadata}");
    for _ in 0..2 {
        let answer = text(ask(&router, "ModelInfer", &infer("stripes", 3)).await);
        assert!(answer.contains("logits") && answer.contains("counted"), "{answer}");
    }
    assert_eq!(get(&router, "/streams/cam").await.json()["images"], 3, "the second request is the first again");
}

#[tokio::test]
async fn refusals_have_grpc_s_codes() {
    let folder = tempfile::tempdir().unwrap();
    let router = server(config(folder.path())).router();
    let code = async |name: &str, message: &[u8]| {
        let answer = ask(&router, name, message).await;
        answer.headers["grpc-status"].to_str().unwrap().to_owned()
    };
    assert_eq!(code("ModelReady", &field(1, b"other")).await, "5", "not found");
    assert_eq!(code("ModelInfer", &infer("other", 1)).await, "5");
    assert_eq!(code("ModelInfer", &infer("stripes", 0)).await, "3", "invalid argument");
    assert_eq!(code("ModelInfer", &[255, 255]).await, "13", "no message");
}
