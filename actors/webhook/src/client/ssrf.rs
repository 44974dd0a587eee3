//! Guards against SSRF: deliveries never go into the network that the engine is part of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use url::{Host, Url};

/// The maximum of characters of an endpoint's URL.
pub const URL_CHARS_MAX: usize = 2048;

/// The rules for allowed addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// Set if `http` is allowed beside `https`.
    pub allow_http: bool,
    /// Subnets that are allowed although they are not public.
    pub allowed_subnets: Vec<IpNet>,
}

/// The reason why a URL cannot be an endpoint's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebhookUrlError {
    /// It is not a URL, or has no host.
    #[error("must be an absolute URL of at most {URL_CHARS_MAX} characters")]
    NotAUrl,
    /// Its scheme is not allowed.
    #[error("must begin with {0}")]
    Scheme(&'static str),
    /// It has a user's name or password, which would be stored and logged in clear.
    #[error("must have no user name and no password")]
    Credentials,
    /// Its port is 0, to which nothing can be delivered.
    #[error("must not have port 0")]
    Port,
    /// It names an address that is not public.
    #[error("must not name an address that is private, local or reserved")]
    BlockedAddress,
}

impl AddressRules {
    /// Checks a URL without resolving its host name. The client checks the resolved addresses.
    ///
    /// # Errors
    /// [`WebhookUrlError`]: the URL is not allowed.
    pub fn check_url(&self, text: &str) -> Result<Url, WebhookUrlError> {
        if text.chars().count() > URL_CHARS_MAX {
            return Err(WebhookUrlError::NotAUrl);
        }
        // This reads an IPv4 address in every spelling: decimal, octal, hexadecimal, shortened.
        let url = Url::parse(text).map_err(|_| WebhookUrlError::NotAUrl)?;
        match url.scheme() {
            "https" => {}
            "http" if self.allow_http => {}
            _ if self.allow_http => return Err(WebhookUrlError::Scheme("https:// or http://")),
            _ => return Err(WebhookUrlError::Scheme("https://")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(WebhookUrlError::Credentials);
        }
        if url.port() == Some(0) {
            return Err(WebhookUrlError::Port);
        }
        let address = match url.host() {
            None => return Err(WebhookUrlError::NotAUrl),
            Some(Host::Domain(_)) => None,
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        };
        if address.is_some_and(|address| !self.permit(address)) {
            return Err(WebhookUrlError::BlockedAddress);
        }
        Ok(url)
    }

    /// Returns whether a delivery may go to this address.
    pub fn permit(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allowed_subnets.iter().any(|subnet| subnet.contains(&address)) || is_public(address)
    }
}

/// Returns whether an address is public, and so is any address to which it is translated.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = matches!(
        (a, b, c),
        // This network; private; loopback; link-local; private; private.
        (0 | 10 | 127, ..) | (169, 254, _) | (172, 16..=31, _) | (192, 168, _)
        // Carrier-grade translation; protocol assignments; documentation; relays of 6to4.
        | (100, 64..=127, _) | (192, 0, 0 | 2) | (192, 88, 99)
        // Benchmarks; documentation; multicast, reserved and broadcast.
        | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) | (224.., ..)
    );
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // NAT64 is translated to the IPv4 address at its end.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        // 6to4 is translated to the IPv4 address after its prefix.
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo contains its server and, with every bit inverted, its client.
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            embedded(high, low) && embedded(!client_high, !client_low)
        }
        // Protocol assignments, benchmarks and ORCHIDs; documentation, twice.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Only these are allocated; the rest is local, multicast, reserved or IPv4-compatible.
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every class, written in every way that a URL may.
    const BLOCKED: &[&str] = &[
        "0.0.0.0",
        "0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "012.0.0.1",
        "0xa.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.1",
        "127.255.255.254",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "3232235521",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "4294967295",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::8.8.8.8]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:0001]",
        "[::ffff:10.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::10.0.0.1]",
        "[64:ff9b:1::808:808]",
        "[100::1]",
        "[2001:0:7f00:1::]",
        "[2001:0:808:808:0:0:80ff:fffe]",
        "[2001:2::1]",
        "[2001:10::1]",
        "[2001:20::1]",
        "[2001:db8::1]",
        "[2002:7f00:1::]",
        "[2002:a00:1::1]",
        "[2002:c0a8:1::]",
        "[3fff::1]",
        "[3fff:fff::1]",
        "[5f00::1]",
        "[fc00::1]",
        "[fd12:3456:789a::1]",
        "[fe80::1]",
        "[febf::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[ff0e::1]",
        "[4000::1]",
    ];

    const PUBLIC: &[&str] = &[
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "126.255.255.255",
        "128.0.0.1",
        "169.253.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "192.167.0.1",
        "198.17.0.1",
        "198.20.0.1",
        "203.0.112.1",
        "223.255.255.255",
        "134744072",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::8.8.8.8]",
        "[2002:808:808::1]",
        "[2001:200::1]",
        "[2001:0:808:808:0:0:f7f7:f7f7]",
        "[2606:4700::1111]",
        "[2a00::1]",
        "[3ffe::1]",
    ];

    #[test]
    fn every_address_that_is_not_public_is_blocked_however_it_is_written() {
        let rules = AddressRules::default();
        for host in BLOCKED {
            let url = format!("https://{host}/hook");
            assert_eq!(rules.check_url(&url), Err(WebhookUrlError::BlockedAddress), "{host}");
        }
        for host in PUBLIC {
            let url = format!("https://{host}:8443/hook");
            assert!(rules.check_url(&url).is_ok(), "{host}");
        }
    }

    #[test]
    fn a_subnet_that_is_allowed_is_the_only_exception() {
        let allowed_subnets = vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        let rules = AddressRules { allow_http: true, allowed_subnets };
        for host in ["127.0.0.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "8.8.8.8"] {
            assert!(rules.check_url(&format!("http://{host}:1/")).is_ok(), "{host}");
        }
        for host in ["10.0.0.1", "[::2]", "[64:ff9b::7f00:1]", "0.0.0.0", "128.0.0.0.1"] {
            assert!(rules.check_url(&format!("http://{host}/")).is_err(), "{host}");
        }
    }

    #[test]
    fn a_url_has_its_form() {
        let rules = AddressRules::default();
        assert!(rules.check_url("https://example.com/a?b=c").is_ok());
        assert!(rules.check_url("https://localhost/").is_ok(), "names are checked when resolved");
        let long = format!("https://example.com/{}", "a".repeat(URL_CHARS_MAX));
        for (url, error) in [
            ("", WebhookUrlError::NotAUrl),
            ("example.com", WebhookUrlError::NotAUrl),
            ("/hook", WebhookUrlError::NotAUrl),
            ("https://", WebhookUrlError::NotAUrl),
            ("https://exa mple.com", WebhookUrlError::NotAUrl),
            (&long, WebhookUrlError::NotAUrl),
            ("http://example.com", WebhookUrlError::Scheme("https://")),
            ("ftp://example.com", WebhookUrlError::Scheme("https://")),
            ("file:///etc/passwd", WebhookUrlError::Scheme("https://")),
            ("gopher://example.com", WebhookUrlError::Scheme("https://")),
            ("https://user@example.com", WebhookUrlError::Credentials),
            ("https://:pass@example.com", WebhookUrlError::Credentials),
            ("https://example.com:0/", WebhookUrlError::Port),
            ("https://[2606:4700::1111]:00/", WebhookUrlError::Port),
        ] {
            assert_eq!(rules.check_url(url), Err(error), "{url}");
        }
    }
}
