//! Questions, labels and alarms.

use crate::fixture::{config, get, log_response, logits, outputs_server, post, send, server};
use axum::http::StatusCode;
use flipcast_serve::ServeConfig;
use serde_json::{Value, json};

#[tokio::test]
async fn labels_of_images_asked_about_make_the_estimate_powered() {
    let folder = tempfile::tempdir().unwrap();
    let router = outputs_server(config(folder.path())).router();
    let (rows, labels) = logits(64, 2.0, 9);
    assert_eq!(log_response(&router, "flowers", &rows, "1").await.status, StatusCode::ACCEPTED);
    let asked = get(&router, "/streams/flowers/ask?n=20").await.json();
    let asked = asked["questions"].as_array().unwrap();
    assert_eq!(asked.len(), 20);
    let names = ["left", "up", "right"];
    let answers: Vec<Value> = asked
        .iter()
        .map(|question| {
            let image = question["image"].as_u64().unwrap() as usize;
            match image % 2 {
                0 => json!({"image": image, "class": names[labels[image]]}),
                _ => json!({"image": image, "right": question["predicted"].as_u64() == Some(labels[image] as u64)}),
            }
        })
        .collect();
    let label = |labels: Value| post(&router, "/labels", json!({"stream": "flowers", "labels": labels}).to_string());
    assert_eq!(label(json!(answers)).await.json()["counted"], 20);
    let stream = get(&router, "/streams/flowers").await.json();
    assert_eq!(stream["labels"]["labels"], 20);
    assert!(stream["labels"]["powered"]["estimate"]["accuracy"].is_f64());
    assert_eq!(stream["open"]["labelled"]["labels"], 20);
    for (labels, status) in [
        (json!([]), StatusCode::BAD_REQUEST),
        (json!([{"image": 0}]), StatusCode::BAD_REQUEST),
        (json!([{"image": asked[0]["image"], "class": "sideways"}]), StatusCode::BAD_REQUEST),
        (json!([{"image": 999, "right": true}]), StatusCode::CONFLICT),
    ] {
        let refused = label(labels).await;
        assert_eq!(refused.status, status, "{}", refused.json());
    }
    assert_eq!(get(&router, "/streams/nobody/ask").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_shift_raises_an_alarm_until_somebody_takes_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let router = outputs_server(config(folder.path())).router();
    let alarms = async || get(&router, "/streams").await.json()["streams"][0]["alarms"].clone();
    for (batch, noise) in [1.0, 1.0, 1.0, 3.0, 3.0].into_iter().enumerate() {
        log_response(&router, "s", &logits(300, noise, 70 + batch as u64).0, &batch.to_string()).await;
        let expected = if batch < 3 { json!([]) } else { json!(["covariate_shift"]) };
        assert_eq!(alarms().await, expected, "after batch {batch}");
    }
    let stream = get(&router, "/streams/s").await.json();
    let image = stream["alarms"][0]["image"].as_u64().unwrap();
    assert!((900..1100).contains(&image), "{image}");
    assert_eq!(post(&router, "/streams/s/reset", "").await.status, StatusCode::OK);
    assert_eq!(alarms().await, json!([]));
}

#[tokio::test]
async fn images_are_kept_only_where_somebody_asked_for_it() {
    for keep_images in [None, Some(3600)] {
        let folder = tempfile::tempdir().unwrap();
        let router = server(ServeConfig { keep_images, ..config(folder.path()) }).router();
        send(&router, "s", 0, 8, "").await;
        let question = get(&router, "/streams/s/ask?n=4").await.json()["questions"][0].clone();
        assert_eq!(question["is_kept"], keep_images.is_some(), "pixels are kept as files");
        let image = get(&router, &format!("/streams/s/images/{}", question["image"])).await;
        match keep_images {
            None => assert_eq!(image.status, StatusCode::NOT_FOUND),
            Some(_) => assert_eq!(image.headers["content-type"], "image/png"),
        }
    }
}
