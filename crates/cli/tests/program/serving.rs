//! `flipcast serve`: killed, started again, asked again.

use crate::scratch::Scratch;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server, and where it listens.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    /// The demo, whose state is kept in `state`.
    fn start(state: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_flipcast"))
            .args(["serve", "--demo", "--listen", "127.0.0.1:0", "--threads", "1", "--state"])
            .arg(state)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on http://").unwrap_or_else(|| panic!("`{line}`")).to_owned();
        Self { child, address }
    }

    /// The body of an answer, or nothing where the connection broke.
    fn call(&self, head: &str, body: &[u8]) -> Option<String> {
        let mut connection = TcpStream::connect(&self.address).ok()?;
        let head = format!(
            "{head} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body)).ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        Some(body.to_owned())
    }

    /// Sends two images to the stream `till`; whether that was acknowledged.
    fn send(&self, id: usize) -> bool {
        let pixel = (id % 200).to_string();
        let pixels = vec![pixel.as_str(); 2 * 28 * 28 * 3].join(",");
        let body = format!(
            r#"{{"id": "{id}", "parameters": {{"stream": "till"}}, "inputs": [{{"name": "x", "datatype": "UINT8", "shape": [2, 28, 28, 3], "data": [{pixels}]}}]}}"#
        );
        self.call("POST /v2/models/resnet20.fashion_mnist/infer", body.as_bytes()).is_some()
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ended");
    }
}

#[test]
fn killed_at_any_moment_it_loses_nothing_and_counts_nothing_twice() {
    let scratch = Scratch::new("serve-kill");
    let state = scratch.path("state");
    let mut id = 0;
    for round in 0..3 {
        let running = Running::start(state.as_ref());
        // What was sent last may or may not have been counted: sent again, it is counted once.
        if round > 0 {
            assert!(running.send(id));
            id += 1;
        }
        for _ in 0..7 {
            assert!(running.send(id));
            id += 1;
        }
        std::thread::scope(|scope| {
            // Killed while it answers.
            let sending = scope.spawn(|| TcpStream::connect(&running.address).is_ok() && running.send(id));
            std::thread::sleep(std::time::Duration::from_millis(2 * round));
            let pid = running.child.id().to_string();
            assert!(Command::new("kill").args(["-9", &pid]).status().expect("there is `kill`").success());
            let _ = sending.join();
        });
        running.kill();
    }
    let running = Running::start(state.as_ref());
    assert!(running.send(id));
    let stream = running.call("GET /streams/till", b"").expect("an answer");
    let images = 2 * (id + 1);
    assert!(stream.contains(&format!("\"images\":{images},")), "expected {images} in {stream}");
    running.kill();
}

#[test]
fn a_server_without_calibration_or_protection_says_what_is_missing() {
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_flipcast")).arg("serve").args(arguments).output().expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run(&[]);
    assert!(code == Some(2) && text.contains("--calibration"), "{text}");
    let (code, text) = run(&["--calibration", "missing.json"]);
    assert!(
        code == Some(2) && text.contains("`missing.json`") && !text.contains("--model"),
        "no model is needed: {text}"
    );
    let (code, text) = run(&["--demo", "--listen", "0.0.0.0:0"]);
    assert!(code == Some(2) && text.contains("hint: give --write-token FILE"), "{text}");
    let (code, text) = run(&["--demo", "--window-images", "100"]);
    assert!(code == Some(2) && text.contains("a multiple of 64"), "{text}");
    let (code, text) = run(&["--demo", "--webhook", "https://example.org"]);
    assert!(code == Some(2) && text.contains("without encryption"), "{text}");
}
