//! Calls the server of the demo, as a program with its key and as its administrator.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use postrider::RunningServer;
use reqwest::Method;
use serde_json::Value;

use crate::cli::client::{http_client, send};
use crate::cli::error::CliError;

/// The interval between two polls for an expected result, and the maximum number of polls.
const POLL_EVERY: Duration = Duration::from_millis(20);
const POLLS_MAX: usize = 3000;

/// Calls the API with the key of the demo workspace, and below `/admin/v1` with the admin token.
pub(super) struct DemoClient {
    http: reqwest::Client,
    server: String,
    key: String,
    token: String,
}

impl DemoClient {
    pub(super) fn of(server: &RunningServer) -> Result<Self, CliError> {
        let address = format!("http://{}", server.address());
        let http = http_client(&address)?;
        let key = server.demo_key().unwrap_or_default().to_owned();
        Ok(Self { http, server: address, key, token: String::new() })
    }

    /// Adds the admin token of the data directory.
    pub(super) fn with_admin(self, directory: &Path) -> Result<Self, CliError> {
        let read = std::fs::read_to_string(directory.join("admin.token"));
        let token =
            read.map_err(|source| CliError::Io { what: "cannot read the admin token", source })?;
        Ok(Self { token: token.trim().to_owned(), ..self })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, CliError> {
        self.call(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, CliError> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Calls `path` below `/v1`.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        self.request(method, &format!("/v1{path}"), &self.key, body).await
    }

    /// Calls `path` below `/admin/v1`.
    pub(super) async fn administer(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        self.request(method, &format!("/admin/v1{path}"), &self.token, body).await
    }

    /// Polls `path` until `found` finds the result that is expected soon.
    pub(super) async fn wait<T>(
        &self,
        path: &str,
        found: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, CliError> {
        for _ in 0..POLLS_MAX {
            if let Some(found) = found(&self.get(path).await?) {
                return Ok(found);
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        Err(self.unexpected(&format!("{path} does not show the expected result")))
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        let mut request =
            self.http.request(method, format!("{}{path}", self.server)).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(body);
        }
        send(&self.server, request).await
    }

    pub(super) fn unexpected(&self, what: &str) -> CliError {
        CliError::Answer { server: self.server.clone(), what: what.to_owned() }
    }
}

pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    printed.map_err(|source| CliError::Io { what: "standard output", source })
}

/// Returns a text of an answer; empty if there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
