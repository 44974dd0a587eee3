//! Reads the settings: compiled-in defaults, then a file, then the environment, then flags.
//!
//! A later layer wins. An unknown key or a forbidden value stops the start.

mod cluster;
mod layers;
mod section;
#[cfg(test)]
mod tests;
mod value;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
pub use postrider_actors::Secret;
use postrider_actors::domain::Limits;

pub use cluster::Cluster;
use layers::Layers;
pub use layers::{InForce, Origin, SettingsError, VARIABLE_PREFIX};
pub use section::{
    Admin, AdmissionSettings, AuditSettings, Broadcasts, ClockSettings, CloudApi, Conversations,
    Dashboard, EmailSettings, Events, Guard, Log, Media, Messages, OptOut, OtpSettings, Pool,
    Prices, Rates, SandboxSettings, Secrets, Server, Shutdown, Storage, TracesSettings,
    WebhooksSettings,
};
pub use value::{LogFormat, MasterKey, SandboxClock};

/// The addresses of this machine itself.
const LOOPBACK: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
];

/// All settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `[server]`
    pub server: Server,
    /// `[dashboard]`
    pub dashboard: Dashboard,
    /// `[admin]`
    pub admin: Admin,
    /// `[secrets]`
    pub secrets: Secrets,
    /// `[limits]`
    pub limits: Limits,
    /// The rates in `[limits]`.
    pub rates: Rates,
    /// `[prices]`
    pub prices: Prices,
    /// `[media]`
    pub media: Media,
    /// `[opt_out]`
    pub opt_out: OptOut,
    /// `[broadcasts]`
    pub broadcasts: Broadcasts,
    /// `[messages]`
    pub messages: Messages,
    /// `[pool]`
    pub pool: Pool,
    /// `[conversations]`
    pub conversations: Conversations,
    /// `[guard]`
    pub guard: Guard,
    /// `[otp]`
    pub otp: OtpSettings,
    /// `[admission]`
    pub admission: AdmissionSettings,
    /// `[storage]`
    pub storage: Storage,
    /// `[clock]`
    pub clock: ClockSettings,
    /// `[sandbox]`
    pub sandbox: SandboxSettings,
    /// `[events]`
    pub events: Events,
    /// `[audit]`
    pub audit: AuditSettings,
    /// `[webhooks]`
    pub webhooks: WebhooksSettings,
    /// `[cloud_api]`
    pub cloud_api: CloudApi,
    /// `[email]`
    pub email: EmailSettings,
    /// `[shutdown]`
    pub shutdown: Shutdown,
    /// `[log]`
    pub log: Log,
    /// `[traces]`
    pub traces: TracesSettings,
    /// `[cluster]`
    pub cluster: Cluster,
    /// The effective values of all settings, for an operator.
    in_force: InForce,
}

/// Settings that command line flags override.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--listen`
    pub listen: Option<SocketAddr>,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
}

impl Settings {
    /// Loads the settings of this process: the defaults, `file`, the environment and `flags`.
    ///
    /// # Errors
    /// [`SettingsError`] names the origin of a key and the allowed values.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, SettingsError> {
        // A name or value that is not UTF-8 is converted to text that no key or value allows.
        let variables = std::env::vars_os()
            .map(|(name, value)| (lossy(name), lossy(value)))
            .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX));
        Self::from_layers(file, variables, flags)
    }

    /// Merges these layers into settings.
    ///
    /// # Errors
    /// [`SettingsError`] names the origin of a key and the allowed values.
    pub fn from_layers(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
        flags: &Flags,
    ) -> Result<Self, SettingsError> {
        let mut layers = Layers::of(section::all());
        if let Some(file) = file {
            layers.add_path(file)?;
        }
        layers.add_variables(variables)?;
        let mut settings = Self::build(&layers)?;
        // The command line parser has checked the flags.
        settings.server.listen = flags.listen.unwrap_or(settings.server.listen);
        if let Some(data_dir) = &flags.data_dir {
            settings.server.data_dir.clone_from(data_dir);
        }
        let flags = [
            ("server.listen", settings.server.listen.to_string()),
            ("server.data_dir", settings.server.data_dir.display().to_string()),
        ];
        settings.in_force.extend(flags.map(|(name, value)| (name.to_owned(), value.into())));
        Ok(settings)
    }

    /// Returns every setting in force by `section.key`, as it was given.
    ///
    /// A secret is only reported as `set`.
    #[must_use]
    pub const fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// Returns the subnets that webhooks may be delivered to although they are not public.
    ///
    /// `auto` is this machine, while nobody else can reach the server and set an endpoint.
    pub(crate) fn webhook_subnets(&self) -> Vec<IpNet> {
        match &self.webhooks.allowed_subnets {
            Some(subnets) => subnets.clone(),
            None if self.server.listen.ip().is_loopback() => LOOPBACK.to_vec(),
            None => Vec::new(),
        }
    }

    fn build(layers: &Layers) -> Result<Self, SettingsError> {
        let settings = Self {
            server: Server::build(layers)?,
            dashboard: Dashboard::build(layers)?,
            admin: Admin::build(layers)?,
            secrets: Secrets::build(layers)?,
            limits: section::build_limits(layers)?,
            rates: Rates::build(layers)?,
            prices: Prices::build(layers)?,
            media: Media::build(layers)?,
            opt_out: OptOut::build(layers)?,
            broadcasts: Broadcasts::build(layers)?,
            messages: Messages::build(layers)?,
            pool: Pool::build(layers)?,
            conversations: Conversations::build(layers)?,
            guard: Guard::build(layers)?,
            otp: OtpSettings::build(layers)?,
            admission: AdmissionSettings::build(layers)?,
            storage: Storage::build(layers)?,
            clock: ClockSettings::build(layers)?,
            sandbox: SandboxSettings::build(layers)?,
            events: Events::build(layers)?,
            audit: AuditSettings::build(layers)?,
            webhooks: WebhooksSettings::build(layers)?,
            cloud_api: CloudApi::build(layers)?,
            email: EmailSettings::build(layers)?,
            shutdown: Shutdown::build(layers)?,
            log: Log::build(layers)?,
            traces: TracesSettings::build(layers)?,
            cluster: Cluster::build(layers)?,
            in_force: layers.in_force(),
        };
        if !settings.email.host.is_empty() && settings.email.from.is_none() {
            return Err(SettingsError::BadValue {
                origin: layers.origin("email", "from"),
                key: "email.from".to_owned(),
                allowed: "an e-mail address, as email.host is given".to_owned(),
            });
        }
        settings.check_tls(layers)?;
        settings.check_cluster(layers)?;
        settings.check_bodies(&layers.origin("server", "bodies_bytes_max"))?;
        // The engine uses the key with the highest version, so previous keys must have lower ones.
        let current = settings.secrets.master_key_version;
        if settings.secrets.previous_master_keys.iter().any(|(version, _)| *version >= current) {
            return Err(SettingsError::BadValue {
                origin: layers.origin("secrets", "previous_master_keys"),
                key: "secrets.previous_master_keys".to_owned(),
                allowed: format!(
                    "of versions below secrets.master_key_version, which is {current}"
                ),
            });
        }
        Ok(settings)
    }
}

impl Settings {
    /// Checks that a certificate has its key, and that only a listener for operators has a client
    /// CA.
    fn check_tls(&self, layers: &Layers) -> Result<(), SettingsError> {
        let Server { tls_certificate_file, tls_key_file, tls_client_ca_file, .. } = &self.server;
        let bad = |key: &'static str, allowed: &str| {
            let origin = layers.origin("server", key);
            let (key, allowed) = (format!("server.{key}"), allowed.to_owned());
            Err(SettingsError::BadValue { origin, key, allowed })
        };
        match (tls_certificate_file, tls_key_file, tls_client_ca_file) {
            (Some(_), None, _) => bad("tls_key_file", "the key of server.tls_certificate_file"),
            (None, Some(_), _) => {
                bad("tls_certificate_file", "the certificate of server.tls_key_file")
            }
            (None, None, Some(_)) => {
                bad("tls_client_ca_file", "empty, as server.tls_certificate_file is")
            }
            (_, _, Some(_)) if self.admin.listen.is_none() => {
                bad("tls_client_ca_file", "empty, as admin.listen is")
            }
            _ => Ok(()),
        }
    }

    /// Checks that the largest body fits in half of the bytes of bodies, which one client may hold.
    fn check_bodies(&self, origin: &Origin) -> Result<(), SettingsError> {
        let Server { max_body_bytes, max_broadcast_body_bytes, .. } = self.server;
        let largest = max_body_bytes.max(max_broadcast_body_bytes);
        let least = 2 * largest.max(self.server.max_contacts_batch_body_bytes);
        if self.server.bodies_bytes_max >= least {
            return Ok(());
        }
        Err(SettingsError::BadValue {
            origin: origin.clone(),
            key: "server.bodies_bytes_max".to_owned(),
            allowed: format!("at least {least}, twice the largest body that is allowed"),
        })
    }
}

impl Default for Settings {
    /// Returns the defaults alone, which are a developer sandbox.
    fn default() -> Self {
        // A test of this module builds the defaults, so this cannot fail.
        #[allow(clippy::expect_used)]
        Self::from_layers(None, [], &Flags::default()).expect("the defaults are settings")
    }
}

fn lossy(text: std::ffi::OsString) -> String {
    text.to_string_lossy().into_owned()
}
