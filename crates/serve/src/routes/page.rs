//! The page: four files that come with the program and need nothing else.

use crate::ApiError;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::IntoResponse;

const PAGE: &str = include_str!("../../assets/page.html");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");
const CHARTS: &str = include_str!("../../assets/charts.js");
/// The type of both scripts.
const SCRIPT_TYPE: &str = "text/javascript; charset=utf-8";
/// Nothing from elsewhere, nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub async fn page() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)], PAGE)
}

pub async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

pub async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, SCRIPT_TYPE)], SCRIPT)
}

pub async fn charts() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, SCRIPT_TYPE)], CHARTS)
}

pub async fn no_such_page(uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(64).collect();
    let message = format!("there is nothing at `{path}`");
    ApiError::new(StatusCode::NOT_FOUND, message)
        .with_hint("`/` is the page, `/v2` the protocol, `/streams` all streams")
}

pub async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let is_below = |folder: &str, last: &str| uri.path().strip_prefix(folder).is_some_and(|rest| rest.ends_with(last));
    let is_call = is_below("/inference.", "") || is_below("/v2/models/", "/infer") || is_below("/streams/", "/reset");
    let expected = match uri.path() {
        "/" => "GET or POST",
        "/labels" => "POST",
        _ if is_call => "POST",
        _ => "GET",
    };
    let path: String = uri.path().chars().take(64).collect();
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, format!("`{path}` does not take {method}, expected {expected}"))
}
