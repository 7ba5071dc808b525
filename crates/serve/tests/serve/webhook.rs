//! Alarms on their way out.

use crate::fixture::{config, log_response, logits, outputs_server};
use flipcast_serve::{ServeConfig, ServeError, Webhook};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// An address that answers every connection with the next of `answers`, and what it was sent.
fn receiver(answers: &'static [&'static str]) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut connection, _) = listener.accept().unwrap();
            let (mut text, mut piece) = (Vec::new(), [0; 4096]);
            loop {
                let request = String::from_utf8_lossy(&text).into_owned();
                let length = request
                    .to_ascii_lowercase()
                    .split_once("content-length: ")
                    .and_then(|(_, rest)| rest.split_once("\r\n").and_then(|(number, _)| number.parse::<usize>().ok()));
                let body = request.split_once("\r\n\r\n").map(|(_, body)| body.len());
                if body.is_some() && body == length {
                    break;
                }
                let read = connection.read(&mut piece).unwrap();
                text.extend_from_slice(&piece[..read]);
            }
            tell.send(String::from_utf8(text).unwrap()).unwrap();
            connection.write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, told)
}

#[tokio::test]
async fn an_alarm_is_posted_as_json_until_it_is_taken() {
    let (address, told) =
        receiver(&["HTTP/1.1 503 Busy\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"]);
    let folder = tempfile::tempdir().unwrap();
    let webhook = Some(Webhook::parse(&format!("http://{address}/alarms?team=till")).unwrap());
    let server = outputs_server(ServeConfig { webhook, ..config(folder.path()) });
    let router = server.router();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(listener, async move { drop(stopped.await) }));
    log_response(&router, "s", &logits(500, 1.0, 5).0, "clean").await;
    log_response(&router, "s", &logits(500, 4.0, 6).0, "shifted").await;
    let wait = Duration::from_secs(20);
    let requests = tokio::task::spawn_blocking(move || [told.recv_timeout(wait), told.recv_timeout(wait)]);
    let requests = requests.await.unwrap().map(Result::unwrap);
    assert_eq!(requests[0], requests[1], "what was refused comes again, the same");
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /alarms?team=till HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("Content-Type: application/json") && head.contains(&format!("Host: {address}")), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["stream"], &body["alarm"]["kind"]), (&"s".into(), &"covariate_shift".into()));
    assert!(body["alarm"]["image"].as_u64().unwrap() >= 500 && !body["alarm"]["images"].as_array().unwrap().is_empty());
    drop((router, stop));
    serving.await.unwrap().unwrap();
}

#[test]
fn an_address_that_cannot_be_used_is_refused() {
    for url in ["https://host/x", "host:80/x", "http:///x", "http://a b/"] {
        assert!(matches!(Webhook::parse(url), Err(ServeError::Setting { .. })), "{url}");
    }
    assert_eq!(Webhook::parse("http://host").unwrap(), Webhook { authority: "host:80".into(), path: "/".into() });
}
