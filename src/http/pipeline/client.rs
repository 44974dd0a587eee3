//! Finds the address of a client: the connection's, or what a trusted proxy reports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use postrider_actors::LazyTimer;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The remote address of a connection, in the extensions of its requests. The server adds it. Other
/// code that serves the router should add it too, or all clients share one rate limit.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// The timer of a request's connection, in the extensions. A request without one has its own.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionTimer(pub(crate) LazyTimer);

/// Marks a response that refuses for overload and leaves the connection open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overloaded;

/// Marks the requests of a connection that has a place of the reserve, which is for operators.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InReserve;

/// Returns the address by which a client without a key is counted. It is the connection's. Behind a
/// trusted proxy it is the last one of `X-Forwarded-For` that belongs to no trusted proxy.
pub(crate) fn client_address(parts: &Parts, trusted: &[IpNet]) -> IpAddr {
    counted(exact_address(parts, trusted))
}

/// Returns the whole of that address, for the logs.
pub(crate) fn exact_address(parts: &Parts, trusted: &[IpNet]) -> IpAddr {
    let peer = parts.extensions.get::<Peer>();
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip());
    let address =
        if is_within(peer, trusted) { forwarded(peer, &parts.headers, trusted) } else { peer };
    address.to_canonical()
}

/// Returns whether an address is in one of the subnets.
pub(crate) fn is_within(address: IpAddr, subnets: &[IpNet]) -> bool {
    let address = address.to_canonical();
    subnets.iter().any(|subnet| subnet.contains(&address))
}

/// Returns the address that represents a client. An IPv6 client usually owns a whole /64, so that
/// counts as one address.
pub(crate) fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

/// Parses `X-Forwarded-For` from its end, where the nearest proxy wrote.
///
/// A client can invent everything before the first address for which no trusted proxy vouches.
fn forwarded(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let mut nearest = peer;
    let values: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
    let texts = values.iter().rev().map(|value| value.to_str().unwrap_or_default());
    for text in texts.flat_map(|text| text.rsplit(',')) {
        let text = text.trim();
        let with_port = || text.parse().map(|address: SocketAddr| address.ip());
        let Ok(address) = text.parse::<IpAddr>().or_else(|_| with_port()) else { break };
        nearest = address;
        if !is_within(address, trusted) {
            break;
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&str], trusted: &str) -> String {
        let mut parts = axum::http::Request::new(()).into_parts().0;
        parts.extensions.insert(Peer(SocketAddr::new(peer.parse().unwrap(), 1)));
        for value in forwarded {
            parts.headers.append(FORWARDED_FOR, value.parse().unwrap());
        }
        let trusted: Vec<_> = trusted.split_whitespace().map(|net| net.parse().unwrap()).collect();
        client_address(&parts, &trusted).to_string()
    }

    #[test]
    fn an_ipv6_address_counts_with_its_network() {
        let counted = |text: &str| client(text, &[], "");
        assert_eq!(counted("192.0.2.7"), "192.0.2.7");
        assert_eq!(counted("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(counted("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(counted("::1"), "::1");
        let mut parts = axum::http::Request::new(()).into_parts().0;
        parts.extensions.insert(Peer("[2001:db8:1:2:3:4:5:6]:1".parse().unwrap()));
        assert_eq!(exact_address(&parts, &[]).to_string(), "2001:db8:1:2:3:4:5:6");
    }

    #[test]
    fn only_a_trusted_proxy_names_another_address() {
        let nets = "10.0.0.0/8 ::1/128";
        assert_eq!(client("192.0.2.7", &["198.51.100.1"], nets), "192.0.2.7");
        assert_eq!(client("10.0.0.1", &["198.51.100.1"], ""), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["198.51.100.1"], nets), "198.51.100.1");
        assert_eq!(client("::ffff:10.0.0.1", &["198.51.100.1:4711"], nets), "198.51.100.1");
        assert_eq!(client("::1", &["2001:db8:1:2:3::4"], nets), "2001:db8:1:2::");
        // Only entries of trusted proxies count, whoever sent the rest.
        let forwarded = ["203.0.113.9, 198.51.100.1, 10.0.0.2", "10.0.0.3"];
        assert_eq!(client("10.0.0.1", &forwarded, nets), "198.51.100.1");
        assert_eq!(client("10.0.0.1", &["10.0.0.9, 10.0.0.2"], nets), "10.0.0.9");
        assert_eq!(client("10.0.0.1", &["198.51.100.1, unknown, 10.0.0.2"], nets), "10.0.0.2");
        assert_eq!(client("10.0.0.1", &[], nets), "10.0.0.1");
    }
}
