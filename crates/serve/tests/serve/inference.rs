//! The Open Inference Protocol.

use crate::fixture::{SIDE, call, config, get, picture, post, send, server};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use flipcast_exec::Purpose;
use flipcast_run::Device;
use serde_json::{Value, json};

#[tokio::test]
async fn metadata_and_health_are_told_as_the_protocol_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let router = server(config(folder.path())).router();
    assert_eq!(get(&router, "/v2").await.json()["name"], "flipcast");
    for path in
        ["/v2/health/live", "/v2/health/ready", "/v2/models/stripes/ready", "/v2/models/stripes/versions/1/ready"]
    {
        assert_eq!(get(&router, path).await.status, StatusCode::OK, "{path}");
    }
    for path in ["/v2/models/stripes", "/v2/models/stripes/versions/1"] {
        let model = get(&router, path).await.json();
        assert_eq!(model["outputs"][0], json!({"name": "logits", "datatype": "FP32", "shape": [-1, 3]}));
    }
    for path in ["/v2/models/other", "/v2/models/stripes/versions/2"] {
        let refused = get(&router, path).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND);
        assert!(refused.json()["error"].as_str().unwrap().starts_with("there is no "));
    }
}

#[tokio::test]
async fn every_form_of_an_image_gives_the_network_s_own_logits() {
    let folder = tempfile::tempdir().unwrap();
    let router = server(config(folder.path())).router();
    let (model, _) = crate::fixture::network();
    let image = picture(7);
    let rule = model.preprocess().unwrap();
    let batch = rule.batch([image.clone()]).unwrap();
    let mut net = Device::cpu(1).network(model, Purpose::Predict, 1).unwrap();
    let expected: Vec<f64> = net.forward(&batch).unwrap().values().iter().map(|v| f64::from(*v)).collect();
    let mut png_bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut png_bytes, SIDE as u32, SIDE as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(image.rgb()).unwrap();
    use base64::Engine;
    let file = base64::engine::general_purpose::STANDARD.encode(&png_bytes);
    let values = rule.apply_to_vec(&image).unwrap().1;
    let planes: Vec<f32> = (0..3).flat_map(|c| values.iter().skip(c).step_by(3).copied().collect::<Vec<_>>()).collect();
    for input in [
        json!({"name": "a", "datatype": "BYTES", "shape": [1], "data": [file]}),
        json!({"name": "a", "datatype": "UINT8", "shape": [1, SIDE, SIDE, 3], "data": image.rgb()}),
        json!({"name": "a", "datatype": "FP32", "shape": [1, SIDE, SIDE, 3], "data": values}),
        json!({"name": "a", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], "data": planes}),
    ] {
        let answer = post(&router, "/v2/models/stripes/infer", json!({"id": "x", "inputs": [input]}).to_string()).await;
        let body = answer.json();
        assert_eq!(body["id"], "x");
        let found: Vec<f64> = body["outputs"][0]["data"]
            .as_array()
            .unwrap_or_else(|| panic!("{body}"))
            .iter()
            .map(|v| v.as_f64().unwrap())
            .collect();
        let close = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close, "{found:?} {expected:?}");
    }
    assert_eq!(get(&router, "/streams/default").await.json()["images"], 4);
}

#[tokio::test]
async fn binary_outputs_follow_the_json() {
    let folder = tempfile::tempdir().unwrap();
    let router = server(config(folder.path())).router();
    let request = json!({
        "inputs": [{"name": "a", "datatype": "UINT8", "shape": [1, SIDE, SIDE, 3], "data": picture(1).rgb()}],
        "outputs": [{"name": "logits", "parameters": {"binary_data": true}}, {"name": "class"}],
    });
    let answer = post(&router, "/v2/models/stripes/versions/1/infer?stream=cam", request.to_string()).await;
    let length: usize = answer.headers["inference-header-content-length"].to_str().unwrap().parse().unwrap();
    let head: Value = serde_json::from_slice(&answer.body[..length]).unwrap();
    assert_eq!(head["outputs"][0]["parameters"]["binary_data_size"], 12);
    assert_eq!(answer.body.len() - length, 12);
    assert_eq!((&head["parameters"]["stream"], &head["parameters"]["first_image"]), (&json!("cam"), &json!(0)));
    assert!(head["outputs"][1]["data"][0].is_u64());
}

#[tokio::test]
async fn windows_close_with_estimates_and_are_told_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let router = server(config(folder.path())).router();
    for batch in 0..5 {
        // Two streams in turn, in pieces that do not fit the batches of the network.
        for stream in ["a/b", "c"] {
            let stream = stream.replace('/', "%2F");
            assert_eq!(send(&router, &stream, 40 * batch, 40, "").await.status, StatusCode::OK);
        }
    }
    let stream = get(&router, "/streams/a%2Fb").await.json();
    assert_eq!(stream["images"], 200);
    let windows = get(&router, "/streams/a%2Fb/windows").await.json();
    let windows = windows["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 3);
    for window in windows {
        assert!(window["estimate"]["low"].as_f64() <= window["estimate"]["high"].as_f64(), "{window}");
        assert!(window["flips"].is_f64() && window.get("seen").is_none(), "{window}");
    }
    let records = get(&router, "/streams/c/records").await;
    let lines: Vec<&str> = std::str::from_utf8(&records.body).unwrap().lines().collect();
    assert_eq!(lines.len(), 3);
    let record: flipcast_record::RunRecord = serde_json::from_str(lines[2]).unwrap();
    assert_eq!((record.kind.as_str(), &record.result["images"]), ("estimates", &json!(64)));
    let list = get(&router, "/streams").await.json();
    assert_eq!((list["count"].as_u64(), &list["streams"][0]["stream"]), (Some(2), &json!("a/b")));
    let metrics = get(&router, "/metrics").await;
    let text = String::from_utf8(metrics.body).unwrap();
    for line in
        ["flipcast_images_total 400", "flipcast_stream_images{stream=\"c\"} 200", "flipcast_streams 2.0", "# EOF"]
    {
        assert!(text.lines().any(|found| found == line), "`{line}` is not in\n{text}");
    }
    assert!(text.contains("flipcast_estimated_accuracy_ratio{model=\"stripes\",version=\"1\",stream=\"c\""), "{text}");
    assert_eq!(get(&router, "/settings").await.json()["classes"], json!(["left", "up", "right"]));
    assert_eq!(get(&router, "/streams/nobody").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_and_counted_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let router = server(config(folder.path())).router();
    let input = |input: Value| json!({"inputs": [input]}).to_string();
    // Pixels that can be used, in a request that cannot.
    let with = |name: &str, value: Value| {
        let pixels = json!({"name": "a", "datatype": "UINT8", "shape": [1, SIDE, SIDE, 3], "data": picture(1).rgb()});
        let mut request = json!({"inputs": [pixels]});
        request[name] = value;
        request.to_string()
    };
    let cases = [
        ("{".to_owned(), "no request"),
        (
            input(json!({"name": "a", "datatype": "BYTES", "shape": [1], "data": ["AAAA"]})),
            "image 0 of the request cannot be used",
        ),
        (
            input(json!({"name": "a", "datatype": "UINT8", "shape": [1, 2, 2, 3], "data": vec![0; 12]})),
            "expected 32 x 32",
        ),
        (
            input(json!({"name": "a", "datatype": "FP32", "shape": [1, 3, 2, 2], "data": vec![0; 12]})),
            "expected 32 x 32",
        ),
        (
            input(json!({"name": "a", "datatype": "UINT8", "shape": [0, SIDE, SIDE, 3], "data": []})),
            "there are 0 images",
        ),
        (String::new(), "the body is empty"),
        (
            input(json!({"name": "a", "datatype": "UINT8", "shape": [1, 2, 2, 4], "data": []})),
            "its shape is [1, 2, 2, 4]",
        ),
        (with("outputs", json!([{"name": "boxes"}])), "there is no output `boxes`, expected `logits` or `class`"),
        (with("parameters", json!({"stream": 5})), "`parameters.stream` is 5, expected a text"),
    ];
    for (body, reason) in cases {
        let answer = post(&router, "/v2/models/stripes/infer", body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        let text = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(text.contains(reason), "{text}");
    }
    let name = send(&router, "no%20spaces", 0, 1, "").await;
    assert_eq!(name.status, StatusCode::BAD_REQUEST);
    let request = Request::post("/v2/models/stripes/infer").header("inference-header-content-length", "x");
    assert_eq!(call(&router, request.body(Body::empty()).unwrap()).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(get(&router, "/streams").await.json()["count"], 0);
}

#[tokio::test]
async fn values_too_large_for_the_network_are_the_client_s_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let router = server(config(folder.path())).router();
    let values = |value: f32, images: usize| {
        let data = vec![value; images * 3 * SIDE * SIDE];
        json!({"inputs": [{"name": "a", "datatype": "FP32", "shape": [images, SIDE, SIDE, 3], "data": data}]})
            .to_string()
    };
    let infer = |body: String| post(&router, "/v2/models/stripes/infer", body);
    let refused = infer(values(1e38, 1)).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let body = refused.json();
    assert!(
        body["error"].as_str().unwrap().starts_with("the values of image 0 of the request are too large"),
        "{body}"
    );
    assert!(body["hint"].is_string(), "{body}");
    assert_eq!(get(&router, "/streams/default").await.status, StatusCode::NOT_FOUND, "nothing was counted");
    // Squares of such values are infinite in a second look at a whole batch, which is then left out.
    assert_eq!(infer(values(1e25, 64)).await.status, StatusCode::OK);
    // A request that shares a batch with a bad one is answered.
    let (good, bad) = tokio::join!(infer(values(0.5, 1)), infer(values(1e38, 1)));
    assert_eq!((good.status, bad.status), (StatusCode::OK, StatusCode::BAD_REQUEST));
}
