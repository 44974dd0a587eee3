//! Pure: who shows a password, and what the try counts for.

use core::net::IpAddr;

use postrider_domain::SessionId;

use crate::password::Asker;
use crate::tries::Counted;

/// Somebody who shows a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Whose places for hashes it takes.
    pub(crate) asker: Asker,
    /// What it counts for.
    pub(crate) counted: Vec<Counted>,
}

impl Attempt {
    /// In a session: whatever strangers try, its holder can confirm.
    pub(crate) fn in_session(id: SessionId) -> Self {
        let name: Box<str> = format!("session {id}").into();
        Self { asker: Asker::Session(name.clone()), counted: vec![Counted::Caller(name)] }
    }

    /// In a browser of this name, in which the person has signed in before.
    pub(crate) fn in_browser(name: &str) -> Self {
        let name: Box<str> = format!("browser {name}").into();
        Self { asker: Asker::Stranger(name.clone()), counted: vec![Counted::Caller(name)] }
    }

    /// From an address, for an account that need not be there.
    pub(crate) fn from_address(address: Option<&str>, account: &str) -> Self {
        let network: Box<str> = network(address.unwrap_or_default()).into();
        let caller = Counted::Caller(format!("{account} {network}").into());
        let counted = vec![caller, Counted::Account(account.into())];
        Self { asker: Asker::Stranger(network), counted }
    }
}

/// What an address counts as: itself, or for IPv6 its /64, which is usually one client's.
fn network(address: &str) -> String {
    match address.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Ok(address) => address.to_string(),
        Err(_) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_an_address_or_its_half() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8::1", "2001:db8:0:0::/64"),
            ("2001:db8::ffff:1", "2001:db8:0:0::/64"),
            ("", ""),
        ] {
            assert_eq!(network(address), expected);
        }
    }
}
