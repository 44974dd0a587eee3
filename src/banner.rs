//! What a start prints: where the server is, where its secrets are, and something to paste.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use crate::demo;
use crate::secrets::ADMIN_TOKEN_FILE;
use crate::settings::{Secret, Settings};

/// The banner of a server that listens on `address`.
#[must_use]
pub fn banner(settings: &Settings, address: SocketAddr, demo_key: Option<&Secret>) -> String {
    let url = format!("http://{}", reachable(address));
    let dir = settings.server.data_dir.display();
    let mut text = format!("Postrider listens on {url}\n\n");
    let mut row = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        writeln!(text, "  {name:<12} {value}").ok();
    };
    row("interface", &format!("{url}/docs"));
    match settings.admin.token {
        None => row("admin token", &format!("in {dir}/{ADMIN_TOKEN_FILE}")),
        Some(_) => row("admin token", "as set"),
    }
    if let Some(key) = demo_key {
        let key = key.reveal();
        row("API key", &format!("in {dir}/{}", demo::KEY_FILE));
        row("", key);
        let curl = format!(
            "  curl -s {url}/v1/otp/send -H 'Authorization: Bearer {key}' \\\n    \
             -H 'Content-Type: application/json' -d '{{\"phone\": \"+15550123456\"}}'\n",
        );
        write!(text, "\nSend a one-time password to the sandbox:\n\n{curl}").ok();
    }
    text
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_the_real_port_and_the_key_in_a_sandbox_only() {
        let settings = Settings::default();
        let key = Secret::new("pr_secret");
        let address: SocketAddr = "0.0.0.0:4711".parse().unwrap();
        let sandbox = banner(&settings, address, Some(&key));
        for part in ["http://127.0.0.1:4711/v1/otp/send", "Bearer pr_secret", "data/admin.token"] {
            assert!(sandbox.contains(part), "{part} is missing:\n{sandbox}");
        }
        let production = banner(&settings, address, None);
        assert!(!production.contains("curl") && !production.contains("pr_"), "{production}");
    }
}
