//! CloudEvents as KServe's payload logger sends them: the event's attributes are headers, the payload is the body.

use axum::http::HeaderMap;

/// A logged request or response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudEvent {
    /// Pairs a request with its response.
    pub id: String,
    /// What was logged.
    pub kind: EventKind,
    /// The service, with its namespace in front where there is one.
    pub service: Option<String>,
}

/// What was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A request with images.
    Request,
    /// A response with logits.
    Response,
}

impl CloudEvent {
    /// Reads the attributes, or says what is wrong with them.
    pub fn parse(headers: &HeaderMap) -> Result<Self, String> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let required = |name: &'static str| text(name).ok_or_else(|| format!("the header `{name}` is missing"));
        let version = required("ce-specversion")?;
        if version != "1.0" {
            return Err(format!("`ce-specversion` is `{}`, expected 1.0", shortened(version)));
        }
        let kind = match required("ce-type")? {
            "org.kubeflow.serving.inference.request" => EventKind::Request,
            "org.kubeflow.serving.inference.response" => EventKind::Response,
            other => {
                return Err(format!(
                    "`ce-type` is `{}`, expected org.kubeflow.serving.inference.request or .response",
                    shortened(other)
                ));
            }
        };
        let service = text("ce-inferenceservicename").map(|name| match text("ce-namespace") {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        });
        Ok(Self { id: required("ce-id")?.to_owned(), kind, service })
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_from_headers() {
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: &'static str| drop(headers.insert(name, value.parse().unwrap()));
        set("ce-specversion", "1.0");
        set("ce-type", "org.kubeflow.serving.inference.response");
        set("ce-id", "42");
        set("ce-inferenceservicename", "flowers");
        set("ce-namespace", "prod");
        let event = CloudEvent::parse(&headers).unwrap();
        assert_eq!((event.kind, event.service.as_deref()), (EventKind::Response, Some("prod/flowers")));
        headers.insert("ce-type", "other".parse().unwrap());
        assert!(CloudEvent::parse(&headers).unwrap_err().contains("`other`"));
        headers.remove("ce-specversion");
        assert!(CloudEvent::parse(&headers).unwrap_err().contains("ce-specversion"));
    }
}
