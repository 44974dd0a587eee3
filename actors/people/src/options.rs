//! What the people of an engine need besides their records.

use std::sync::Arc;
use std::time::Duration;

use crate::token::TokenHash;

/// How people sign in, how long their sessions last, and how much they may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeopleOptions {
    /// A session that is not used for so long ends; one of an operator after an hour at the latest.
    pub session_idle: Duration,
    /// A session ends after so long; one of an operator after a day at the latest.
    pub session_max: Duration,
    /// Requests of a session in a minute; 0 is no limit.
    pub session_requests_per_minute: u32,
    /// Whether passwords sign anybody in.
    pub password_sign_in: bool,
    /// The name of the data, of which cookies have a part, where engines share it; `None`: each has
    /// its own.
    pub name: Option<[u8; 4]>,
    /// The admin token without an id, as the settings have it now, if there is one. Sessions that
    /// began with another one have ended.
    pub admin_token: Option<TokenHash>,
}

/// Says whether the admin token of this id works still.
pub type TokenWorks = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl Default for PeopleOptions {
    /// Twelve hours, seven days, 600 requests.
    fn default() -> Self {
        Self {
            session_idle: Duration::from_secs(12 * 3600),
            session_max: Duration::from_secs(7 * 24 * 3600),
            session_requests_per_minute: 600,
            password_sign_in: true,
            name: None,
            admin_token: None,
        }
    }
}
