//! The sections of the settings: every key with its type, how it is read and what is allowed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use postrider_actors::domain::{Email, Limits};
use postrider_actors::{GuardMode, MailTls};
use tracing::level_filters::LevelFilter;

use super::error::{Origin, Refusal, SettingsError};
use super::layers::Layers;
use super::value::{self, LogFormat, MasterKey, Raw, Secret};

/// What the layers need to know of a section.
pub(super) struct SectionSpec {
    /// Its name in a file.
    pub(super) name: &'static str,
    /// Its keys.
    pub(super) keys: &'static [&'static str],
    /// Whether a key can have a value.
    pub(super) check: fn(&str, &Raw) -> Result<(), Refusal>,
}

/// Declares a section: its struct, and from the same lines how its keys are read.
macro_rules! section {
    (
        $(#[$doc:meta])* $type:ident = $name:literal
        $($(#[$key_doc:meta])* $key:ident: $of:ty = $read:expr, $allowed:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $type { $($(#[$key_doc])* pub $key: $of,)* }

        impl $type {
            pub(super) const SPEC: SectionSpec = SectionSpec {
                name: $name,
                keys: &[$(stringify!($key)),*],
                check: |key, raw| match key {
                    $(stringify!($key) => match ($read)(raw) {
                        Some::<$of>(_) => Ok(()),
                        None => Err(Refusal::BadValue { allowed: $allowed }),
                    },)*
                    _ => Err(Refusal::UnknownKey),
                },
            };

            pub(super) fn build(layers: &Layers) -> Result<Self, SettingsError> {
                Ok(Self { $($key: take(layers, $name, stringify!($key), $read, $allowed)?,)* })
            }
        }
    };
}

fn take<T>(
    layers: &Layers,
    section: &'static str,
    key: &'static str,
    read: impl Fn(&Raw) -> Option<T>,
    allowed: &'static str,
) -> Result<T, SettingsError> {
    layers.value(section, key).and_then(|(raw, _)| read(raw)).ok_or_else(|| {
        // The defaults give every key and each layer was checked, so this tells of a default that
        // is missing; a test finds it first.
        let origin = layers.origin(section, key);
        let key = format!("{section}.{key}");
        SettingsError::BadValue { origin, key, allowed: allowed.to_owned() }
    })
}

section! {
    /// How the server listens and what it takes from a client.
    Server = "server"
    /// Address and port to listen on.
    listen: SocketAddr = value::address,
        "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"";
    /// Directory of everything that is durable.
    data_dir: PathBuf = value::path, "a path that is not empty";
    /// Most bytes of a request's body.
    max_body_bytes: usize = value::whole(1024..=1 << 30), "a whole number from 1024 to 1073741824";
    /// Most bytes of the body of a request that makes a broadcast.
    max_broadcast_body_bytes: usize = value::whole(1024..=1 << 30),
        "a whole number from 1024 to 1073741824";
    /// Most bytes of the body of a request that makes many contacts.
    max_contacts_batch_body_bytes: usize = value::whole(1024..=1 << 30),
        "a whole number from 1024 to 1073741824";
    /// Longest wait for a request's head.
    head_timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Longest wait for a request's body.
    body_timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Longest wait for the answer to a request that was read.
    handler_timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Longest that an answer may wait for the client to read on.
    write_timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Most connections at a time.
    max_connections: usize = value::whole(1..=1_000_000), "a whole number from 1 to 1000000";
}

section! {
    /// Who may administer.
    Admin = "admin"
    /// Bearer token of `/admin/v1`; `None`: a file of the data directory holds it.
    token: Option<Secret> = value::token,
        "empty, or 1 to 256 visible ASCII characters without spaces";
}

section! {
    /// What codes are derived from.
    Secrets = "secrets"
    /// The current master key; `None`: a file of the data directory holds it.
    master_key: Option<MasterKey> = value::master_key, "empty, or 64 hexadecimal digits";
    /// The current master key's version.
    master_key_version: u8 = value::whole(1..=255), "a whole number from 1 to 255";
    /// Earlier master keys by version.
    previous_master_keys: Vec<(u8, MasterKey)> = value::master_keys,
        "empty, or pairs of a version (1 to 255, each once) and 64 hexadecimal digits with commas \
         between, such as \"1=00…ff,2=11…ee\"";
}

section! {
    /// What sending costs.
    Prices = "prices"
    /// Credits for a one-time password.
    otp: u64 = value::whole(0..=u64::MAX), "a whole number, 0 or more";
    /// Credits for a message of free text.
    text: u64 = value::whole(0..=u64::MAX), "a whole number, 0 or more";
    /// Credits for a message of a utility template.
    template_utility: u64 = value::whole(0..=u64::MAX), "a whole number, 0 or more";
    /// Credits for a message of a marketing template.
    template_marketing: u64 = value::whole(0..=u64::MAX), "a whole number, 0 or more";
    /// Credits for a message of an authentication template.
    template_authentication: u64 = value::whole(0..=u64::MAX), "a whole number, 0 or more";
}

section! {
    /// How people opt out of messages.
    OptOut = "opt_out"
    /// Words that opt out.
    stop_words: Vec<String> = value::words, "at most 200 texts of 1 to 64 characters";
    /// Words that opt in again.
    start_words: Vec<String> = value::words, "at most 200 texts of 1 to 64 characters";
}

section! {
    /// How long messages are worked at.
    Messages = "messages"
    /// How long a message may wait for the channel.
    give_up_seconds: Duration = value::long_seconds, "a whole number from 1 to 2592000";
    /// How long the provider's reports settle a message whose answer got lost.
    unknown_after_seconds: Duration = value::long_seconds, "a whole number from 1 to 2592000";
    /// Messages of one workspace that may wait for the channel.
    unsent_per_workspace_max: usize = value::whole(1..=100_000_000),
        "a whole number from 1 to 100000000";
}

section! {
    /// How broadcasts are made and sent.
    Broadcasts = "broadcasts"
    /// Most recipients of one.
    max_recipients: usize = value::whole(1..=10_000_000), "a whole number from 1 to 10000000";
    /// A scheduled one that could not begin for longer fails.
    max_lateness_seconds: u64 = value::whole(1..=31_536_000),
        "a whole number from 1 to 31536000";
    /// For how long one that is over is kept.
    kept_days: Duration = value::days, "a whole number from 1 to 3650";
    /// Failures in a hundred beyond which one is paused.
    pause_failure_percent: u32 = value::whole(0..=100), "a whole number from 0 (never) to 100";
    /// Outcomes before which that is not judged.
    pause_failure_min: u32 = value::whole(1..=1_000_000), "a whole number from 1 to 1000000";
}

section! {
    /// What is done about codes that nobody submits.
    Guard = "guard"
    /// How many to one country in an hour are suspicious; 0 is never.
    unverified_per_prefix_hour: u32 = value::whole(0..=u32::MAX.into()),
        "a whole number from 0 (off) to 4294967295";
    /// What is done then.
    mode: GuardMode = value::guard_mode, "\"report\" or \"refuse\"";
}

section! {
    /// How much may be under way at a time.
    AdmissionSettings = "admission"
    /// Commands of one workspace.
    in_flight_per_workspace: usize = value::whole(1..=1_000_000),
        "a whole number from 1 to 1000000";
    /// Commands of all workspaces.
    in_flight_total: usize = value::whole(1..=10_000_000), "a whole number from 1 to 10000000";
    /// One-time passwords that a workspace may hold.
    otps_per_workspace_max: usize = value::whole(1..=100_000_000),
        "a whole number from 1 to 100000000";
}

section! {
    /// How what is durable is written.
    Storage = "storage"
    /// Most bytes waiting for the disk.
    queued_bytes_max: usize = value::whole(1 << 20..=1 << 34),
        "a whole number from 1048576 to 17179869184";
    /// Journal bytes between two snapshots, at the least.
    snapshot_journal_bytes: u64 = value::whole(1 << 20..=1 << 40),
        "a whole number from 1048576 to 1099511627776";
}

section! {
    /// The developer sandbox.
    SandboxSettings = "sandbox"
    /// Whether this is one.
    enabled: bool = value::flag, "true or false";
    /// Messages that a workspace's sandbox number remembers.
    messages_kept: usize = value::whole(1..=10_000_000), "a whole number from 1 to 10000000";
}

section! {
    /// How much of the event logs is kept.
    Events = "events"
    /// For how long.
    kept_days: Duration = value::days, "a whole number from 1 to 3650";
    /// Events of a workspace, at the most.
    kept_events_max: u64 = value::whole(1000..=1_000_000_000), "a whole number from 1000 to 1000000000";
    /// Bytes of a workspace's events, at the most.
    kept_bytes_max: u64 = value::whole((1 << 16)..=(1 << 40)), "a whole number from 65536 to 1099511627776";
}

section! {
    /// How events are delivered.
    WebhooksSettings = "webhooks"
    /// Whether `http` is allowed beside `https`.
    allow_http: bool = value::flag, "true or false";
    /// Subnets that are allowed although they are not public.
    allowed_subnets: Vec<IpNet> = value::subnets,
        "empty, or subnets with commas between, such as \"10.1.0.0/16, fd00::/8\"";
    /// Requests under way at once.
    requests_max: usize = value::whole(1..=10_000), "a whole number from 1 to 10000";
    /// Longest that a request may take.
    timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Tries of an endpoint that are listed.
    deliveries_kept_max: usize = value::whole(1..=10_000), "a whole number from 1 to 10000";
    /// For how long.
    deliveries_kept_days: Duration = value::days, "a whole number from 1 to 3650";
}

section! {
    /// Where the chat-app channel is.
    CloudApi = "cloud_api"
    /// The beginning of every address.
    base_url: String = value::base_url,
        "an http or https address without a path, such as \"https://graph.facebook.com\"";
    /// The version of the interface.
    version: String = value::version, "`v` and a number, such as \"v24.0\"";
    /// A file of certificates that are trusted beside those of the system.
    ca_file: Option<PathBuf> = value::optional(value::path), "empty, or the path of a file";
    /// Longest wait for a connection.
    connect_timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Longest wait for a whole answer.
    timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
}

section! {
    /// The server that mail leaves through.
    EmailSettings = "email"
    /// Its name or address; empty: there is none.
    host: String = value::line, "empty, or a name or address";
    /// Its port.
    port: u16 = value::whole(1..=65_535), "a whole number from 1 to 65535";
    /// How the connection is encrypted.
    tls: MailTls = value::mail_tls, "\"none\", \"starttls\" or \"tls\"";
    /// Certificates that are trusted beside those of the system.
    ca_file: Option<PathBuf> = value::optional(value::path), "empty, or the path of a file";
    /// Who logs in; empty: nobody.
    user: String = value::line, "a text of at most 254 characters";
    /// With which password.
    password: Secret = value::password, "a text of at most 254 characters";
    /// Where mail comes from.
    from: Option<Email> = value::optional(value::email), "empty, or an e-mail address";
    /// The name beside that address.
    from_name: String = value::line, "a text of at most 254 characters";
    /// Longest wait for each step.
    timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
}

section! {
    /// How the server stops.
    Shutdown = "shutdown"
    /// Longest that it may take.
    grace_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
}

section! {
    /// What is logged.
    Log = "log"
    /// Least important lines that are logged.
    level: LevelFilter = value::log_level,
        "\"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\"";
    /// How lines look.
    format: LogFormat = value::log_format, "\"auto\", \"text\" or \"json\"";
}

/// `[limits]`: its keys are the engine's, so a new limit needs no line here.
pub(super) const LIMITS: SectionSpec = SectionSpec {
    name: "limits",
    keys: LIMIT_KEYS,
    check: |key, raw| {
        if key == NUMBER_RATE {
            return rate(raw).map(|_| ()).ok_or(Refusal::BadValue { allowed: RATE_ALLOWED });
        }
        if !Limits::NAMES.contains(&key) {
            return Err(Refusal::UnknownKey);
        }
        limit(raw).map(|_| ()).ok_or(Refusal::BadValue { allowed: LIMIT_ALLOWED })
    },
};

/// Not one of a workspace's or a key's limits: numbers have their own.
const NUMBER_RATE: &str = "number_messages_per_second";
const RATE_ALLOWED: &str = "empty, or a whole number from 0 (no limit) to 100000";

/// The engine's limits and the rate of numbers.
const LIMIT_KEYS: &[&str] = &{
    let mut keys = [NUMBER_RATE; Limits::NAMES.len() + 1];
    let mut place = 0;
    while place < Limits::NAMES.len() {
        keys[place] = Limits::NAMES[place];
        place += 1;
    }
    keys
};

fn rate(raw: &Raw) -> Option<Option<u32>> {
    value::optional(value::whole(0..=100_000))(raw)
}

/// The rate of numbers that have none of their own, if one is set.
pub(super) fn build_number_rate(layers: &Layers) -> Result<Option<u32>, SettingsError> {
    take(layers, LIMITS.name, NUMBER_RATE, rate, RATE_ALLOWED)
}

const LIMIT_ALLOWED: &str = "a whole number from 0 (no limit) to 4294967295";

fn limit(raw: &Raw) -> Option<u32> {
    value::whole(0..=u32::MAX.into())(raw)
}

/// The limits that the layers give.
pub(super) fn build_limits(layers: &Layers) -> Result<Limits, SettingsError> {
    let mut table = serde_json::Map::new();
    for name in Limits::NAMES {
        let limit = take(layers, LIMITS.name, name, limit, LIMIT_ALLOWED)?;
        table.insert((*name).to_owned(), limit.into());
    }
    serde_json::from_value(table.into()).map_err(|error| SettingsError::BadValue {
        origin: Origin::Defaults,
        key: LIMITS.name.to_owned(),
        allowed: error.to_string(),
    })
}

/// Every section, in the order of the defaults.
pub(super) static SECTIONS: [SectionSpec; 18] = [
    Server::SPEC,
    Admin::SPEC,
    Secrets::SPEC,
    LIMITS,
    Prices::SPEC,
    OptOut::SPEC,
    Broadcasts::SPEC,
    Messages::SPEC,
    Guard::SPEC,
    AdmissionSettings::SPEC,
    Storage::SPEC,
    SandboxSettings::SPEC,
    Events::SPEC,
    WebhooksSettings::SPEC,
    CloudApi::SPEC,
    EmailSettings::SPEC,
    Shutdown::SPEC,
    Log::SPEC,
];
