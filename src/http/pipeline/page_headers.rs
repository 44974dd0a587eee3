//! Headers for browsers and caches: the permissions to store an answer, and those of the dashboard.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::http::dashboard::DashboardOptions;

/// The content security policy of the dashboard.
///
/// The page loads only from this origin, runs no text as a script or as markup, and cannot be
/// framed. The one Trusted Types policy lets a worker's address pass.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; \
                      manifest-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types postrider-worker";

const PERMISSIONS: &str = "camera=(), geolocation=(), microphone=(), payment=(), usb=()";
const TRANSPORT: &str = "max-age=31536000";

/// Adds the headers to an answer of `route`.
pub(super) fn add(headers: &mut HeaderMap, route: &str, dashboard: &DashboardOptions) {
    add_common_headers(headers, is_private(route));
    if route != "/" && route != "/ui" && !route.starts_with("/ui/") {
        return;
    }
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if dashboard.is_secure() {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(TRANSPORT));
    }
}

/// Returns whether answers at a path are only for the holder of a key or token. Such answers have
/// secrets, codes or personal data.
pub(crate) fn is_private(path: &str) -> bool {
    ["/v1/", "/admin/", "/ui/api/"].iter().any(|below| path.starts_with(below))
}

/// Adds the headers that browsers and caches need with any answer.
pub(crate) fn add_common_headers(headers: &mut HeaderMap, is_private: bool) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_private {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
}
