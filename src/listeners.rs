//! Derives the options of each listener from the settings, and warnings for an operator.

use std::sync::Arc;

use crate::boot::{self, BootError};
use crate::places::PlaceLimits;
use crate::serve::ServeOptions;
use crate::settings::{Server, Settings};
use crate::tls::{Tls, TlsFiles};

/// Returns the options of the listener for clients, and of the one for operators.
pub(crate) fn serve_options(
    settings: &Settings,
    open_files_max: Option<u64>,
) -> Result<(ServeOptions, ServeOptions), BootError> {
    let server = &settings.server;
    let reserved = server.reserved_connections;
    // A displaced connection may still be open when the next one has its place.
    let mut beside = settings.webhooks.requests_max + 2 * reserved;
    if settings.admin.listen.is_some() {
        // The listener for operators has as many again, and as many places that are not reserved.
        beside += 3 * reserved;
    }
    let max = boot::connections_within(open_files_max, server.max_connections, beside);
    if max < server.max_connections {
        tracing::warn!(
            max_connections = max,
            open_files_max,
            "the limit on open files allows fewer connections than `server.max_connections`"
        );
    }
    let clients = ServeOptions {
        head_timeout: server.head_timeout_seconds,
        write_timeout: server.write_timeout_seconds,
        places: PlaceLimits {
            max,
            per_address_max: server.max_connections_per_address,
            reserved,
            trusted_proxies: server.trusted_proxies.clone(),
        },
        tls: tls(server, false)?,
    };
    let mut operators = clients.clone();
    // Operators have few connections, and none of them displaces another.
    operators.places.max = reserved;
    operators.places.per_address_max = 0;
    if server.tls_client_ca_file.is_some() {
        operators.tls = tls(server, true)?;
    }
    Ok((clients, operators))
}

fn tls(server: &Server, asks_clients: bool) -> Result<Option<Arc<Tls>>, BootError> {
    let (Some(certificate), Some(key)) = (&server.tls_certificate_file, &server.tls_key_file)
    else {
        return Ok(None);
    };
    let files = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_ca: server.tls_client_ca_file.clone().filter(|_| asks_clients),
    };
    Ok(Some(Arc::new(Tls::new(files)?)))
}

/// Returns a warning for each way in which other machines can read secrets.
pub(crate) fn exposure(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    let addresses = [Some(settings.server.listen), settings.admin.listen].into_iter().flatten();
    for address in addresses.filter(|address| !address.ip().to_canonical().is_loopback()) {
        if settings.server.tls_certificate_file.is_none() {
            warnings.push(format!(
                "{address} is reached from other machines without TLS, so keys and codes can be \
                 read on their way; set `server.tls_certificate_file`, or let only a proxy reach it"
            ));
        }
        if settings.sandbox.enabled {
            warnings.push(format!(
                "{address} is reached from other machines, and this is a sandbox, in which codes \
                 can be read and the clock can be moved; set `sandbox.enabled = false`"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(address: &str, change: impl Fn(&mut Settings)) -> usize {
        let mut settings = Settings::default();
        settings.server.listen = address.parse().unwrap();
        change(&mut settings);
        exposure(&settings).len()
    }

    #[test]
    fn what_others_reach_is_warned_of() {
        assert_eq!(warned("127.0.0.1:80", |_| {}), 0);
        assert_eq!(warned("[::1]:80", |_| {}), 0);
        assert_eq!(warned("0.0.0.0:80", |_| {}), 2);
        assert_eq!(warned("192.0.2.1:80", |it| it.sandbox.enabled = false), 1);
        assert_eq!(
            warned("[::]:80", |it| {
                it.sandbox.enabled = false;
                it.server.tls_certificate_file = Some("x".into());
            }),
            0
        );
    }
}
