//! Refuses requests that another reader could take for another request, or for another host's.

use axum::http::header::{AUTHORIZATION, HOST, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Version};

use super::error::{ApiError, Code};

/// Checks `Host`, `Transfer-Encoding` and `Authorization`. `hosts` are the names of this server; an
/// empty list allows any.
pub(crate) fn check(parts: &Parts, hosts: &[String]) -> Result<(), ApiError> {
    let Parts { headers, version, .. } = parts;
    check_host(headers, *version, hosts)?;
    // Only `chunked` is decoded. Data in another coding would be taken for a part of the body.
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let coding = codings.next();
    let is_chunked = coding.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if !is_chunked || codings.next().is_some() {
        let message = "`Transfer-Encoding` may be chunked and nothing else";
        return Err(ApiError::new(Code::NotImplemented, message).closing());
    }
    if headers.get_all(AUTHORIZATION).iter().count() > 1 {
        return Err(ApiError::field("Authorization", "must be given once").closing());
    }
    Ok(())
}

/// Checks that a request names one host, in HTTP/1.0 at most one (RFC 9112, section 3.2).
fn check_host(headers: &HeaderMap, version: Version, hosts: &[String]) -> Result<(), ApiError> {
    let mut given = headers.get_all(HOST).iter();
    let host = given.next();
    let is_missing = host.is_none() && version >= Version::HTTP_11;
    if is_missing || given.next().is_some() {
        return Err(ApiError::field("Host", "must be given once").closing());
    }
    let Some(host) = host.filter(|_| !hosts.is_empty()) else { return Ok(()) };
    let host = host.to_str().unwrap_or_default();
    // An IPv6 address has colons of its own, within brackets.
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    if hosts.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    Err(ApiError::new(Code::MisdirectedRequest, "this server has no such name").closing())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn checked(headers: &[(HeaderName, &'static str)], hosts: &[&str]) -> Option<Code> {
        let mut parts = axum::http::Request::new(()).into_parts().0;
        for (name, value) in headers {
            parts.headers.append(name, HeaderValue::from_static(value));
        }
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        check(&parts, &hosts).err().map(|error| error.code())
    }

    #[test]
    fn a_host_may_have_a_port() {
        for (host, known) in [
            ("a.example", "a.example"),
            ("A.Example:80", "a.example"),
            ("[::1]", "[::1]"),
            ("[::1]:8080", "[::1]"),
        ] {
            assert_eq!(checked(&[(HOST, host)], &[known]), None, "{host}");
        }
        for host in ["b.example", "a.example.b", "", "a.example:x"] {
            let code = checked(&[(HOST, host)], &["a.example"]);
            assert_eq!(code, Some(Code::MisdirectedRequest), "{host}");
            assert_eq!(checked(&[(HOST, host)], &[]), None, "any is allowed");
        }
    }

    #[test]
    fn what_is_ambiguous_is_refused() {
        let host = (HOST, "x");
        assert_eq!(checked(&[], &[]), Some(Code::ValidationError));
        assert_eq!(checked(&[host.clone(), host.clone()], &[]), Some(Code::ValidationError));
        let coding = |value| [host.clone(), (TRANSFER_ENCODING, value)];
        assert_eq!(checked(&coding("Chunked"), &[]), None);
        assert_eq!(checked(&coding("gzip, chunked"), &[]), Some(Code::NotImplemented));
        let key = (AUTHORIZATION, "Bearer x");
        assert_eq!(checked(&[host.clone(), key.clone()], &[]), None);
        assert_eq!(checked(&[host, key.clone(), key], &[]), Some(Code::ValidationError));
    }
}
