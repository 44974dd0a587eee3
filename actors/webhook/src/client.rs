//! The HTTP client of all deliveries: it posts to allowed addresses only, within a timeout.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use url::Url;

use postrider_domain::Timestamp;

use crate::ssrf::{AddressRules, WebhookUrlError};

/// Longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Unused connections are closed after this.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer's body that are read.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Bytes of an answer's body that are kept.
const EXCERPT_BYTES_MAX: usize = 1024;

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The endpoint answered.
    Status {
        /// The HTTP status.
        status: u16,
        /// The pause that the endpoint asked for by `Retry-After`.
        retry_after: Option<Duration>,
        /// The beginning of the body, at most 1,024 bytes; `None` if it is empty.
        excerpt: Option<String>,
    },
    /// The endpoint did not answer.
    None(NoAnswer),
}

/// Why there was no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// Nothing came within the timeout.
    Timeout,
    /// The host resolves to an address that is not allowed; nothing was sent.
    BlockedAddress,
    /// The URL is not one that deliveries may go to; nothing was sent.
    InvalidUrl,
    /// No connection could be made; nothing was sent.
    ConnectionFailed,
    /// The connection broke after the request began. It may have arrived.
    ConnectionLost,
}

impl NoAnswer {
    /// The name that an attempt's record shows.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::BlockedAddress => "blocked_address",
            Self::InvalidUrl => "invalid_url",
            Self::ConnectionFailed => "connection_failed",
            Self::ConnectionLost => "connection_lost",
        }
    }
}

/// A request in flight, which resolves to its result.
pub type Posting<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// What posts deliveries: the HTTP client, or in tests a scripted receiver.
pub trait Post: Send + Sync {
    /// Posts `body` with `headers` to `url`. `real_now` is the time of day by which a `Retry-After`
    /// date is read. It must resolve, within a timeout of its own.
    fn post<'a>(
        &'a self,
        url: &'a str,
        headers: HeaderMap,
        body: Vec<u8>,
        real_now: Timestamp,
    ) -> Posting<'a>;
}

impl Post for Client {
    fn post<'a>(
        &'a self,
        url: &'a str,
        headers: HeaderMap,
        body: Vec<u8>,
        real_now: Timestamp,
    ) -> Posting<'a> {
        Box::pin(self.post_in_time(url, headers, body, real_now))
    }
}

/// Posts deliveries over HTTP.
pub(super) struct Client {
    http: reqwest::Client,
    rules: Arc<AddressRules>,
    timeout: Duration,
}

impl Client {
    pub(super) fn new(rules: AddressRules, timeout: Duration) -> Result<Self, reqwest::Error> {
        // A client needs one. If another provider is installed already, that one is used.
        drop(rustls::crypto::ring::default_provider().install_default());
        let rules = Arc::new(rules);
        let builder = || {
            reqwest::Client::builder()
                .user_agent(concat!("Postrider/", env!("CARGO_PKG_VERSION")))
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                // A proxy would resolve names itself, so their addresses could not be checked.
                .no_proxy()
                .dns_resolver(Guarded(Arc::clone(&rules)))
                .connect_timeout(CONNECT_TIMEOUT)
                .pool_idle_timeout(IDLE_TIMEOUT)
                .tcp_nodelay(true)
        };
        let http = builder().build().or_else(|error| {
            tracing::warn!(%error, "no certificates to trust were found: https endpoints cannot \
                 be reached");
            builder().tls_certs_only([]).build()
        })?;
        Ok(Self { http, rules, timeout })
    }

    /// Posts a body, and gives up after the timeout.
    async fn post_in_time(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
        real_now: Timestamp,
    ) -> Answer {
        // An IP address in the URL does not go through the resolver: so it is checked here.
        let url = match self.rules.check_url(url) {
            Ok(url) => url,
            Err(WebhookUrlError::BlockedAddress) => return Answer::None(NoAnswer::BlockedAddress),
            Err(_) => return Answer::None(NoAnswer::InvalidUrl),
        };
        let mut known = None;
        let posting = self.post_to(url, headers, body, real_now, &mut known);
        match tokio::time::timeout(self.timeout, posting).await {
            Ok(Ok(answer)) => answer,
            // The status decides, even if the body breaks off.
            Ok(Err(error)) => known.unwrap_or_else(|| Answer::None(reason(&error))),
            Err(_) => known.unwrap_or(Answer::None(NoAnswer::Timeout)),
        }
    }

    async fn post_to(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Vec<u8>,
        real_now: Timestamp,
        known: &mut Option<Answer>,
    ) -> Result<Answer, reqwest::Error> {
        let json = HeaderValue::from_static("application/json");
        let request = self.http.post(url).headers(headers).header(CONTENT_TYPE, json).body(body);
        let mut response = request.send().await?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| wait(value.to_str().ok()?, real_now));
        *known = Some(Answer::Status { status, retry_after, excerpt: None });
        let mut text = Vec::new();
        let mut length = 0;
        // The connection is reused only if the body was read to its end; a long one is not.
        while length <= BODY_BYTES_MAX
            && let Some(chunk) = response.chunk().await?
        {
            length += chunk.len();
            let left = EXCERPT_BYTES_MAX.saturating_sub(text.len());
            text.extend_from_slice(&chunk[..left.min(chunk.len())]);
        }
        let excerpt = (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned());
        Ok(Answer::Status { status, retry_after, excerpt })
    }
}

/// Reads `Retry-After`: seconds, or a date.
fn wait(text: &str, real_now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
    Some(Timestamp::from_millis(u64::try_from(date).ok()?).since(real_now))
}

fn reason(error: &reqwest::Error) -> NoAnswer {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<Blocked>() {
            return NoAnswer::BlockedAddress;
        }
        cause = error.source();
    }
    match error {
        error if error.is_timeout() => NoAnswer::Timeout,
        error if error.is_connect() => NoAnswer::ConnectionFailed,
        _ => NoAnswer::ConnectionLost,
    }
}

/// The error of a name that resolves to an address that is not allowed.
#[derive(Debug)]
struct Blocked;

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name leads to an address that is not allowed")
    }
}

impl Error for Blocked {}

/// Resolves names for the connector and checks the addresses. The connector connects only to what
/// this returns, so that DNS rebinding cannot replace an address after the check.
struct Guarded(Arc<AddressRules>);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = Arc::clone(&self.0);
        Box::pin(async move {
            // The port of the URL takes the place of 0.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            if found.iter().all(|address| rules.permit(address.ip())) {
                Ok(Box::new(found.into_iter()) as Addrs)
            } else {
                Err(Box::new(Blocked) as Box<dyn Error + Send + Sync>)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = "2026-01-31T09:25:00Z".parse().unwrap();
        for (text, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("Sat, 31 Jan 2026 09:26:30 GMT", Some(90)),
            ("Sat, 31 Jan 2026 09:00:00 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
            ("", None),
        ] {
            assert_eq!(wait(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_home_is_blocked() {
        let client = Client::new(
            AddressRules { allow_http: true, ..AddressRules::default() },
            Duration::from_secs(5),
        )
        .unwrap();
        for (url, expected) in [
            ("http://localhost:9/", NoAnswer::BlockedAddress),
            ("http://127.1:9/", NoAnswer::BlockedAddress),
            ("ftp://localhost/", NoAnswer::InvalidUrl),
        ] {
            let now = Timestamp::default();
            let answer = client.post(url, HeaderMap::new(), Vec::new(), now).await;
            assert_eq!(answer, Answer::None(expected), "{url}");
        }
    }
}
