//! A real Prometheus reads the metrics, with the configuration and rules of `deploy/`.
//!
//! Needs Debian's package `prometheus`; without it the tests say so and pass.

use crate::fixture::{config, picture, server};
use crate::port::Running;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long Prometheus may take until it has read something.
const PATIENCE: Duration = Duration::from_secs(60);

fn program(name: &str) -> Option<PathBuf> {
    let path = Path::new("/usr/bin").join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: there is no `{}`", path.display());
    None
}

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// Ends with the test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What Prometheus answers, as text.
fn ask(address: SocketAddr, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(address).ok()?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn rules_and_configuration_pass_promtool() {
    let Some(promtool) = program("promtool") else { return };
    for (what, file) in [("rules", "alerts.yml"), ("config", "prometheus.yml")] {
        let checked = Command::new(&promtool).args(["check", what]).arg(deploy(file)).output().unwrap();
        assert!(checked.status.success(), "{file}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn a_prometheus_scrapes_the_metrics_and_evaluates_the_rules() {
    let Some(prometheus) = program("prometheus") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = server(config(&folder.path().join("state")));
    assert_eq!(server.feeder().send("till", (0..64).map(picture).collect()), Ok(true));
    let mut running = Running::of(server);
    let settings = std::fs::read_to_string(deploy("prometheus.yml")).unwrap();
    let settings = settings.replace("127.0.0.1:8686", &running.address.to_string()).replace("15s", "1s");
    std::fs::write(folder.path().join("prometheus.yml"), settings).unwrap();
    let rules = std::fs::read_to_string(deploy("alerts.yml")).unwrap();
    let rules = rules.replace("- name: flipcast", "- name: flipcast\n    interval: 1s");
    std::fs::write(folder.path().join("alerts.yml"), rules).unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = Command::new(prometheus)
        .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _prometheus = Ended(started.unwrap());
    let (query, until) =
        ("/api/v1/query?query=flipcast_stream_images%7Bstream%3D%22till%22%7D", Instant::now() + PATIENCE);
    loop {
        let answer = ask(address, query).unwrap_or_default();
        let rules = ask(address, "/api/v1/rules").unwrap_or_default();
        if answer.contains("\"64\"]") && rules.matches("\"health\":\"ok\"").count() == 4 {
            break;
        }
        assert!(Instant::now() < until, "{answer}\n{rules}");
        std::thread::sleep(Duration::from_millis(100));
    }
    running.stop();
}
