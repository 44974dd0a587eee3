//! The HTTP client of the provider, whose connections all numbers share.
//!
//! The body of a request records when a connection takes it: until then the provider certainly has
//! not acted on the request.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use postrider_domain::json;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::sync::mpsc;

use super::CloudApiOptions;

/// The maximum age of an idle connection.
///
/// It is less than a provider's own idle timeout, because a request on a closing connection may get
/// lost.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// The longest wait that a provider may ask for; a longer one is shortened to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// The minimum rate of a large body, in bytes per second.
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;
const NAME: HeaderValue = HeaderValue::from_static("postrider");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A client with its connection pool.
pub(super) struct Http {
    client: Client<HttpsConnector<HttpConnector>, Payload>,
    timeout: Duration,
}

/// A response, read to its end or to the given bound.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    /// The header `Retry-After`, bounded.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

/// The error of a request without a whole response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// No connection has taken the request's body: the provider surely did nothing.
    #[error("the provider cannot be reached: {0}")]
    NotWritten(Box<str>),
    /// A connection has taken the body, so the provider may have carried the request out.
    #[error("the provider's answer was lost")]
    Lost,
}

/// The error of a body that was not handed on to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotFetched {
    /// The body is larger than allowed.
    #[error("it is too large")]
    TooLarge,
    /// The body did not arrive, or not completely.
    #[error("it did not come: {0}")]
    Cut(Box<str>),
}

/// The error when TLS cannot be set up, because the trusted certificates cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("TLS cannot be set up: {0}")]
pub struct TlsError(String);

impl Http {
    pub(super) fn new(options: &CloudApiOptions) -> Result<Self, TlsError> {
        let tls = |error: rustls::Error| TlsError(error.to_string());
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(tls)?;
        let config = if options.base_url.starts_with("https:") {
            let roots = options.extra_roots.iter().cloned();
            let verifier = Verifier::new_with_extra_roots(roots, provider).map_err(tls)?;
            let builder = builder.dangerous();
            // The verifier is the system's own, with the extra roots added.
            builder.with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        } else {
            builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(options.connect_timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(connector);
        Ok(Self { client, timeout: options.timeout })
    }

    /// Sends a `POST` with a JSON body.
    pub(super) async fn post(
        &self,
        uri: Uri,
        authorization: HeaderValue,
        body: Vec<u8>,
        answer_bytes_max: usize,
    ) -> Result<HttpAnswer, NoAnswer> {
        let payload = Payload::of(Bytes::from(body));
        self.call((Method::POST, uri), authorization, JSON, payload, answer_bytes_max).await
    }

    /// Sends a `GET`.
    pub(super) async fn get(
        &self,
        uri: Uri,
        authorization: HeaderValue,
        answer_bytes_max: usize,
    ) -> Result<HttpAnswer, NoAnswer> {
        let payload = Payload::of(Bytes::new());
        self.call((Method::GET, uri), authorization, JSON, payload, answer_bytes_max).await
    }

    /// Sends a form with a file, whose parts are sent as they arrive.
    pub(super) async fn post_form(
        &self,
        uri: Uri,
        authorization: HeaderValue,
        form: UploadForm,
        answer_bytes_max: usize,
    ) -> Result<HttpAnswer, NoAnswer> {
        let (content_type, payload) = Payload::of_form(form);
        self.call((Method::POST, uri), authorization, content_type, payload, answer_bytes_max).await
    }

    /// Sends a `GET`, and hands on the body of a good answer in parts as they arrive.
    ///
    /// Returns the status of the answer; redirects are not followed.
    pub(super) async fn fetch(
        &self,
        uri: Uri,
        authorization: HeaderValue,
        bytes_max: u64,
        parts: mpsc::Sender<Bytes>,
    ) -> Result<u16, NotFetched> {
        let late = |_| NotFetched::Cut("no answer in time".into());
        let mut request = Request::new(Payload::of(Bytes::new()));
        *request.uri_mut() = uri;
        request.headers_mut().insert(header::AUTHORIZATION, authorization);
        // The provider's file hosts refuse a client without a name.
        request.headers_mut().insert(header::USER_AGENT, NAME);
        let answered = tokio::time::timeout(self.timeout, self.client.request(request)).await;
        let answered = answered.map_err(late)?.map_err(|error| NotFetched::Cut(cause(&error)))?;
        let status = answered.status().as_u16();
        if status == 200 {
            // A large body takes longer.
            let longest = self.timeout + Duration::from_secs(bytes_max / BYTES_PER_SECOND_MIN);
            let handing_on = hand_on(answered.into_body(), bytes_max, parts);
            tokio::time::timeout(longest, handing_on).await.map_err(late)??;
        }
        Ok(status)
    }

    async fn call(
        &self,
        (method, uri): (Method, Uri),
        authorization: HeaderValue,
        content_type: HeaderValue,
        payload: Payload,
        answer_bytes_max: usize,
    ) -> Result<HttpAnswer, NoAnswer> {
        let claim = payload.claim();
        // A large body takes longer.
        let timeout = self.timeout + Duration::from_secs(payload.left() / BYTES_PER_SECOND_MIN);
        let mut request = Request::new(payload);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(header::AUTHORIZATION, authorization);
        headers.insert(header::CONTENT_TYPE, content_type);
        let answered = async {
            let response = self.client.request(request).await.map_err(|error| cause(&error))?;
            let (parts, body) = response.into_parts();
            let body = read(body, answer_bytes_max).await.ok_or("the answer is not whole")?;
            let body = as_text(body);
            let retry_after = retry_after(&parts.headers);
            Ok::<_, Box<str>>(HttpAnswer { status: parts.status.as_u16(), retry_after, body })
        };
        // The timeout covers everything from connecting to the last byte of the response.
        match tokio::time::timeout(timeout, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            _ if !claim.withdraw() => Err(NoAnswer::Lost),
            Ok(Err(cause)) => Err(NoAnswer::NotWritten(cause)),
            Err(_) => Err(NoAnswer::NotWritten("no connection in time".into())),
        }
    }
}

/// Returns the innermost cause, which is the most specific: "connection refused", not "client
/// error".
fn cause(error: &dyn std::error::Error) -> Box<str> {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string().into()
}

/// Reads a body up to `max` bytes and drops the rest; `None` if it ends early.
async fn read<B: Body<Data = Bytes> + Unpin>(mut body: B, max: usize) -> Option<Bytes> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        let left = max - whole.len();
        whole.extend_from_slice(&data[..data.len().min(left)]);
        if data.len() > left {
            break;
        }
    }
    Some(whole.freeze())
}

/// Returns the text of an answer, with any invalid characters of the provider mended.
fn as_text(body: Bytes) -> Bytes {
    match json::mended(&body) {
        Cow::Borrowed(_) => body,
        Cow::Owned(mended) => mended.into(),
    }
}

/// Hands on a body of up to `bytes_max` bytes.
async fn hand_on<B: Body<Data = Bytes, Error: std::error::Error> + Unpin>(
    mut body: B,
    bytes_max: u64,
    parts: mpsc::Sender<Bytes>,
) -> Result<(), NotFetched> {
    if body.size_hint().lower() > bytes_max {
        return Err(NotFetched::TooLarge);
    }
    let mut left = bytes_max;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| NotFetched::Cut(cause(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        left = left.checked_sub(data.len() as u64).ok_or(NotFetched::TooLarge)?;
        let nobody = |_| NotFetched::Cut("nobody takes it".into());
        parts.send(data).await.map_err(nobody)?;
    }
    Ok(())
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// A request's body.
///
/// It records when a connection takes it: before that, the provider cannot have acted on the
/// request.
pub(super) struct Payload {
    bytes: Option<Bytes>,
    /// The parts that follow `bytes`. The next field is sent last.
    parts: Option<mpsc::Receiver<Bytes>>,
    after: Option<Bytes>,
    /// The number of bytes that are still to be sent.
    left: u64,
    claim: Arc<RequestClaim>,
}

impl Payload {
    pub(super) fn of(bytes: Bytes) -> Self {
        let left = bytes.len() as u64;
        Self { bytes: Some(bytes), parts: None, after: None, left, claim: Arc::default() }
    }

    /// Returns the body of a form, and its type.
    pub(super) fn of_form(form: UploadForm) -> (HeaderValue, Self) {
        let UploadForm { content_type, before, parts, length, after } = form;
        let left = length + (before.len() + after.len()) as u64;
        let (parts, after) = (Some(parts), Some(after));
        (content_type, Self { parts, after, left, ..Self::of(before) })
    }

    /// Returns the claim on the request.
    pub(super) fn claim(&self) -> Arc<RequestClaim> {
        Arc::clone(&self.claim)
    }

    /// Returns its length in bytes.
    pub(super) const fn left(&self) -> u64 {
        self.left
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Withdrawn;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = match self.bytes.take() {
            Some(_) if !self.claim.take() => return Poll::Ready(Some(Err(Withdrawn))),
            Some(first) => Some(first),
            None => match &mut self.parts {
                Some(parts) => ready!(parts.poll_recv(context)),
                None => None,
            },
        };
        let next = next.or_else(|| {
            self.parts = None;
            self.after.take()
        });
        self.left = self.left.saturating_sub(next.as_ref().map_or(0, |bytes| bytes.len() as u64));
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The error of a request that was withdrawn before a connection took it.
#[derive(Debug, thiserror::Error)]
#[error("the request was withdrawn")]
pub(super) struct Withdrawn;

/// The owner of a request: the caller, or a connection. It changes once.
///
/// A connection runs on a separate thread. It may take a request at the moment in which the
/// caller's time is over. So each of them must learn that the other was first: a request that
/// leaves after it was reported as not written is sent twice.
#[derive(Default)]
pub(super) struct RequestClaim(AtomicU8);

impl RequestClaim {
    const FREE: u8 = 0;
    const TAKEN: u8 = 1;
    const WITHDRAWN: u8 = 2;

    /// Takes the request for a connection. `false`: it was withdrawn, and must not be written.
    fn take(&self) -> bool {
        self.settle(Self::TAKEN)
    }

    /// Withdraws the request. `false`: a connection has taken it, so it may have been written.
    pub(super) fn withdraw(&self) -> bool {
        self.settle(Self::WITHDRAWN)
    }

    /// Sets the owner, and returns whether the request was free.
    fn settle(&self, now: u8) -> bool {
        self.0.compare_exchange(Self::FREE, now, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A form whose last field is a file.
pub(super) struct UploadForm {
    /// Its type, which names the boundary between the fields.
    pub(super) content_type: HeaderValue,
    /// The bytes before the file.
    pub(super) before: Bytes,
    /// The file.
    pub(super) parts: mpsc::Receiver<Bytes>,
    /// Its length in bytes.
    pub(super) length: u64,
    /// The bytes after the file.
    pub(super) after: Bytes,
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const TOKEN: HeaderValue = HeaderValue::from_static("Bearer t");

    fn http(timeout: Duration) -> Http {
        let base_url = "http://127.0.0.1".to_owned();
        Http::new(&CloudApiOptions { base_url, timeout, ..Default::default() }).unwrap()
    }

    /// Serves one request with `answer`, then closes. Returns the URL.
    async fn answering(answer: &'static [u8]) -> Uri {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        drop(tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            assert!(read > 0);
            stream.write_all(answer).await.unwrap();
        }));
        uri
    }

    #[tokio::test]
    async fn an_incomplete_response_is_lost() {
        let http = http(Duration::from_secs(20));
        for answer in [
            &b""[..],
            b"HTTP/1.1 200",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            b"not http\r\n\r\n",
        ] {
            let uri = answering(answer).await;
            let answered = http.post(uri, TOKEN, b"{}".to_vec(), 100).await;
            assert_eq!(answered.err(), Some(NoAnswer::Lost));
        }
    }

    #[tokio::test]
    async fn a_response_is_read_up_to_a_bound() {
        let http = http(Duration::from_secs(20));
        let uri =
            answering(b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 8\r\n\r\n12345678");
        let answer = http.post(uri.await, TOKEN, b"{}".to_vec(), 5).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (429, &b"12345"[..]));
        assert_eq!(answer.retry_after, Some(Duration::from_secs(7)));
    }

    #[tokio::test]
    async fn without_a_connection_nothing_was_written() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let http = http(Duration::from_secs(20));
        for scheme in ["http", "https"] {
            let uri: Uri = format!("{scheme}://{address}/").parse().unwrap();
            let answered = http.post(uri, TOKEN, b"{}".to_vec(), 100).await;
            let Err(NoAnswer::NotWritten(cause)) = answered else { panic!("{answered:?}") };
            assert!(cause.contains("refused"), "{cause}");
        }
    }

    #[tokio::test]
    async fn a_handshake_that_fails_comes_before_the_request() {
        let uri = answering(b"no TLS here").await.to_string().replace("http:", "https:");
        let http = http(Duration::from_secs(20));
        let answered = http.post(uri.parse().unwrap(), TOKEN, b"{}".to_vec(), 100).await;
        assert!(matches!(answered, Err(NoAnswer::NotWritten(_))), "{answered:?}");
    }

    #[tokio::test]
    async fn a_file_is_handed_on_to_its_end_or_not_taken_for_one() {
        let http = http(Duration::from_secs(20));
        let cut = "it did not come: ";
        for (answer, expected) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour"[..], "200"),
            (b"HTTP/1.1 302 Found\r\nLocation: /a\r\nContent-Length: 4\r\n\r\nfour", "302"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfives", "it is too large"),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfives\r\n0\r\n\r\n",
                "it is too large",
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfou", cut),
            (b"", cut),
        ] {
            let (sender, mut parts) = mpsc::channel(9);
            let fetched = http.fetch(answering(answer).await, TOKEN, 4, sender).await;
            let outcome =
                fetched.map_or_else(|error| error.to_string(), |status| status.to_string());
            assert!(outcome.starts_with(expected), "{outcome}, not {expected}");
            let mut whole = Vec::new();
            while let Some(part) = parts.recv().await {
                whole.extend_from_slice(&part);
            }
            assert_eq!(whole == b"four", expected == "200", "{whole:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_timeout_covers_the_whole_call() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        // The system accepts the connection, and no server ever answers.
        let http = http(Duration::from_millis(200));
        let answered = http.post(uri, TOKEN, b"{}".to_vec(), 100).await;
        assert!(answered.is_err());
    }

    #[tokio::test]
    async fn a_request_that_was_withdrawn_is_not_written_afterwards() {
        for withdrawn in [false, true] {
            let claim = Arc::new(RequestClaim::default());
            assert!(!withdrawn || claim.withdraw());
            let mut payload = Payload::of(Bytes::from_static(b"{}"));
            payload.claim = Arc::clone(&claim);
            // The body is read as by a connection, which is on its own thread.
            let written = payload.collect().await.map(http_body_util::Collected::to_bytes);
            assert_eq!(written.is_err(), withdrawn);
            assert!(!claim.withdraw(), "it has changed hands");
        }
    }
}
