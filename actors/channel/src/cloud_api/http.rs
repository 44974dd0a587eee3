//! The HTTP client of the provider, whose connections all numbers share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use super::CloudApiOptions;

/// How long an idle connection is kept. It is less than a provider's own idle timeout, because a
/// request on a connection that is being closed may get lost.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Longest wait that a provider may ask for; a longer one is shortened to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// A client with its connection pool.
pub(super) struct Http {
    client: Client<HttpsConnector<HttpConnector>, Payload>,
    timeout: Duration,
}

/// A response, read to its end or to the given bound.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The header `Retry-After`, bounded.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

/// No whole response arrived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// No connection has taken the request's body: the provider surely did nothing.
    #[error("the provider cannot be reached: {0}")]
    NotWritten(Box<str>),
    /// A connection has taken the body, so the provider may have carried the request out.
    #[error("the provider's answer was lost")]
    Lost,
}

/// TLS cannot be set up, because the trusted certificates cannot be read.
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
    ) -> Result<Answer, NoAnswer> {
        self.call(Method::POST, uri, authorization, Bytes::from(body), answer_bytes_max).await
    }

    /// Sends a `GET`.
    pub(super) async fn get(
        &self,
        uri: Uri,
        authorization: HeaderValue,
        answer_bytes_max: usize,
    ) -> Result<Answer, NoAnswer> {
        self.call(Method::GET, uri, authorization, Bytes::new(), answer_bytes_max).await
    }

    async fn call(
        &self,
        method: Method,
        uri: Uri,
        authorization: HeaderValue,
        body: Bytes,
        answer_bytes_max: usize,
    ) -> Result<Answer, NoAnswer> {
        let claim = Arc::new(Claim::default());
        let mut request = Request::new(Payload { bytes: Some(body), claim: Arc::clone(&claim) });
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(header::AUTHORIZATION, authorization);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let answered = async {
            let response = self.client.request(request).await.map_err(|error| cause(&error))?;
            let (parts, body) = response.into_parts();
            let body = read(body, answer_bytes_max).await.ok_or("the answer is not whole")?;
            let retry_after = retry_after(&parts.headers);
            Ok::<_, Box<str>>(Answer { status: parts.status.as_u16(), retry_after, body })
        };
        // The timeout covers everything from connecting to the last byte of the response.
        match tokio::time::timeout(self.timeout, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            _ if !claim.withdraw() => Err(NoAnswer::Lost),
            Ok(Err(cause)) => Err(NoAnswer::NotWritten(cause)),
            Err(_) => Err(NoAnswer::NotWritten("no connection in time".into())),
        }
    }
}

/// The innermost cause, which says most: "connection refused" rather than "client error".
fn cause(error: &dyn std::error::Error) -> Box<str> {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string().into()
}

/// Reads a body up to `max` bytes and drops the rest. `None` if it ends early.
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

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// Whose a request is: of the one who asks, or of a connection. It changes hands once.
///
/// A connection runs on a thread of its own. It may take a request in the moment in which the
/// asker's time is over, so either of them must learn that the other was first: a request that
/// leaves after it was said not to have been written is sent twice.
#[derive(Default)]
struct Claim(AtomicU8);

impl Claim {
    const FREE: u8 = 0;
    const TAKEN: u8 = 1;
    const WITHDRAWN: u8 = 2;

    /// A connection takes the request. `false`: it was withdrawn, and must not be written.
    fn take(&self) -> bool {
        self.settle(Self::TAKEN)
    }

    /// The asker withdraws it. `false`: a connection has taken it, so it may have been written.
    fn withdraw(&self) -> bool {
        self.settle(Self::WITHDRAWN)
    }

    /// Whether it was free, and is this now.
    fn settle(&self, now: u8) -> bool {
        self.0.compare_exchange(Self::FREE, now, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The request was withdrawn before a connection took it.
#[derive(Debug, thiserror::Error)]
#[error("the request was withdrawn")]
struct Withdrawn;

/// A request's body. It records when a connection takes it: before that, the provider cannot have
/// acted on the request.
struct Payload {
    bytes: Option<Bytes>,
    claim: Arc<Claim>,
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Withdrawn;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        let taken = if self.claim.take() { Ok(Frame::data(bytes)) } else { Err(Withdrawn) };
        Poll::Ready(Some(taken))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
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
    async fn a_request_that_was_withdrawn_is_not_written_afterwards() {
        for withdrawn in [false, true] {
            let claim = Arc::new(Claim::default());
            assert!(!withdrawn || claim.withdraw());
            let bytes = Some(Bytes::from_static(b"{}"));
            let payload = Payload { bytes, claim: Arc::clone(&claim) };
            // As a connection reads it, on its own thread.
            let written = payload.collect().await.map(http_body_util::Collected::to_bytes);
            assert_eq!(written.is_err(), withdrawn);
            assert!(!claim.withdraw(), "it has changed hands");
        }
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

    #[tokio::test(start_paused = true)]
    async fn the_timeout_covers_the_whole_call() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        // The system accepts the connection, and no server ever answers.
        let http = http(Duration::from_millis(200));
        let answered = http.post(uri, TOKEN, b"{}".to_vec(), 100).await;
        assert!(answered.is_err());
    }
}
