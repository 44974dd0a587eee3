//! Calls `/v1` for long-running commands, and retries requests that the server asks to repeat
//! later.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use postrider::settings::{Flags, Secret, Settings};
use reqwest::header::RETRY_AFTER;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::client::{http_client, innermost_cause};
use super::error::CliError;
use super::input::SecretSource;
use super::server_args::ServerArgs;

/// The total wait for an unavailable server before a command gives up.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(600);
/// The first wait for an unavailable server. Each further wait is twice as long.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Which server, and with which API key.
#[derive(Args)]
pub(crate) struct CallerArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// With `--key -`, read an API key of the workspace from standard input. Without this option,
    /// the command uses POSTRIDER_API_KEY or demo.key in the data directory
    #[arg(long, global = true, help_heading = "Server", value_name = "-")]
    pub(crate) key: Option<String>,
    /// Read the API key from the first line of this file
    #[arg(
        long,
        global = true,
        help_heading = "Server",
        value_name = "FILE",
        conflicts_with = "key"
    )]
    pub(crate) key_file: Option<PathBuf>,
    /// The data directory of the server, which contains demo.key
    #[arg(long, global = true, help_heading = "Server", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

impl std::fmt::Debug for CallerArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallerArgs")
            .field("server", &self.server)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .field("key_file", &self.key_file)
            .field("data_dir", &self.data_dir)
            .finish()
    }
}

/// A server, and an API key of one of its workspaces.
pub(crate) struct Api {
    http: reqwest::Client,
    server: String,
    key: Secret,
}

/// The reason and the duration of a wait before a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetryWait {
    /// The reason, for people.
    pub(crate) reason: String,
    /// The shortest wait that the server asks for.
    pub(crate) pause: Duration,
    /// Set for a rate limit, which always passes, and not for a fault, which may last.
    pub(crate) is_limit: bool,
}

/// The result of one attempt.
pub(crate) enum ApiAttempt<T> {
    Done(T),
    Retry(RetryWait),
}

/// Exponential backoff with a bound on the total wait. It reports what it waits for.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    waited: Duration,
    pause: Duration,
    /// The reason that was reported last.
    said: String,
}

impl RetryBudget {
    pub(crate) fn new() -> Self {
        Self { waited: Duration::ZERO, pause: BACKOFF_MIN, said: String::new() }
    }

    /// Waits before the next attempt, or gives up. Rate limits do not use up the budget.
    ///
    /// `say` receives a line about each new reason.
    pub(crate) async fn wait(
        &mut self,
        wait: RetryWait,
        server: &str,
        say: impl FnOnce(&str),
    ) -> Result<(), CliError> {
        let pause = wait.pause.max(self.pause);
        if !wait.is_limit {
            if self.waited >= RETRY_WAIT_MAX {
                let server = server.to_owned();
                return Err(CliError::Unreachable { server, cause: wait.reason });
            }
            self.waited += pause;
            self.pause = (self.pause * 2).min(BACKOFF_MAX);
        }
        if self.said != wait.reason {
            say(&format!("waiting for {server}: {}", wait.reason));
            self.said = wait.reason;
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

impl Api {
    pub(crate) fn new(caller: &CallerArgs) -> Result<Self, CliError> {
        let server = caller.server.address();
        let key = find_api_key(caller)?;
        Ok(Self { http: http_client(&server)?, server, key })
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Identifies the key without revealing it.
    pub(crate) fn key_fingerprint(&self) -> String {
        let hash = Sha256::digest(self.key.reveal());
        hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Builds a request for `path` below `/v1`.
    pub(crate) fn request(&self, method: reqwest::Method, path: &str) -> RequestBuilder {
        let url = format!("{}/v1{path}", self.server);
        self.http.request(method, url).bearer_auth(self.key.reveal())
    }

    /// Sends a request once. Returns a successful response, or the wait before a retry.
    pub(crate) async fn send(
        &self,
        request: RequestBuilder,
    ) -> Result<ApiAttempt<Response>, CliError> {
        let response = match request.send().await {
            Ok(response) => response,
            // A request that cannot be built now cannot be sent later.
            Err(error) if error.is_builder() => {
                let (server, cause) = (self.server.clone(), innermost_cause(&error));
                return Err(CliError::Unreachable { server, cause });
            }
            Err(error) => return Ok(ApiAttempt::Retry(connection_fault(&error))),
        };
        let status = response.status();
        if status.is_success() {
            return Ok(ApiAttempt::Done(response));
        }
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(1);
        let bytes = response.bytes().await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        let (Some(message), Some(code)) = (text("message"), text("code")) else {
            let (server, what) = (self.server.clone(), format!("status {status}"));
            return Err(CliError::Answer { server, what });
        };
        match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::INTERNAL_SERVER_ERROR
            // The answer to an earlier attempt was lost, and its request is still in progress.
            | StatusCode::CONFLICT => Ok(ApiAttempt::Retry(RetryWait {
                reason: message,
                pause: Duration::from_secs(seconds),
                is_limit: status == StatusCode::TOO_MANY_REQUESTS,
            })),
            _ => Err(CliError::Refused { message, code }),
        }
    }
}

/// Returns the wait after a connection fault, which is retried.
pub(crate) fn connection_fault(error: &reqwest::Error) -> RetryWait {
    RetryWait { reason: innermost_cause(error), pause: Duration::ZERO, is_limit: false }
}

/// Returns the key of the arguments, or the demo key in the data directory.
fn find_api_key(caller: &CallerArgs) -> Result<Secret, CliError> {
    let source = SecretSource {
        flag: "key",
        given: caller.key.as_deref(),
        file: caller.key_file.as_deref(),
        variable: "POSTRIDER_API_KEY",
    };
    if let Some(key) = source.read()? {
        return Ok(key);
    }
    let flags = Flags { data_dir: caller.data_dir.clone(), listen: None };
    let path = Settings::load(None, &flags)?.server.data_dir.join("demo.key");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Secret::new(text.trim())),
        Err(source) => Err(CliError::NoKey { path, source }),
    }
}
