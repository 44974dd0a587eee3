//! Calls to the administration of a server.

use std::time::Duration;

use postrider::settings::{Flags, Secret, Settings};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::error::CliError;
use super::remote::Remote;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for an answer, or for the next part of one.
const TIMEOUT: Duration = Duration::from_secs(70);
/// Rows that a list is asked for at a time.
const PAGE_ROWS: usize = 200;

/// A server, and the token to administer it.
pub(crate) struct Client {
    http: reqwest::Client,
    server: String,
    token: Secret,
}

impl Client {
    /// A client of the server that the arguments name.
    pub(crate) fn new(remote: &Remote) -> Result<Self, CliError> {
        let server = remote.server.trim_end_matches('/').to_owned();
        let token = token(remote)?;
        Ok(Self { http: http(&server)?, server, token })
    }

    /// Calls `path` below `/admin/v1/workspaces`; the answer of a 204 is null.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        let url = format!("{}/admin/v1/workspaces{path}", self.server);
        let mut request = self.http.request(method, url).bearer_auth(self.token.reveal());
        if let Some(body) = body {
            request = request.json(body);
        }
        answered(&self.server, request).await
    }

    /// All rows of a list.
    pub(crate) async fn list(&self, path: &str) -> Result<Value, CliError> {
        let mut rows = Vec::new();
        for page in 1.. {
            let path = format!("{path}?page={page}&limit={PAGE_ROWS}");
            let mut answer = self.call(Method::GET, &path, None).await?;
            let Value::Array(data) = answer["data"].take() else {
                return Err(odd(&self.server, StatusCode::OK));
            };
            let last = data.len() < PAGE_ROWS;
            rows.extend(data);
            if last {
                break;
            }
        }
        Ok(json!({ "total": rows.len(), "data": rows }))
    }
}

/// Sends a request to this server. Gives the body of a success; of a 204 it is null.
pub(super) async fn answered(
    server: &str,
    request: reqwest::RequestBuilder,
) -> Result<Value, CliError> {
    let unreachable = |error| unreachable(server, &error);
    let response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let bytes = response.bytes().await.map_err(unreachable)?;
    if status == StatusCode::NO_CONTENT {
        return Ok(Value::Null);
    }
    let answer: Value = serde_json::from_slice(&bytes).map_err(|_| odd(server, status))?;
    match (status.is_success(), answer["message"].as_str(), answer["code"].as_str()) {
        (true, ..) => Ok(answer),
        (false, Some(message), Some(code)) => {
            Err(CliError::Refused { message: message.to_owned(), code: code.to_owned() })
        }
        _ => Err(odd(server, status)),
    }
}

fn odd(server: &str, status: StatusCode) -> CliError {
    CliError::Answer { server: server.to_owned(), what: format!("status {status}") }
}

/// What calls a server.
pub(super) fn http(server: &str) -> Result<reqwest::Client, CliError> {
    // The provider is needed to build a client, even one that only speaks plain HTTP. Another one
    // installed before would do as well.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(TIMEOUT)
        .no_proxy()
        .build()
        .map_err(|error| unreachable(server, &error))
}

fn unreachable(server: &str, error: &reqwest::Error) -> CliError {
    CliError::Unreachable { server: server.to_owned(), cause: innermost(error) }
}

/// The innermost cause says most: "connection refused" rather than "error sending request".
pub(super) fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The token of the arguments; of the file that the server made, where a data directory is given; of
/// the settings; or of the file.
fn token(remote: &Remote) -> Result<Secret, CliError> {
    if let Some(token) = &remote.token {
        return Ok(Secret::new(token));
    }
    let flags = Flags { data_dir: remote.data_dir.clone(), listen: None };
    let settings = Settings::load(None, &flags)?;
    let given = settings.admin.token;
    if let (Some(token), None) = (&given, &remote.data_dir) {
        return Ok(token.clone());
    }
    let path = settings.server.data_dir.join("admin.token");
    match (std::fs::read_to_string(&path), given) {
        (Ok(text), _) => Ok(Secret::new(text.trim())),
        // A server that is given its token makes no file.
        (Err(_), Some(token)) => Ok(token),
        (Err(source), None) => Err(CliError::NoToken { path, source }),
    }
}
