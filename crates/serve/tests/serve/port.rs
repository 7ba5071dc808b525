//! A real connection.

use crate::fixture::{config, pixels, server};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

#[test]
fn a_server_listens_answers_and_stops_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(config(folder.path()));
    let (tell, told) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let should_stop = stop.clone();
    let running = std::thread::spawn(move || {
        server.run(move |address| tell.send(address).unwrap(), move || should_stop.load(Ordering::SeqCst))
    });
    let address = told.recv().unwrap();
    let (body, length) = pixels(0, 2, "");
    let mut connection = TcpStream::connect(address).unwrap();
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
    stop.store(true, Ordering::SeqCst);
    running.join().unwrap().unwrap();
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}
