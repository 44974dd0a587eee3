//! Parses the context of a request for a one-time password: the person who asked for it.

use std::borrow::Cow;
use std::net::IpAddr;

use postrider_actors::CallerContext;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::http::pipeline::ApiError;
use crate::http::sender_notes::check_chars;

/// The maximum length of a session, in characters.
const SESSION_CHARS_MAX: usize = 128;

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
            check_chars("context.session", session, 1, SESSION_CHARS_MAX)?;
        }
        let session = self.session.as_ref().map(|session| session.as_ref().to_owned());
        Ok(CallerContext { ip: ip.transpose()?, session })
    }
}
