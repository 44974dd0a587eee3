//! Parses addresses of other services, and of pages.

use axum::http::Uri;

use super::value::{Raw, optional};

/// Parses the URL of the pages about errors; `auto` is `None`.
///
/// The value is put between angle brackets in a header.
pub(super) fn errors_url(raw: &Raw) -> Option<Option<String>> {
    let url = raw.as_text()?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"<>\"\\^`{|}".contains(&byte);
    let is_absolute = ["/", "https://", "http://"].iter().any(|start| url.starts_with(start));
    match url {
        "auto" => Some(None),
        _ if url.is_empty() || is_absolute && url.bytes().all(is_plain) => Some(Some(url.into())),
        _ => None,
    }
}

/// Parses a base URL: scheme and host, without a path.
pub(super) fn base_url(raw: &Raw) -> Option<String> {
    let text = raw.as_text()?;
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    (!authority.is_empty() && authority.bytes().all(host)).then(|| text.to_owned())
}

/// Parses the address of a site, without a path.
pub(super) fn public_url(raw: &Raw) -> Option<Option<String>> {
    optional(base_url)(raw)
}

/// Parses the address of a service with its path.
pub(super) fn endpoint(raw: &Raw) -> Option<String> {
    let text = raw.as_text()?;
    let uri: Uri = text.parse().ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let host = uri.host().filter(|host| !host.is_empty() && !text.contains('@'));
    (is_http && host.is_some() && uri.path() != "/").then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_has_no_path() {
        let read = |text: &str| base_url(&Raw::Text(text.into())).is_some();
        for good in ["https://graph.facebook.com", "http://127.0.0.1:9000", "http://[::1]:1"] {
            assert!(read(good), "{good}");
        }
        for bad in ["", "https://", "ftp://h", "graph.facebook.com", "https://h/v1", "http://u@h"] {
            assert!(!read(bad), "{bad}");
        }
    }

    #[test]
    fn an_endpoint_is_an_address_with_a_path() {
        let read = |text: &str| endpoint(&Raw::Text(text.to_owned()));
        for good in ["http://127.0.0.1:4318/v1/traces", "https://otel.example.com/x?token=1"] {
            assert_eq!(read(good).as_deref(), Some(good));
        }
        for bad in
            ["nonsense", "ftp://127.0.0.1/v1/traces", "http://", "http:///v1", "http://[::1]:4318"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(read("http://user:secret@127.0.0.1/v1/traces"), None);
    }
}
