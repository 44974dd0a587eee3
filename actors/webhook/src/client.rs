//! The HTTP client of deliveries and gateways: it posts to allowed addresses, within a timeout.

mod lookups;
pub mod signature;
pub mod ssrf;

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{HttpConnector, HttpInfo};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use postrider_domain::{Timestamp, WorkspaceId};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::sync::Notify;
use tower_service::Service;

use crate::exchanges::{
    AnswerText, COMMON_HEADERS, ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, header_texts,
};

pub(crate) use lookups::on_behalf_of;
use lookups::{Lookups, Resolver, SystemResolver, current_workspace};
use signature::WebhookSecret;
use ssrf::{AddressRules, WebhookUrlError, is_public};

/// The maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which unused connections are closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer's head that are read.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes of an answer's body that are read.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Bytes of an answer's body that are kept.
const EXCERPT_BYTES_MAX: usize = 1024;

/// The maximum of URLs that are remembered as checked.
const CHECKED_MAX: usize = 1024;

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The endpoint answered.
    Status {
        /// The HTTP status.
        status: u16,
        /// The pause that the endpoint asked for by `Retry-After`.
        retry_after: Option<Duration>,
        /// The beginning of the body, at most 1,024 bytes. `None` if it is empty, or if the address
        /// is not public: the owner of an endpoint must not see the answers of local services.
        excerpt: Option<String>,
        /// The headers and more of the body, for a while; `None` if `excerpt` must be.
        text: Option<Box<AnswerText>>,
    },
    /// The endpoint did not answer.
    None(NoAnswer),
}

/// The reason why there was no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// Nothing came within the timeout.
    Timeout,
    /// The host resolves to an address that is not allowed; nothing was sent.
    BlockedAddress,
    /// Deliveries may not go to the URL; nothing was sent.
    InvalidUrl,
    /// No connection could be made; nothing was sent.
    ConnectionFailed,
    /// The connection broke after the request began. It may have arrived.
    ConnectionLost,
    /// The head of the answer, or the answers before it, had no end. The request may have arrived.
    ResponseTooLarge,
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
            Self::ResponseTooLarge => "response_too_large",
        }
    }
}

/// A request in flight, which resolves to its result.
pub type Posting<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// The client that posts deliveries: over HTTP, or in tests a scripted receiver.
pub trait Post: Send + Sync {
    /// Posts `body` with `headers` to `url`. It must resolve, within a timeout of its own.
    ///
    /// A date in `Retry-After` is relative to `real_now`, the time of day.
    fn post<'a>(
        &'a self,
        url: &'a str,
        headers: HeaderMap,
        body: Vec<u8>,
        real_now: Timestamp,
    ) -> Posting<'a>;
}

impl Post for DeliveryClient {
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

/// Posts deliveries over HTTP/1.1. It follows no redirect and uses no proxy, which would resolve
/// names itself, so that their addresses could not be checked.
pub(super) struct DeliveryClient {
    http: legacy::Client<HttpsConnector<HttpConnector<GuardedResolver>>, Full<Bytes>>,
    rules: Arc<AddressRules>,
    /// URLs that obey the rules, which do not change.
    checked: Mutex<HashMap<String, Uri>>,
    timeout: Duration,
    /// Set if answers of local services are returned too.
    reads_local: bool,
}

impl DeliveryClient {
    /// Returns the client with access to the answers of local services.
    pub(super) fn reading_local(self) -> Self {
        Self { reads_local: true, ..self }
    }

    pub(super) fn new(rules: AddressRules, timeout: Duration) -> Result<Self, rustls::Error> {
        Self::with_resolver(rules, timeout, SystemResolver)
    }

    fn with_resolver(
        rules: AddressRules,
        timeout: Duration,
        resolver: impl Resolver,
    ) -> Result<Self, rustls::Error> {
        let rules = Arc::new(rules);
        let lookups = Arc::new(Lookups::new(resolver));
        let guarded = GuardedResolver { rules: Arc::clone(&rules), lookups };
        let mut connector = HttpConnector::new_with_resolver(guarded);
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(connector);
        Ok(Self { http, rules, checked: Mutex::default(), timeout, reads_local: false })
    }

    /// Returns the parsed URL, if deliveries may go to it.
    ///
    /// An IP address in it does not go through the resolver. So it is checked here.
    fn check_url(&self, url: &str) -> Result<Uri, NoAnswer> {
        if let Some(uri) = self.checked.lock().get(url) {
            return Ok(uri.clone());
        }
        let checked = self.rules.check_url(url).map_err(|error| match error {
            WebhookUrlError::BlockedAddress => NoAnswer::BlockedAddress,
            _ => NoAnswer::InvalidUrl,
        })?;
        let uri: Uri = checked.as_str().parse().map_err(|_| NoAnswer::InvalidUrl)?;
        let mut checked = self.checked.lock();
        if checked.len() >= CHECKED_MAX {
            checked.clear();
        }
        checked.insert(url.to_owned(), uri.clone());
        Ok(uri)
    }

    /// Posts a body, and gives up after the timeout.
    async fn post_in_time(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
        real_now: Timestamp,
    ) -> Answer {
        let uri = match self.check_url(url) {
            Ok(uri) => uri,
            Err(why) => return Answer::None(why),
        };
        let mut known = None;
        let posting = self.post_to(uri, headers, body, real_now, &mut known);
        match tokio::time::timeout(self.timeout, posting).await {
            Ok(Ok(answer)) => answer,
            // The status decides, even if the body breaks off.
            Ok(Err(why)) => known.unwrap_or(Answer::None(why)),
            Err(_) => known.unwrap_or(Answer::None(NoAnswer::Timeout)),
        }
    }

    async fn post_to(
        &self,
        uri: Uri,
        headers: HeaderMap,
        body: Vec<u8>,
        real_now: Timestamp,
        known: &mut Option<Answer>,
    ) -> Result<Answer, NoAnswer> {
        let mut request = post_request(uri, headers, body);
        let interim = InterimAnswers::count_in(&mut request);
        let response = tokio::select! {
            biased;
            // Dropping the request closes the connection.
            () = interim.are_too_many() => return Err(NoAnswer::ResponseTooLarge),
            response = self.http.request(request) => {
                response.map_err(|error| no_answer_reason(&error))?
            }
        };
        if interim.were_too_many() {
            return Err(NoAnswer::ResponseTooLarge);
        }
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after =
            retry_after.and_then(|value| read_retry_after(value.to_str().ok()?, real_now));
        let remote = response.extensions().get::<HttpInfo>().map(HttpInfo::remote_addr);
        let is_shown = self.reads_local || remote.is_some_and(|it| is_public(it.ip()));
        *known = Some(Answer::Status { status, retry_after, excerpt: None, text: None });
        let headers = if is_shown { header_texts(response.headers()) } else { Vec::new() };
        let mut body = response.into_body();
        let mut text = Vec::new();
        let mut length = 0;
        // The connection is reused only if the body was read to its end; a long one is not.
        while length <= BODY_BYTES_MAX
            && let Some(frame) = body.frame().await
        {
            let frame = frame.map_err(|_| NoAnswer::ConnectionLost)?;
            let Ok(chunk) = frame.into_data() else { continue };
            length += chunk.len();
            let left = BODY_BYTES_MAX.saturating_sub(text.len());
            text.extend_from_slice(&chunk[..left.min(chunk.len())]);
        }
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let start = &text[..text.len().min(EXCERPT_BYTES_MAX)];
        let excerpt = (is_shown && !start.is_empty()).then(|| shown(start));
        let text = is_shown.then(|| Box::new(AnswerText { headers, body: shown(&text) }));
        Ok(Answer::Status { status, retry_after, excerpt, text })
    }
}

/// The HTTP client of gateways that an operator has set.
///
/// It obeys the address rules of webhooks. Unlike their client, it returns the answers of local
/// services.
pub struct GatewayClient(DeliveryClient);

impl GatewayClient {
    /// Creates a client that calls allowed addresses only, and gives up after the timeout.
    ///
    /// # Errors
    /// No encryption can be set up.
    pub fn new(rules: AddressRules, timeout: Duration) -> Result<Self, rustls::Error> {
        Ok(Self(DeliveryClient::new(rules, timeout)?.reading_local()))
    }

    /// Posts a body under an id, signed by Standard Webhooks. It resolves within the timeout.
    pub async fn post(
        &self,
        (workspace, url): (&WorkspaceId, &str),
        id: &str,
        secret: &WebhookSecret,
        body: Vec<u8>,
        real_now: Timestamp,
    ) -> Answer {
        let signature = secret.sign(id, real_now.as_secs(), &body);
        let mut headers = HeaderMap::with_capacity(3);
        // Both are visible ASCII.
        for (name, text) in [(ID_HEADER, id), (SIGNATURE_HEADER, signature.as_str())] {
            headers.extend(HeaderValue::from_str(text).ok().map(|value| (name, value)));
        }
        headers.insert(TIMESTAMP_HEADER, HeaderValue::from(real_now.as_secs()));
        on_behalf_of(workspace, self.0.post(url, headers, body, real_now)).await
    }
}

/// Returns a `POST` of JSON with these headers.
fn post_request(uri: Uri, headers: HeaderMap, body: Vec<u8>) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    for (name, text) in COMMON_HEADERS {
        request.headers_mut().insert(name, HeaderValue::from_static(text));
    }
    request
}

/// The certificates to trust are those of the system. Without any, only `http` can be delivered to.
fn tls_config() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    Ok(match Verifier::new(provider) {
        Ok(verifier) => {
            let builder = builder.dangerous();
            // The verifier is the system's own.
            builder.with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
        Err(error) => {
            tracing::warn!(%error, "no certificates to trust were found: https endpoints cannot \
                 be reached");
            builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    })
}

/// Reads `Retry-After`: seconds, or a date.
fn read_retry_after(text: &str, real_now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
    Some(Timestamp::from_millis(u64::try_from(date).ok()?).since(real_now))
}

fn no_answer_reason(error: &legacy::Error) -> NoAnswer {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<BlockedName>() {
            return NoAnswer::BlockedAddress;
        }
        if error.downcast_ref().is_some_and(hyper::Error::is_parse_too_large) {
            return NoAnswer::ResponseTooLarge;
        }
        let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if io == Some(std::io::ErrorKind::TimedOut) {
            return NoAnswer::Timeout;
        }
        cause = error.source();
    }
    if error.is_connect() { NoAnswer::ConnectionFailed } else { NoAnswer::ConnectionLost }
}

/// The error of a name that resolves to an address that is not allowed.
#[derive(Debug)]
struct BlockedName;

impl fmt::Display for BlockedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name leads to an address that is not allowed")
    }
}

impl Error for BlockedName {}

/// Resolves names for the connector and checks the addresses.
///
/// The connector connects only to the returned addresses, so that DNS rebinding cannot replace an
/// address after the check.
#[derive(Clone)]
struct GuardedResolver {
    rules: Arc<AddressRules>,
    lookups: Arc<Lookups>,
}

type BoxError = Box<dyn Error + Send + Sync>;

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { rules, lookups } = self.clone();
        // The connector calls this in the task that makes the delivery.
        let workspace = current_workspace();
        Box::pin(async move {
            // The port of the URL takes the place of 0.
            let found = lookups.resolve(workspace, name.as_str().to_owned()).await?;
            if found.iter().all(|address| rules.permit(address.ip())) {
                Ok(found.into_iter())
            } else {
                Err(BlockedName.into())
            }
        })
    }
}

/// The maximum of interim answers to a request.
const INTERIM_COUNT_MAX: usize = 8;
/// The maximum of bytes of their headers.
const INTERIM_BYTES_MAX: usize = 64 * 1024;

/// The interim answers (1xx) to one request so far. HTTP does not bound them. The HTTP client
/// passes over them, so a receiver that sends them without end would keep a core busy until the
/// timeout.
#[derive(Debug, Default)]
struct InterimAnswers {
    count: AtomicUsize,
    bytes: AtomicUsize,
    exceeded: Notify,
}

impl InterimAnswers {
    /// Has the client count those that come to `request`.
    fn count_in<B>(request: &mut Request<B>) -> Arc<Self> {
        let answers = Arc::new(Self::default());
        let counted = Arc::clone(&answers);
        hyper::ext::on_informational(request, move |answer| counted.note(answer.headers()));
        answers
    }

    /// Resolves when more have come than a receiver has reason to send.
    pub(super) async fn are_too_many(&self) {
        self.exceeded.notified().await;
    }

    /// Returns whether too many have come.
    ///
    /// An answer that follows them at once may be read before [`Self::are_too_many`] is polled
    /// again.
    fn were_too_many(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        count > INTERIM_COUNT_MAX || self.bytes.load(Ordering::Relaxed) > INTERIM_BYTES_MAX
    }

    fn note(&self, headers: &HeaderMap) {
        let size = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len()
        };
        let size: usize = headers.iter().map(size).sum();
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(size, Ordering::Relaxed);
        if self.were_too_many() {
            self.exceeded.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lookups::scripted::Scripted;
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
            assert_eq!(read_retry_after(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_home_is_blocked() {
        let client = DeliveryClient::new(
            AddressRules { allow_http: true, ..AddressRules::default() },
            Duration::from_secs(5),
        )
        .unwrap();
        let refused = [
            ("http://localhost:9/", NoAnswer::BlockedAddress),
            ("http://127.1:9/", NoAnswer::BlockedAddress),
            ("ftp://localhost/", NoAnswer::InvalidUrl),
        ];
        // What was refused once is not taken for checked.
        for (url, expected) in refused.iter().chain(&refused) {
            let now = Timestamp::default();
            let answer = client.post(url, HeaderMap::new(), Vec::new(), now).await;
            assert_eq!(answer, Answer::None(*expected), "{url}");
        }
    }

    #[test]
    fn a_bounded_number_of_urls_is_remembered() {
        let client = DeliveryClient::new(AddressRules::default(), Duration::from_secs(5)).unwrap();
        for number in 0..3 * CHECKED_MAX / 2 {
            let url = format!("https://example.com/{number}?a=b");
            for _ in 0..2 {
                assert_eq!(client.check_url(&url).unwrap(), url.parse::<Uri>().unwrap());
            }
            assert!((1..=CHECKED_MAX).contains(&client.checked.lock().len()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_looks_names_up_on_behalf_of_its_workspace() {
        let script = Scripted::new();
        let rules = AddressRules { allow_http: true, ..AddressRules::default() };
        let client = DeliveryClient::with_resolver(rules, Duration::from_secs(60), script.clone());
        let client = Arc::new(client.unwrap());
        let mut callers = tokio::task::JoinSet::new();
        for (of, host) in [("acme", "a"), ("acme", "b"), ("acme", "c"), ("other", "d")] {
            let client = Arc::clone(&client);
            callers.spawn(async move {
                let url = format!("http://{host}.test/");
                let posting = client.post(&url, HeaderMap::new(), Vec::new(), Timestamp::default());
                on_behalf_of(&of.parse().unwrap(), posting).await
            });
        }
        assert_eq!(script.under_way().await, ["a.test", "b.test", "d.test"]);
        script.end(4);
        // The script's address is this machine's.
        while let Some(answer) = callers.join_next().await {
            assert_eq!(answer.unwrap(), Answer::None(NoAnswer::BlockedAddress));
        }
    }

    fn exceeded(answers: &InterimAnswers) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(answers.are_too_many()).poll(&mut context).is_ready()
    }

    #[test]
    fn their_number_and_their_size_are_bounded() {
        let many = InterimAnswers::default();
        (0..INTERIM_COUNT_MAX).for_each(|_| many.note(&HeaderMap::new()));
        assert!(!many.were_too_many() && !exceeded(&many));
        many.note(&HeaderMap::new());
        assert!(many.were_too_many() && exceeded(&many));
        let large = InterimAnswers::default();
        let mut headers = HeaderMap::new();
        headers.insert("link", "x".repeat(INTERIM_BYTES_MAX / 2).parse().unwrap());
        large.note(&headers);
        assert!(!exceeded(&large));
        large.note(&headers);
        assert!(exceeded(&large));
    }
}
