//! A client that checks the rules of every answer.

use std::borrow::Borrow;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::Connection;
use super::document::check_answer;

/// A client with one bearer token, or none.
#[derive(Clone)]
pub struct Api {
    address: Arc<Mutex<SocketAddr>>,
    token: Option<String>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Api {
    pub fn new(address: &Arc<Mutex<SocketAddr>>, token: Option<&str>) -> Self {
        Self { address: Arc::clone(address), token: token.map(str::to_owned) }
    }

    /// Returns the bearer token.
    pub fn token(&self) -> &str {
        self.token.as_deref().unwrap()
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, &[], b"").await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.call("DELETE", path, &[], b"").await
    }

    pub async fn post(&self, path: &str, body: impl Borrow<Value>) -> Reply {
        self.send_json("POST", path, body.borrow()).await
    }

    pub async fn put(&self, path: &str, body: impl Borrow<Value>) -> Reply {
        self.send_json("PUT", path, body.borrow()).await
    }

    pub async fn send_json(&self, method: &str, path: &str, body: &Value) -> Reply {
        let json = [("Content-Type", "application/json")];
        self.call(method, path, &json, body.to_string().as_bytes()).await
    }

    /// Makes any request, on a connection of its own.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let address = *self.address.lock().unwrap();
        let mut connection = Connection::open(address).await;
        connection.send(self.request(method, path, headers, body)).await;
        let reply = match method {
            "HEAD" => connection.head_reply().await,
            _ => connection.reply().await,
        };
        let reply = reply.unwrap_or_else(|| panic!("{method} {path} was not answered"));
        reply.check_always(path);
        check_answer(method, path, &reply);
        reply
    }

    /// Returns the bytes of a request.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: postrider\r\n");
        if let Some(token) = &self.token {
            write!(head, "Authorization: Bearer {token}\r\n").unwrap();
        }
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        if !body.is_empty() {
            write!(head, "Content-Length: {}\r\n", body.len()).unwrap();
        }
        head.push_str("\r\n");
        [head.as_bytes(), body].concat()
    }
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(given, _)| given == name);
        let value = named.next().map(|(_, value)| value.as_str());
        assert!(named.next().is_none(), "{name} is there twice: {self:?}");
        value
    }

    /// Returns the cookies that the answer sets: the session's before that of the browser.
    pub fn cookies(&self) -> Vec<&str> {
        let set = self.headers.iter().filter(|(given, _)| given == "set-cookie");
        set.map(|(_, value)| value.as_str()).collect()
    }

    /// Returns a header that is a number.
    pub fn number(&self, name: &str) -> u64 {
        let value = self.header(name).unwrap_or_else(|| panic!("{name} is missing: {self:?}"));
        value.parse().unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Returns the body of a success.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Checks a refusal and returns its body.
    #[track_caller]
    pub fn check(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        let body = self.json();
        assert_eq!(body["code"], code, "{body}");
        body
    }

    /// Checks a refusal of a bad value whose message names `field`, and returns its body.
    #[track_caller]
    pub fn check_field(&self, field: &str) -> Value {
        let body = self.check(400, "VALIDATION_ERROR");
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(&format!("`{field}`")), "{message} does not name {field}");
        body
    }

    /// Checks the rules of every answer.
    #[track_caller]
    pub fn check_always(&self, path: &str) {
        assert!(self.header("x-request-id").is_some_and(|id| !id.is_empty()), "{self:?}");
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"), "{self:?}");
        let retryable = [429, 500, 503].contains(&self.status);
        assert_eq!(self.header("retry-after").is_some(), retryable, "{self:?}");
        if self.status >= 400 && !self.body.is_empty() {
            self.check_error();
        }
        let limits = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
        let limits = limits.map(|name| self.header(name).is_some());
        assert!(limits == [true; 3] || limits == [false; 3], "{self:?}");
        let drafts = ["ratelimit-policy", "ratelimit"].map(|name| self.header(name).is_some());
        assert_eq!(drafts, [limits[0]; 2], "{self:?}");
        if !path.starts_with("/v1") && !path.starts_with("/admin/v1") {
            assert!(!limits[0], "{path} has no limit: {self:?}");
        }
    }

    /// Checks the shape of every refusal.
    #[track_caller]
    fn check_error(&self) {
        assert_eq!(self.header("content-type"), Some("application/json"));
        let body = self.json();
        for name in ["error", "message", "code", "request_id"] {
            assert!(body[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {body}");
        }
        assert_eq!(body["request_id"].as_str(), self.header("x-request-id"));
        // Settings can turn the link off.
        if let Some(link) = self.header("link") {
            let page = format!("/{}>; rel=\"help\"", body["code"].as_str().unwrap());
            assert!(link.starts_with('<') && link.ends_with(&page), "{link}: {body}");
        }
        let retry_after = self.header("retry-after").map(|_| self.number("retry-after"));
        assert_eq!(body["retry_after"].as_u64(), retry_after, "{body}");
        assert!(retry_after.is_none_or(|seconds| seconds >= 1), "{body}");
    }
}
