//! Reads what a caller may add to a request for a one-time password.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use postrider_actors::domain::printable;
use postrider_actors::{CallerContext, SendMore};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::http::pipeline::ApiError;

/// Longest session, and longest reference, in characters.
const NAME_CHARS_MAX: usize = 128;
/// Most strings in `metadata`.
const METADATA_MAX: usize = 16;
/// Longest key of one, in characters.
const METADATA_KEY_CHARS_MAX: usize = 40;
/// Longest value of one, in characters.
const METADATA_VALUE_CHARS_MAX: usize = 256;

/// Who asked the caller for the code; without `Debug`, as it is personal.
#[derive(Deserialize, ToSchema)]
#[schema(as = CallerContext)]
pub(crate) struct ContextBody<'a> {
    /// The address of the person, IPv4 or IPv6.
    #[serde(borrow)]
    #[schema(example = "192.0.2.7")]
    ip: Option<Cow<'a, str>>,
    /// What the caller knows the person's session or device by.
    #[serde(borrow)]
    #[schema(example = "b7c1f0", min_length = 1, max_length = 128)]
    session: Option<Cow<'a, str>>,
}

impl ContextBody<'_> {
    pub(super) fn read(&self) -> Result<CallerContext, ApiError> {
        let ip = self.ip.as_deref().map(|ip| {
            ip.parse::<IpAddr>()
                .map_err(|_| ApiError::field("context.ip", "must be an IPv4 or IPv6 address"))
        });
        if let Some(session) = &self.session {
            check_chars("context.session", session, 1, NAME_CHARS_MAX)?;
        }
        let session = self.session.as_ref().map(|session| session.as_ref().to_owned());
        Ok(CallerContext { ip: ip.transpose()?, session })
    }
}

/// Checks what a caller notes of its request.
pub(super) fn notes(
    reference: Option<Cow<'_, str>>,
    metadata: BTreeMap<String, String>,
) -> Result<SendMore, ApiError> {
    if let Some(reference) = &reference {
        check_chars("reference", reference, 1, NAME_CHARS_MAX)?;
        if printable::has_control(reference) {
            return Err(ApiError::field("reference", "must have printable characters only"));
        }
    }
    if metadata.len() > METADATA_MAX {
        let rule = format_args!("must have at most {METADATA_MAX} entries");
        return Err(ApiError::field("metadata", rule));
    }
    for (key, value) in &metadata {
        check_chars("metadata", key, 0, METADATA_KEY_CHARS_MAX)?;
        check_chars(&format!("metadata.{key}"), value, 0, METADATA_VALUE_CHARS_MAX)?;
    }
    let reference = reference.map(Cow::into_owned);
    Ok(SendMore { reference, metadata, ..SendMore::default() })
}

fn check_chars(field: &str, text: &str, min: usize, max: usize) -> Result<(), ApiError> {
    if (min..=max).contains(&text.chars().count()) {
        return Ok(());
    }
    let what = if field == "metadata" { "keys of " } else { "" };
    Err(ApiError::field(field, format_args!("must have {what}{min} to {max} characters")))
}
