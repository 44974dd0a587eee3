//! The options of an engine's people.

use std::sync::Arc;
use std::time::Duration;

use crate::token::TokenHash;

/// The options of sign-ins, and of the duration and request limits of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeopleOptions {
    /// The idle time after which a session ends. An operator's ends after an hour at the latest.
    pub session_idle: Duration,
    /// The age at which a session ends. An operator's ends after a day at the latest.
    pub session_max: Duration,
    /// The maximum number of requests of a session in a minute; 0 is no limit.
    pub session_requests_per_minute: u32,
    /// Set if people may sign in with passwords.
    pub password_sign_in: bool,
    /// The name of the data, a part of cookies' names, if engines share it. With `None` each engine
    /// has its own name.
    pub name: Option<[u8; 4]>,
    /// The hash of the current admin token without an id, from the settings, if there is one.
    /// Sessions that started with another such token have ended.
    pub admin_token: Option<TokenHash>,
}

/// Returns whether the admin token of this id still works.
pub type TokenWorks = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl Default for PeopleOptions {
    /// Returns twelve hours, seven days and 600 requests.
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
