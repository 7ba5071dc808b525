//! Alarms on their way out: to the log, and to an address that takes JSON.

use crate::{Log, Webhook};
use flipcast_run::monitor::Alarm;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

/// How often an alarm is sent before it is given up.
const ATTEMPTS: u32 = 4;
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Logs and sends every alarm, until no more can come.
pub async fn send_alarms(mut alarms: UnboundedReceiver<(String, Alarm)>, webhook: Option<Webhook>, log: Log) {
    while let Some((stream, alarm)) = alarms.recv().await {
        let body = json!({"stream": stream, "alarm": alarm});
        log.info("alarm", &[("stream", stream.as_str().into()), ("alarm", body["alarm"].clone())]);
        let Some(webhook) = &webhook else { continue };
        let mut sent = Err("it was never sent".to_owned());
        for attempt in 0..ATTEMPTS {
            sleep(Duration::from_secs(u64::from(attempt * attempt))).await;
            sent = timeout(ATTEMPT, post(webhook, &body)).await.unwrap_or_else(|_| Err("it took too long".to_owned()));
            if sent.is_ok() {
                break;
            }
        }
        if let Err(reason) = sent {
            log.error("alarm_not_sent", &[("to", webhook.authority.as_str().into()), ("error", reason.into())]);
        }
    }
}

async fn post(webhook: &Webhook, body: &Value) -> Result<(), String> {
    let Webhook { authority, path } = webhook;
    let body = body.to_string();
    let cannot = |error: std::io::Error| error.to_string();
    let mut connection = TcpStream::connect(authority).await.map_err(cannot)?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await.map_err(cannot)?;
    connection.write_all(body.as_bytes()).await.map_err(cannot)?;
    let mut start = [0; 12];
    connection.read_exact(&mut start).await.map_err(cannot)?;
    match &start {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', _, b' ', b'2', _, _] => Ok(()),
        other => Err(format!("it was answered with `{}`", String::from_utf8_lossy(other))),
    }
}
