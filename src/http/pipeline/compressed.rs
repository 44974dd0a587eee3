//! Builds answers that are sent compressed.
//!
//! Content that never changes is compressed once for each coding, and has an `ETag`. The data that
//! browsers read is compressed each time.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use flate2::Compression;
use hyper::body::Body as _;
use sha2::{Digest, Sha256};

use super::reply::Reply;

/// The size below which compression gains nothing, in bytes.
const BYTES_MIN: usize = 1024;
/// The size above which a list is sent uncompressed, in bytes.
const LIST_BYTES_MAX: usize = 4 << 20;
/// The Brotli quality, of at most 11, for a small file. It makes the file a sixteenth smaller than
/// quality 9 does, in about the same time.
const BROTLI_QUALITY: u32 = 10;
/// The Brotli quality for a large file, such as the page's scripts and the API's document. Quality
/// 10 takes three times as long there.
const BROTLI_QUALITY_LARGE: u32 = 9;
const LARGE_BYTES: usize = 64 << 10;
const BROTLI_WINDOW: u32 = 22;
const BUFFER_BYTES: usize = 4096;

/// The coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Identity,
    Gzip,
    Brotli,
}

/// A body with its type.
#[derive(Debug)]
pub(crate) struct Compressed {
    content_type: &'static str,
    identity: Bytes,
    /// The beginning of the body's SHA-256, in hexadecimal.
    hash: String,
    gzip: OnceLock<Option<Bytes>>,
    brotli: OnceLock<Option<Bytes>>,
}

impl Compressed {
    pub(crate) fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let identity = body.into();
        let digest = Sha256::digest(&identity);
        let hash = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let (gzip, brotli) = (OnceLock::new(), OnceLock::new());
        Self { content_type, identity, hash, gzip, brotli }
    }

    /// Answers a request with these headers: 304 if the client has the body.
    pub(crate) async fn reply(self: &Arc<Self>, headers: &HeaderMap) -> Reply {
        let wanted =
            if self.identity.len() < BYTES_MIN { Coding::Identity } else { best_coding(headers) };
        let (coding, body) = self.coded(wanted).await;
        let suffix = match coding {
            Coding::Identity => "",
            Coding::Gzip => "-gzip",
            Coding::Brotli => "-br",
        };
        let tag = format!("\"{}{suffix}\"", self.hash);
        let mut reply = if has_tag(headers, &tag) {
            Reply::empty(StatusCode::NOT_MODIFIED)
        } else {
            let mut reply = Reply::of(StatusCode::OK, self.content_type, body);
            if coding != Coding::Identity {
                let name = if coding == Coding::Gzip { "gzip" } else { "br" };
                reply.header(CONTENT_ENCODING, HeaderValue::from_static(name));
            }
            reply
        };
        reply.header(VARY, HeaderValue::from_static("Accept-Encoding"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            reply.header(ETAG, tag);
        }
        reply
    }

    /// Returns the body in this coding, or uncompressed if compression fails, which it does not in
    /// memory.
    async fn coded(self: &Arc<Self>, coding: Coding) -> (Coding, Bytes) {
        let cell = match coding {
            Coding::Identity => return (coding, self.identity.clone()),
            Coding::Gzip => &self.gzip,
            Coding::Brotli => &self.brotli,
        };
        if let Some(done) = cell.get() {
            return done.clone().map_or_else(|| self.as_is(), |body| (coding, body));
        }
        // The first request compresses, outside of the async workers.
        let own = Arc::clone(self);
        let compressing = tokio::task::spawn_blocking(move || match coding {
            Coding::Gzip => {
                own.gzip.get_or_init(|| gzip(&own.identity, Compression::best())).clone()
            }
            _ => own.brotli.get_or_init(|| brotli(&own.identity)).clone(),
        });
        let done = compressing.await.ok().flatten();
        done.map_or_else(|| self.as_is(), |body| (coding, body))
    }

    fn as_is(&self) -> (Coding, Bytes) {
        (Coding::Identity, self.identity.clone())
    }
}

/// Returns whether a client accepts gzip.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    accepted(headers).any(|name| name == "gzip")
}

/// Compresses a JSON answer of a known length, if it is long enough to gain by it. A compressed
/// list of events has a tenth of the size, which a phone far from the server notices.
pub(super) async fn compress(response: Response<Body>) -> Response<Body> {
    let length = response.body().size_hint().exact().and_then(|it| usize::try_from(it).ok());
    let Some(length @ BYTES_MIN..=LIST_BYTES_MAX) = length else { return response };
    let (mut head, body) = response.into_parts();
    let is_json = head.headers.get(CONTENT_TYPE).is_some_and(|it| it == "application/json");
    if !is_json || head.headers.contains_key(CONTENT_ENCODING) {
        return Response::from_parts(head, body);
    }
    // A body of a known length is in memory, so all of it is returned.
    let body = axum::body::to_bytes(body, length).await.unwrap_or_default();
    let own = body.clone();
    let compressing = tokio::task::spawn_blocking(move || gzip(&own, Compression::fast()));
    head.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    let Some(compressed) = compressing.await.ok().flatten() else {
        return Response::from_parts(head, Body::from(body));
    };
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(compressed))
}

fn gzip(body: &[u8], level: Compression) -> Option<Bytes> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(body).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

fn brotli(body: &[u8]) -> Option<Bytes> {
    let quality = if body.len() < LARGE_BYTES { BROTLI_QUALITY } else { BROTLI_QUALITY_LARGE };
    let out = Vec::new();
    let mut writer = brotli::CompressorWriter::new(out, BUFFER_BYTES, quality, BROTLI_WINDOW);
    writer.write_all(body).ok()?;
    writer.flush().ok()?;
    Some(writer.into_inner().into())
}

/// Returns the best coding that a client accepts.
fn best_coding(headers: &HeaderMap) -> Coding {
    accepted(headers).fold(Coding::Identity, |best, name| match (best, name) {
        (_, "br") | (Coding::Brotli, _) => Coding::Brotli,
        (_, "gzip") => Coding::Gzip,
        _ => best,
    })
}

/// Returns the codings that a client accepts.
fn accepted(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let texts = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).filter_map(|offer| {
        let (name, parameter) = offer.split_once(';').unwrap_or((offer, ""));
        let weight = parameter.trim().strip_prefix("q=").map(str::parse::<f32>);
        let is_refused = weight.is_some_and(|weight| weight.unwrap_or(0.0) <= 0.0);
        (!is_refused).then(|| name.trim())
    })
}

/// Returns whether the client has the body with this tag.
fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    let texts = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use http_body_util::BodyExt as _;

    use super::*;

    async fn answer(headers: &[(&'static str, &str)]) -> (u16, Vec<(String, String)>, Vec<u8>) {
        let body = "function main() {}\n".repeat(100);
        let compressed = Arc::new(Compressed::new("text/javascript", body));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let response = compressed.reply(&map).await.into_response();
        let status = response.status().as_u16();
        let named = response.headers().iter();
        let named =
            named.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let named = named.collect();
        let body = response.into_body().collect().await.unwrap().to_bytes().to_vec();
        (status, named, body)
    }

    fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
        headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    #[tokio::test]
    async fn a_client_gets_what_it_accepts() {
        let whole = "function main() {}\n".repeat(100).into_bytes();
        for (accepted, coding) in [
            ("", None),
            ("identity", None),
            ("gzip", Some("gzip")),
            ("gzip, deflate, br;q=0.5", Some("br")),
            ("br;q=0, gzip;q=1.0", Some("gzip")),
            ("br;q=0", None),
        ] {
            let (status, headers, body) = answer(&[("accept-encoding", accepted)]).await;
            assert_eq!((status, header(&headers, "content-encoding")), (200, coding), "{accepted}");
            assert_eq!(header(&headers, "vary"), Some("Accept-Encoding"));
            let mut plain = Vec::new();
            match coding {
                None => plain = body,
                Some("gzip") => {
                    flate2::read::GzDecoder::new(&*body).read_to_end(&mut plain).unwrap();
                }
                Some(_) => {
                    brotli::Decompressor::new(&*body, 4096).read_to_end(&mut plain).unwrap();
                }
            }
            assert_eq!(plain, whole, "{accepted}");
        }
    }

    #[tokio::test]
    async fn a_client_that_has_it_gets_nothing() {
        let (_, headers, _) = answer(&[("accept-encoding", "br")]).await;
        let tag = header(&headers, "etag").unwrap();
        for known in [tag, "*", &format!("\"x\", W/{tag}")] {
            let given = [("accept-encoding", "br"), ("if-none-match", known)];
            let (status, headers, body) = answer(&given).await;
            assert_eq!((status, body.len()), (304, 0), "{known}");
            assert_eq!(header(&headers, "etag"), Some(tag));
            assert_eq!(header(&headers, "content-type"), None);
        }
        let (status, ..) = answer(&[("if-none-match", tag)]).await;
        assert_eq!(status, 200, "of another coding it has nothing");
    }
}
