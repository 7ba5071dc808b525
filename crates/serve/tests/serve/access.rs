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
    let page = get(&router, "/").await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(String::from_utf8(page.body).unwrap().contains("page.js"));
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let open = ServeConfig { listen: "0.0.0.0:0".parse().unwrap(), ..config(folder.path()) };
    assert!(matches!(open.check(), Err(ServeError::Unprotected { .. })));
    let tokens = Tokens { read: None, write: Some("x".repeat(16)) };
    assert!(ServeConfig { tokens, ..open }.check().is_ok());
}
