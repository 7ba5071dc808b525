//! Who may do what, and how long everything takes.

use crate::ApiError;
use crate::server::App;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Paths of calls over gRPC begin so.
const GRPC_SERVICE: &str = "/inference.GRPCInferenceService/";
/// Longest refusal that is put into JSON.
const LONGEST_REFUSAL: usize = 4096;

/// Lets a request through if its token allows it, counts it, and adds headers that every answer has.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let mut response = match check(&app, &request) {
        Ok(()) => in_json(next.run(request).await).await,
        Err(refused) => refused.into_response(),
    };
    app.shared.metrics.request(response.status().as_u16(), started.elapsed().as_secs_f64());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

fn check(app: &App, request: &Request) -> Result<(), ApiError> {
    let (method, path) = (request.method(), request.uri().path());
    check_site(app, request)?;
    let is_get = method == Method::GET || method == Method::HEAD;
    // The page holds no data, and probes carry no token.
    let is_probe = ["ServerLive", "ServerReady", "ModelReady"]
        .iter()
        .any(|call| path.strip_prefix(GRPC_SERVICE).is_some_and(|rest| rest == *call));
    let is_open = is_probe
        || is_get && (path.starts_with("/v2/health/") || ["/", "/page.css", "/page.js", "/charts.js"].contains(&path));
    if is_open {
        return Ok(());
    }
    let tokens = &app.config.tokens;
    // A question is remembered, so that its answer counts.
    let is_read = is_get && !path.ends_with("/ask");
    let allowed: Vec<&String> = match is_read {
        true if tokens.read.is_none() => return Ok(()),
        true => tokens.read.iter().chain(&tokens.write).collect(),
        false if tokens.write.is_none() => return Ok(()),
        false => tokens.write.iter().collect(),
    };
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|text| text.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let given = given.map(|(_, token)| token.trim());
    // KServe's logger sends no header of one's own choice, but keeps the query of its address.
    let is_sink = path == "/" && method == Method::POST;
    let query = request.uri().query().filter(|_| is_sink).unwrap_or_default();
    let in_query = query.split('&').find_map(|pair| pair.strip_prefix("token="));
    let given = given.or(in_query).unwrap_or_default();
    // All are compared, so that time tells nothing.
    let fits = allowed.iter().map(|token| is_same(token, given)).fold(false, |any, one| any | one);
    if fits {
        return Ok(());
    }
    let what = if is_read { "reading" } else { "writing" };
    let message = match given.is_empty() {
        true => format!("a token for {what} is needed: `Authorization: Bearer TOKEN`"),
        false => format!("the token given is not one for {what}"),
    };
    Err(ApiError::new(StatusCode::UNAUTHORIZED, message))
}

/// A page of another site cannot make a browser write here, nor read what a server without tokens has on the user's own machine.
fn check_site(app: &App, request: &Request) -> Result<(), ApiError> {
    let text = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    // HTTP/2 has the host in the address.
    let host = request.uri().authority().map(|authority| authority.as_str()).or(text(header::HOST));
    if let Some(origin) = text(header::ORIGIN) {
        let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
        if host != Some(authority) {
            let message =
                format!("the request comes from a page of `{}`, expected one of this server", shortened(origin));
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
    }
    // A name that another site lets point here would make its pages pages of this one.
    let is_open = app.config.listen.ip().is_loopback() && app.config.tokens.write.is_none();
    match host.filter(|host| is_open && !is_local(host)) {
        Some(host) => {
            let message = format!("the host is `{}`, expected localhost or an address", shortened(host));
            Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, message)
                .with_hint("a token for writing allows any name"))
        }
        None => Ok(()),
    }
}

/// Whether a host, perhaps with a port, is this machine by name, or an address.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// What a request is refused with before a route sees it, in JSON as all refusals are.
async fn in_json(response: Response) -> Response {
    let is_text = |value: &HeaderValue| value.as_bytes().starts_with(b"text/plain");
    let status = response.status();
    if !status.is_client_error() || !response.headers().get(header::CONTENT_TYPE).is_some_and(is_text) {
        return response;
    }
    let reason = to_bytes(response.into_body(), LONGEST_REFUSAL).await.unwrap_or_default();
    let reason = String::from_utf8_lossy(&reason).replace("Failed to deserialize query string: ", "in the address, ");
    ApiError::new(status, reason).into_response()
}

/// Whether two texts are the same, in a time that depends on their lengths alone.
fn is_same(expected: &str, given: &str) -> bool {
    let differs = expected.bytes().zip(given.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
    (expected.len() == given.len()) & (differs == 0)
}
