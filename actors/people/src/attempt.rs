//! Pure: an attempt to sign in, and the counters that it adds to.

use core::net::IpAddr;

use postrider_domain::SessionId;

use crate::password::Asker;
use crate::tries::Counted;

/// An attempt to prove an identity by a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The caller whose places for hashes the attempt takes.
    pub(crate) asker: Asker,
    /// The counters to which the attempt adds.
    pub(crate) counted: Vec<Counted>,
}

impl Attempt {
    /// Creates an attempt within a session. Attempts of strangers do not delay its holder.
    pub(crate) fn in_session(id: SessionId) -> Self {
        let name: Box<str> = format!("session {id}").into();
        Self { asker: Asker::Session(name.clone()), counted: vec![Counted::Caller(name)] }
    }

    /// Creates an attempt in a known browser, in which the person has signed in before.
    pub(crate) fn in_browser(name: &str) -> Self {
        let name: Box<str> = format!("browser {name}").into();
        Self { asker: Asker::Stranger(name.clone()), counted: vec![Counted::Caller(name)] }
    }

    /// Creates an attempt from an address, for an account that may not exist.
    pub(crate) fn from_address(address: Option<&str>, account: &str) -> Self {
        let network: Box<str> = network(address.unwrap_or_default()).into();
        let caller = Counted::Caller(format!("{account} {network}").into());
        let counted = vec![caller, Counted::Account(account.into())];
        Self { asker: Asker::Stranger(network), counted }
    }
}

/// Returns the network of an address: the address, or the /64 of IPv6, usually one client's.
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
