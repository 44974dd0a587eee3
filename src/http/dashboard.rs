//! The settings of the dashboard: whether it is enabled, and the server's addresses.

use std::net::{IpAddr, SocketAddr};

use crate::settings::Settings;

/// The settings of the dashboard, and the addresses at which browsers reach it.
#[derive(Debug, Clone)]
pub struct DashboardOptions {
    /// `true` if the dashboard is served and people can sign in.
    pub enabled: bool,
    /// The origin at which others reach it, such as `https://postrider.example.com`.
    pub public_url: Option<String>,
    /// The address on which the server listens.
    pub address: SocketAddr,
    /// `true` if the server speaks TLS itself.
    pub has_tls: bool,
}

impl DashboardOptions {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            enabled: settings.dashboard.enabled,
            public_url: settings.dashboard.public_url.clone(),
            address: settings.server.listen,
            has_tls: settings.server.tls_certificate_file.is_some(),
        }
    }

    /// Returns whether browsers reach the dashboard by TLS only.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url.as_ref().is_some_and(|url| url.starts_with("https://"))
    }

    const fn scheme(&self) -> &'static str {
        if self.has_tls { "https" } else { "http" }
    }

    /// Returns the origin at which people reach the dashboard: the public one, or that of this
    /// machine.
    pub(crate) fn origin(&self) -> String {
        let local = || format!("{}://{}", self.scheme(), reachable(self.address));
        self.public_url.clone().unwrap_or_else(local)
    }

    /// Returns whether the text of a `Host` header names this server.
    ///
    /// Valid names are the loopback interface, the listening address and the public name. Any other
    /// name may be one that a stranger has pointed here, so that a page of theirs counts as ours.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        let name = without_port(host);
        let is_public = || {
            let public = self.public_url.as_deref().and_then(|url| url.split_once("://"));
            public.is_some_and(|(_, host)| without_port(host).eq_ignore_ascii_case(name))
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_address = |address: IpAddr| {
            let ours = self.address.ip().to_canonical();
            address.to_canonical().is_loopback() || address.to_canonical() == ours
        };
        name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_address) || is_public()
    }

    /// Returns whether an `Origin` is this server's, as the request's `Host` names it.
    pub(crate) fn is_own_origin(&self, origin: &str, host: &str) -> bool {
        let own = |own: &str| own.eq_ignore_ascii_case(origin);
        own(&format!("{}://{host}", self.scheme())) || self.public_url.as_deref().is_some_and(own)
    }
}

/// Returns the address at which a client on this machine reaches a listener. A listener on every
/// interface is reached through the loopback address.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    use std::net::{Ipv4Addr, Ipv6Addr};
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, address.port())
}

/// Returns the name of a host without its port, if it has one. An IPv6 address has colons of its
/// own, in brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(address: &str, public_url: Option<&str>) -> DashboardOptions {
        DashboardOptions {
            enabled: true,
            public_url: public_url.map(str::to_owned),
            address: address.parse().unwrap(),
            has_tls: false,
        }
    }

    #[test]
    fn a_host_is_ours_by_loopback_address_or_public_name() {
        let public = options("192.0.2.7:8080", Some("https://post.example.com:8443"));
        for own in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8080",
            "[::1]:8080",
            "192.0.2.7:8080",
            "post.example.com",
            "Post.Example.com:8443",
        ] {
            assert!(public.is_own_host(own), "{own}");
        }
        let others = [
            "",
            "evil.example.com",
            "localhost.evil.com",
            "192.0.2.8",
            "127.0.0.1.evil.com",
            "::2",
        ];
        for other in others {
            assert!(!public.is_own_host(other), "{other}");
        }
        assert!(!options("0.0.0.0:80", None).is_own_host("post.example.com"));
    }

    #[test]
    fn an_origin_is_ours_with_its_scheme_and_port() {
        let plain = options("127.0.0.1:8080", None);
        assert!(plain.is_own_origin("http://127.0.0.1:8080", "127.0.0.1:8080"));
        for other in
            ["https://127.0.0.1:8080", "http://127.0.0.1:8081", "http://localhost:8080", "null"]
        {
            assert!(!plain.is_own_origin(other, "127.0.0.1:8080"), "{other}");
        }
        let public = options("127.0.0.1:8080", Some("https://post.example.com"));
        assert!(public.is_own_origin("https://post.example.com", "127.0.0.1:8080"));
        assert_eq!(public.origin(), "https://post.example.com");
        assert_eq!(options("0.0.0.0:8080", None).origin(), "http://127.0.0.1:8080");
        assert!(public.is_secure() && !plain.is_secure());
    }
}
