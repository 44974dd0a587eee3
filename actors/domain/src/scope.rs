//! Pure: the permissions of an API key.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One permission of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Sending one-time passwords, messages and broadcasts.
    MessagingSend,
    /// Creating, changing and deleting contacts.
    ContactsWrite,
    /// Reading contacts, conversations and segments.
    ContactsRead,
    /// Managing webhook endpoints and reading the event log.
    WebhooksManage,
    /// Reading analytics.
    AnalyticsRead,
}

/// The text is not the name of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be one of messaging:send, contacts:write, contacts:read, webhooks:manage, analytics:read"
)]
pub struct ScopeError;

impl Scope {
    /// Every scope, in the order of the documentation.
    pub const ALL: [Self; 5] = [
        Self::MessagingSend,
        Self::ContactsWrite,
        Self::ContactsRead,
        Self::WebhooksManage,
        Self::AnalyticsRead,
    ];

    /// Returns the scope's name, such as `messaging:send`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MessagingSend => "messaging:send",
            Self::ContactsWrite => "contacts:write",
            Self::ContactsRead => "contacts:read",
            Self::WebhooksManage => "webhooks:manage",
            Self::AnalyticsRead => "analytics:read",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or(ScopeError)
    }
}

/// A set of scopes: one bit for each, by its place in [`Scope::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Scopes(u8);
const _: () = assert!(Scope::ALL.len() <= u8::BITS as usize);

impl Scopes {
    /// Returns every scope.
    #[must_use]
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Returns whether `scope` is in the set.
    #[must_use]
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    /// Returns the scopes of the set, in the order of the documentation.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |set, scope| set | (1 << scope as u8)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set: Scopes = [Scope::ContactsRead, Scope::MessagingSend].into_iter().collect();
        let names: Vec<_> = set.iter().map(Scope::as_str).collect();
        assert_eq!(names, ["messaging:send", "contacts:read"]);
        assert!(!set.contains(Scope::AnalyticsRead));
        assert_eq!(Scopes::all().iter().count(), 5);
        assert_eq!("contacts:read".parse(), Ok(Scope::ContactsRead));
        assert_eq!("contacts".parse::<Scope>(), Err(ScopeError));
    }
}
