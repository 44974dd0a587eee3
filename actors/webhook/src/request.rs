//! The request of a delivery, in the form for every endpoint.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::Full;

/// The common headers of all requests.
pub(crate) const COMMON: [(HeaderName, &str); 3] = [
    (CONTENT_TYPE, "application/json"),
    (ACCEPT, "*/*"),
    (USER_AGENT, concat!("Postrider/", env!("CARGO_PKG_VERSION"))),
];

/// Returns a `POST` of JSON with these headers.
pub(crate) fn request(uri: Uri, headers: HeaderMap, body: Vec<u8>) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    for (name, text) in COMMON {
        request.headers_mut().insert(name, HeaderValue::from_static(text));
    }
    request
}
