//! Headers for browsers and caches: who may keep an answer, and what the dashboard may do.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::http::dashboard::DashboardOptions;

/// The page loads from this origin alone, runs no text as a script or as markup, and is framed by
/// nobody. The one Trusted Types policy lets a worker's address pass.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; \
                      manifest-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types postrider-worker";

const PERMISSIONS: &str = "camera=(), geolocation=(), microphone=(), payment=(), usb=()";
const TRANSPORT: &str = "max-age=31536000";

/// Adds them to an answer of `route`.
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

/// Whether what is answered at a path is for the holder of a key or token alone: secrets, codes,
/// personal data.
pub(crate) fn is_private(path: &str) -> bool {
    ["/v1/", "/admin/", "/ui/api/"].iter().any(|below| path.starts_with(below))
}

/// Adds what browsers and caches must know of any answer.
pub(crate) fn add_common_headers(headers: &mut HeaderMap, is_private: bool) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_private {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
}
