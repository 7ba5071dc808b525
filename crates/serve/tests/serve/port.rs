//! A real connection.

use crate::fixture::{config, pixels, server};
use flipcast_serve::{Limits, ServeConfig, ServeError, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

/// A server that runs until it is stopped.
pub struct Running {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Running {
    pub fn of(server: Server) -> Self {
        let (tell, told) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let should_stop = stop.clone();
        let run =
            move || server.run(move |address| tell.send(address).unwrap(), move || should_stop.load(Ordering::SeqCst));
        let thread = Some(std::thread::spawn(run));
        Self { address: told.recv().unwrap(), stop, thread }
    }

    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap().unwrap();
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }
}

#[test]
fn a_server_listens_answers_and_stops_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::of(server(config(folder.path())));
    let address = running.address;
    let (body, length) = pixels(0, 2, "");
    let mut connection = running.connect();
    let head = format!(
        "POST /v2/models/stripes/infer HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\nInference-Header-Content-Length: {length}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(&body).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("\"first_image\":0"), "{answer}");
    running.stop();
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn connections_that_say_nothing_end_and_let_others_in() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { seconds: 1, connections: 2, ..Limits::default() };
    let mut running = Running::of(server(ServeConfig { limits, ..config(folder.path()) }));
    let (mut silent, mut slow, mut third) = (running.connect(), running.connect(), running.connect());
    slow.write_all(b"GET /v2/health/live HTTP/1.1\r\nHo").unwrap();
    third.write_all(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    // Both places are taken until their time is over.
    let mut answer = [0; 15];
    third.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    for connection in [&mut silent, &mut slow] {
        let mut rest = String::new();
        connection.read_to_string(&mut rest).unwrap();
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 408"), "{rest}");
    }
    running.stop();
}
