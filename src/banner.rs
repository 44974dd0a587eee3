//! Prints the banner of a started server: its address, its files and a first request.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::boot::AdminTokenSource;
use crate::http::reachable;
use crate::settings::{Secret, Settings};

/// The text that a start prints. `Debug` hides its demo key.
///
/// It contains the demo key, so it must go to a terminal and never into a log.
#[derive(Debug, Clone)]
pub struct Banner {
    address: SocketAddr,
    /// The address for operators, if it is another one.
    admin: Option<SocketAddr>,
    /// Set if the server speaks TLS.
    has_tls: bool,
    data_dir: PathBuf,
    admin_token: AdminTokenSource,
    /// Set in a sandbox only.
    demo_key: Option<Secret>,
    /// A link that signs the owner in, in a sandbox with a dashboard.
    sign_in: Option<Secret>,
    /// Set if a page describes the interface.
    docs: bool,
    /// Warnings for an operator about the data directory.
    warnings: Vec<String>,
}

impl Banner {
    pub(crate) fn new(
        address: SocketAddr,
        data_dir: &Path,
        admin_token: AdminTokenSource,
        demo_key: Option<Secret>,
    ) -> Self {
        let data_dir = data_dir.to_owned();
        Self {
            address,
            admin: None,
            has_tls: false,
            data_dir,
            admin_token,
            demo_key,
            sign_in: None,
            docs: true,
            warnings: Vec::new(),
        }
    }

    /// Adds the address for operators.
    pub(crate) fn with_admin(self, admin: Option<SocketAddr>) -> Self {
        Self { admin, ..self }
    }

    /// Adds the token of a link that signs the owner in.
    pub(crate) fn with_sign_in(self, sign_in: Option<Secret>) -> Self {
        Self { sign_in, ..self }
    }

    /// Adds the parts from the settings: whether a page describes the interface, and TLS.
    pub(crate) fn with_settings(self, settings: &Settings) -> Self {
        let docs = settings.server.docs && settings.dashboard.enabled;
        let has_tls = settings.server.tls_certificate_file.is_some();
        Self { docs, has_tls, ..self }
    }

    /// Adds warnings.
    pub(crate) fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }
}

impl fmt::Display for Banner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.has_tls { "https" } else { "http" };
        let server = format!("{scheme}://{}", reachable(self.address));
        writeln!(
            f,
            "Postrider {} listens on {scheme}://{}",
            env!("CARGO_PKG_VERSION"),
            self.address
        )?;
        if let Some(token) = &self.sign_in {
            writeln!(f, "  dashboard     {server}/ui/phone#in={}", token.reveal())?;
        }
        if self.docs {
            writeln!(f, "  interface     {server}/docs")?;
        }
        if let Some(admin) = self.admin {
            writeln!(f, "  operators     {scheme}://{}", reachable(admin))?;
        }
        writeln!(f, "  data          {}", self.data_dir.display())?;
        match &self.admin_token {
            AdminTokenSource::File(path) => writeln!(f, "  admin token   {}", path.display())?,
            AdminTokenSource::Settings => writeln!(f, "  admin token   from the settings")?,
        }
        for warning in &self.warnings {
            writeln!(f, "  WARNING       {warning}")?;
        }
        if let Some(key) = &self.demo_key {
            let key = key.reveal();
            writeln!(f, "  sandbox key   {key}")?;
            writeln!(f, "                {}", self.data_dir.join("demo.key").display())?;
            writeln!(f, "Try it:")?;
            writeln!(
                f,
                "  curl -X POST {server}/v1/otp/send -H 'Authorization: Bearer {key}' \
                 -H 'Content-Type: application/json' -d '{{\"phone\":\"+15550123456\"}}'"
            )
        } else {
            writeln!(f, "Try it:")?;
            let server = reachable(self.admin.unwrap_or(self.address));
            writeln!(f, "  curl {scheme}://{server}/readyz")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner(listen: &str, key: Option<&str>) -> String {
        let source = AdminTokenSource::File("./data/admin.token".into());
        let listen = listen.parse().unwrap();
        let banner = Banner::new(listen, Path::new("./data"), source, key.map(Secret::new));
        assert!(!format!("{banner:?}").contains("sesame"));
        banner.to_string()
    }

    #[test]
    fn a_sandbox_shows_its_key_and_a_request_that_works() {
        let text = banner("0.0.0.0:4711", Some("sesame"));
        assert!(text.contains("listens on http://0.0.0.0:4711\n"), "{text}");
        assert!(text.contains(" ./data/admin.token\n") && text.contains(" ./data/demo.key\n"));
        assert!(text.contains(
            "curl -X POST http://127.0.0.1:4711/v1/otp/send -H 'Authorization: Bearer sesame' -H \
             'Content-Type: application/json' -d '{\"phone\":\"+15550123456\"}'\n"
        ));
    }

    #[test]
    fn a_listener_for_operators_is_shown() {
        let source = AdminTokenSource::Settings;
        let listen = "0.0.0.0:80".parse().unwrap();
        let banner = Banner::new(listen, Path::new("./data"), source, None);
        let text = banner.with_admin(Some("0.0.0.0:81".parse().unwrap())).to_string();
        assert!(text.contains("  operators     http://127.0.0.1:81\n"), "{text}");
        assert!(text.contains("  curl http://127.0.0.1:81/readyz\n"), "{text}");
    }

    #[test]
    fn production_shows_no_key() {
        let text = banner("[::]:80", None);
        assert!(text.contains("curl http://[::1]:80/readyz\n"), "{text}");
        assert!(!text.contains("key"), "{text}");
    }
}
