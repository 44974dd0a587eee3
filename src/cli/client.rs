//! Calls the administration API of a server.

use std::time::Duration;

use postrider::settings::{Flags, Secret, Settings};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::error::CliError;
use super::input::SecretSource;
use super::server_args::Remote;

/// The maximum wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum wait for an answer, or for its next part.
const TIMEOUT: Duration = Duration::from_secs(70);
/// The number of rows per page of a list.
const PAGE_ROWS: usize = 200;

/// A server and its admin token.
pub(crate) struct AdminClient {
    http: reqwest::Client,
    server: String,
    token: Secret,
}

impl AdminClient {
    /// Creates a client for the server of the arguments.
    pub(crate) fn new(remote: &Remote) -> Result<Self, CliError> {
        let server = remote.server.address();
        let token = find_admin_token(remote)?;
        Ok(Self { http: http_client(&server)?, server, token })
    }

    /// Calls `path` below `/admin/v1/workspaces`. The answer of a 204 is null.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        self.administer(method, &format!("/workspaces{path}"), body).await
    }

    /// Calls `path` below `/admin/v1`, for operations on the whole server.
    ///
    /// The answer of a 204 is null.
    pub(crate) async fn administer(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        send(&self.server, request).await
    }

    /// Builds a request for `path` below `/admin/v1`.
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}/admin/v1{path}", self.server);
        self.http.request(method, url).bearer_auth(self.token.reveal())
    }

    /// Fetches all pages of a list below `/admin/v1`.
    pub(crate) async fn list(&self, path: &str) -> Result<Value, CliError> {
        let mut rows = Vec::new();
        for page in 1.. {
            let path = format!("{path}?page={page}&limit={PAGE_ROWS}");
            let mut answer = self.administer(Method::GET, &path, None).await?;
            let data = self.rows(&mut answer)?;
            let last = data.len() < PAGE_ROWS;
            rows.extend(data);
            if last {
                break;
            }
        }
        Ok(json!({ "total": rows.len(), "data": rows }))
    }

    /// Takes the rows out of a part of a list.
    pub(crate) fn rows(&self, answer: &mut Value) -> Result<Vec<Value>, CliError> {
        match answer["data"].take() {
            Value::Array(rows) => Ok(rows),
            _ => Err(unexpected(&self.server, StatusCode::OK)),
        }
    }

    /// Returns a text that an answer must have.
    pub(crate) fn text(&self, answer: &Value, name: &str) -> Result<String, CliError> {
        let text = answer[name].as_str().map(str::to_owned);
        text.ok_or_else(|| unexpected(&self.server, StatusCode::OK))
    }

    /// Returns a whole number that an answer must have.
    pub(crate) fn number(&self, answer: &Value, name: &str) -> Result<u64, CliError> {
        answer[name].as_u64().ok_or_else(|| unexpected(&self.server, StatusCode::OK))
    }
}

/// Sends a request and returns the body of a success; null if there is none.
pub(super) async fn send(
    server: &str,
    request: reqwest::RequestBuilder,
) -> Result<Value, CliError> {
    let unreachable = |error| unreachable(server, &error);
    let response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let bytes = response.bytes().await.map_err(unreachable)?;
    if status.is_success() && bytes.is_empty() {
        return Ok(Value::Null);
    }
    let answer: Value = serde_json::from_slice(&bytes).map_err(|_| unexpected(server, status))?;
    match (status.is_success(), answer["message"].as_str(), answer["code"].as_str()) {
        (true, ..) => Ok(answer),
        (false, Some(message), Some(code)) => {
            Err(CliError::Refused { message: message.to_owned(), code: code.to_owned() })
        }
        _ => Err(unexpected(server, status)),
    }
}

fn unexpected(server: &str, status: StatusCode) -> CliError {
    CliError::Answer { server: server.to_owned(), what: format!("status {status}") }
}

/// Builds an HTTP client.
pub(super) fn http_client(server: &str) -> Result<reqwest::Client, CliError> {
    trusting_http_client(server, false)
}

/// Builds an HTTP client that accepts any certificate if `anyone` is set.
pub(super) fn trusting_http_client(
    server: &str,
    anyone: bool,
) -> Result<reqwest::Client, CliError> {
    // reqwest needs a crypto provider even for plain HTTP. If another one is installed already, it
    // is used instead.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(TIMEOUT)
        .no_proxy()
        .tls_danger_accept_invalid_certs(anyone)
        .build()
        .map_err(|error| unreachable(server, &error))
}

fn unreachable(server: &str, error: &reqwest::Error) -> CliError {
    CliError::Unreachable { server: server.to_owned(), cause: innermost_cause(error) }
}

/// Returns the innermost cause of an error, which is the most specific.
///
/// It is "connection refused" instead of "error sending request".
pub(super) fn innermost_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Finds the admin token.
///
/// It is in the arguments, in the file of a given data directory, in the settings, or in the file
/// of the default data directory.
fn find_admin_token(remote: &Remote) -> Result<Secret, CliError> {
    let source = SecretSource {
        flag: "token",
        given: remote.token.as_deref(),
        file: remote.token_file.as_deref(),
        variable: "POSTRIDER_ADMIN_TOKEN",
    };
    if let Some(token) = source.read()? {
        return Ok(token);
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
        // A server with a token in its settings creates no file.
        (Err(_), Some(token)) => Ok(token),
        (Err(source), None) => Err(CliError::NoToken { path, source }),
    }
}

/// Formats the given parameters for the part of an address behind the `?`.
pub(crate) fn query<const N: usize>(parameters: [(&str, Option<String>); N]) -> String {
    let given = parameters.into_iter().filter_map(|(name, text)| Some((name, text?)));
    let pairs: Vec<_> =
        given.map(|(name, text)| format!("{name}={}", percent_encoded(&text))).collect();
    pairs.join("&")
}

fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_written_so_that_it_is_read_again() {
        let parameters =
            [("to", Some("+1 é&".to_owned())), ("none", None), ("b", Some("x".into()))];
        assert_eq!(query(parameters), "to=%2B1%20%C3%A9%26&b=x");
    }
}
