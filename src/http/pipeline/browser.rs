//! Reads a session's cookie of a browser, and checks that its request is from an own page.

use std::time::Duration;

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::error::{ApiError, Code};
use crate::http::dashboard::DashboardOptions;
use crate::http::edge::Edge;

/// The lifetime of the cookie by which a browser is recognized.
const DEVICE_KEPT: Duration = Duration::from_secs(180 * 24 * 3600);
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns the name of the session's cookie. The name has a part that is unique to the data.
/// Cookies ignore ports, so servers on one host see each other's.
fn cookie_name(edge: &Edge) -> String {
    cookie_name_for(edge.options.dashboard.is_secure(), &edge.engine.people().data_name())
}

fn cookie_name_for(is_secure: bool, data_name: &str) -> String {
    let prefix = if is_secure { "__Host-" } else { "" };
    format!("{prefix}postrider_{data_name}")
}

/// Returns the token of a session, if the request has a cookie of this server.
pub(super) fn session_token<'a>(edge: &Edge, headers: &'a HeaderMap) -> Option<&'a str> {
    if !edge.options.dashboard.enabled || !headers.contains_key(COOKIE) {
        return None;
    }
    cookie_of(edge.options.dashboard.is_secure(), &edge.engine.people().data_name(), headers)
}

/// Returns the value of the session's cookie for data with this name.
pub(crate) fn cookie_of<'a>(
    is_secure: bool,
    data_name: &str,
    headers: &'a HeaderMap,
) -> Option<&'a str> {
    value_of(&cookie_name_for(is_secure, data_name), headers)
}

fn value_of<'a>(name: &str, headers: &'a HeaderMap) -> Option<&'a str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(';')).find_map(|pair| {
        let (given, value) = pair.trim_matches(' ').split_once('=')?;
        (given == name && !value.is_empty()).then_some(value)
    })
}

/// Returns the header that sets the cookie, or removes it without a token.
pub(crate) fn set_cookie(edge: &Edge, token: Option<&str>) -> Option<HeaderValue> {
    let name = cookie_name(edge);
    let secure = if edge.options.dashboard.is_secure() { "; Secure" } else { "" };
    let (value, age) = match token {
        Some(token) => (token, String::new()),
        None => ("", "; Max-Age=0".to_owned()),
    };
    // Letters, digits and punctuation are always a valid header value.
    let text = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/{secure}{age}");
    HeaderValue::from_str(&text).ok()
}

/// Returns the name of the cookie by which the browser is recognized at its next sign-in.
fn device_name(edge: &Edge) -> String {
    cookie_name_for(
        edge.options.dashboard.is_secure(),
        &format!("{}_device", edge.engine.people().data_name()),
    )
}

/// Returns the value that the browser got when somebody signed in with it before.
pub(crate) fn device_of<'a>(edge: &Edge, headers: &'a HeaderMap) -> Option<&'a str> {
    value_of(&device_name(edge), headers)
}

/// Returns the header that makes the browser keep this value.
pub(crate) fn set_device(edge: &Edge, device: &str) -> Option<HeaderValue> {
    let name = device_name(edge);
    let secure = if edge.options.dashboard.is_secure() { "; Secure" } else { "" };
    let age = DEVICE_KEPT.as_secs();
    let text = format!("{name}={device}; HttpOnly; SameSite=Strict; Path=/{secure}; Max-Age={age}");
    HeaderValue::from_str(&text).ok()
}

/// Checks that a request is for a host name of this server.
///
/// A stranger may have pointed another name here, so that the stranger's page counts as ours (DNS
/// rebinding).
pub(super) fn check_host(
    dashboard: &DashboardOptions,
    headers: &HeaderMap,
) -> Result<(), ApiError> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if dashboard.is_own_host(host) {
        return Ok(());
    }
    let message = "the dashboard is not served for this host (`dashboard.public_url`)";
    Err(ApiError::new(Code::Forbidden, message).because("host"))
}

/// Checks that an own page makes the request, for a host name of this server.
///
/// Browsers send the cookie with requests of any page of the same host, even of another port. They
/// also send a POST without a body without asking first.
pub(crate) fn check_page(dashboard: &DashboardOptions, parts: &Parts) -> Result<(), ApiError> {
    check_host(dashboard, &parts.headers)?;
    let text = |name: &HeaderName| parts.headers.get(name).map(|it| it.to_str().unwrap_or("?"));
    let is_ours = match (text(&FETCH_SITE), parts.method.is_safe()) {
        (Some("same-origin"), _) | (Some("none") | None, true) => true,
        (Some(_), _) => false,
        (None, false) => {
            let host = text(&HOST).unwrap_or_default();
            text(&ORIGIN).is_some_and(|origin| dashboard.is_own_origin(origin, host))
        }
    };
    if is_ours {
        return Ok(());
    }
    let message = "only a page of this server may send this with a session";
    Err(ApiError::new(Code::Forbidden, message).because("cross_site"))
}
