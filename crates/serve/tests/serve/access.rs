//! Tokens, origins, and the page.

use crate::fixture::{call, config, get, outputs_server};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use flipcast_serve::{ServeConfig, ServeError, Tokens};

#[tokio::test]
async fn tokens_keep_readers_from_writing_and_strangers_from_both() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens { read: Some("reading-0123456789".to_owned()), write: Some("writing-0123456789".to_owned()) };
    let router = outputs_server(ServeConfig { tokens, ..config(folder.path()) }).router();
    let status = async |method: &str, path: &str, token: &str| {
        let request = Request::builder().method(method).uri(path).header("authorization", format!("Bearer {token}"));
        call(&router, request.body(Body::empty()).unwrap()).await.status
    };
    for (method, path) in [("GET", "/streams"), ("GET", "/metrics"), ("GET", "/v2/models/stripes")] {
        assert_eq!(status(method, path, "").await, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(status(method, path, "reading-012345678").await, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(status(method, path, "reading-0123456789").await, StatusCode::OK, "{path}");
        assert_eq!(status(method, path, "writing-0123456789").await, StatusCode::OK, "{path}");
    }
    for (method, path) in [("POST", "/labels"), ("POST", "/streams/x/reset"), ("GET", "/streams/x/ask"), ("POST", "/")]
    {
        assert_eq!(status(method, path, "reading-0123456789").await, StatusCode::UNAUTHORIZED, "{path}");
        assert_ne!(status(method, path, "writing-0123456789").await, StatusCode::UNAUTHORIZED, "{path}");
    }
    for path in ["/", "/page.js", "/v2/health/live", "/v2/health/ready"] {
        assert_eq!(get(&router, path).await.status, StatusCode::OK, "{path}");
    }
    let request = Request::get("/streams").header("authorization", "bearer  reading-0123456789");
    assert_eq!(call(&router, request.body(Body::empty()).unwrap()).await.status, StatusCode::OK);
    // KServe's logger sends no header of one's own choice.
    let request = Request::post("/?token=writing-0123456789");
    assert_eq!(call(&router, request.body(Body::empty()).unwrap()).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_page_of_another_site_cannot_use_the_browser_of_a_user() {
    let folder = tempfile::tempdir().unwrap();
    let router = outputs_server(config(folder.path())).router();
    for (origin, status) in
        [("http://127.0.0.1:8686", StatusCode::NOT_FOUND), ("http://evil.example", StatusCode::FORBIDDEN)]
    {
        let request = Request::post("/streams/s/reset").header("host", "127.0.0.1:8686").header("origin", origin);
        assert_eq!(call(&router, request.body(Body::empty()).unwrap()).await.status, status, "{origin}");
    }
    // HTTP/2 names the host in the address.
    let request = Request::post("http://127.0.0.1:8686/streams/s/reset").header("origin", "http://127.0.0.1:8686");
    assert_eq!(call(&router, request.body(Body::empty()).unwrap()).await.status, StatusCode::NOT_FOUND);
    let page = get(&router, "/").await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(String::from_utf8(page.body).unwrap().contains("page.js"));
}

#[tokio::test]
async fn a_name_that_another_site_points_here_is_refused_without_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let open = outputs_server(config(&folder.path().join("open"))).router();
    let tokens = Tokens { read: None, write: Some("x".repeat(16)) };
    let closed = outputs_server(ServeConfig { tokens, ..config(&folder.path().join("closed")) }).router();
    let ask = async |router, host: &str| {
        let answer = call(router, Request::get("/streams").header("host", host).body(Body::empty()).unwrap()).await;
        (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
    };
    for host in ["localhost", "LOCALHOST:8686", "monitor.localhost", "127.0.0.1:8686", "[::1]:8686", "10.0.0.7"] {
        assert_eq!(ask(&open, host).await.0, StatusCode::OK, "{host}");
    }
    let (status, error) = ask(&open, "rebound.example:8686").await;
    assert_eq!(status, StatusCode::MISDIRECTED_REQUEST);
    assert!(error.contains("`rebound.example:8686`, expected localhost"), "{error}");
    assert_eq!(ask(&closed, "monitor.example").await.0, StatusCode::OK);
}

#[tokio::test]
async fn every_refusal_is_json_and_says_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let router = outputs_server(config(folder.path())).router();
    for (method, path, status, found) in [
        ("GET", "/nowhere", StatusCode::NOT_FOUND, "`/nowhere`"),
        ("PUT", "/labels", StatusCode::METHOD_NOT_ALLOWED, "`/labels` does not take PUT, expected POST"),
        ("DELETE", "/streams/s", StatusCode::METHOD_NOT_ALLOWED, "`/streams/s` does not take DELETE, expected GET"),
        ("GET", "/streams/s/reset", StatusCode::METHOD_NOT_ALLOWED, "expected POST"),
        ("GET", "/streams?limit=many", StatusCode::BAD_REQUEST, "limit: `many`, expected a whole number from 1 on"),
        ("GET", "/streams?limit=0", StatusCode::BAD_REQUEST, "limit: `0`, expected a whole number from 1 on"),
        ("GET", "/streams/s/ask?n=-1", StatusCode::BAD_REQUEST, "n: `-1`, expected"),
        ("GET", "/streams/s", StatusCode::NOT_FOUND, "no stream called `s`"),
        ("GET", "/streams/s/windows", StatusCode::NOT_FOUND, "no stream called `s`"),
        ("GET", "/streams/s/records", StatusCode::NOT_FOUND, "no stream called `s`"),
        ("GET", "/streams/s/windows?kind=weekly", StatusCode::BAD_REQUEST, "weekly"),
        ("GET", "/streams/s/images/first", StatusCode::BAD_REQUEST, "`first`, expected its number"),
        ("GET", "/streams/s/images/7", StatusCode::NOT_FOUND, "no stream called `s`"),
        ("POST", "/", StatusCode::BAD_REQUEST, "`ce-specversion` is missing"),
        ("GET", "/streams/s%00", StatusCode::BAD_REQUEST, "expected 1 to 128"),
    ] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let answer = call(&router, request).await;
        let error = answer.json()["error"].as_str().unwrap_or_default().to_owned();
        assert_eq!(answer.status, status, "{path}: {error}");
        assert!(error.contains(found), "{path}: {error}");
    }
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let open = ServeConfig { listen: "0.0.0.0:0".parse().unwrap(), ..config(folder.path()) };
    assert!(matches!(open.check(), Err(ServeError::Unprotected { .. })));
    let tokens = Tokens { read: None, write: Some("x".repeat(16)) };
    assert!(ServeConfig { tokens, ..open.clone() }.check().is_ok());
    for write in [None, Some("x".repeat(16))] {
        let tokens = Tokens { read: Some("x".repeat(16)), write };
        let config = ServeConfig { listen: "127.0.0.1:0".parse().unwrap(), tokens, ..open.clone() };
        assert!(config.check().unwrap_err().to_string().contains("the token for writing is"));
    }
}
