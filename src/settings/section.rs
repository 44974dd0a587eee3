//! All sections and keys of the settings: type, parser and allowed values.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use postrider_actors::domain::{AdaptiveMode, Email, Limits};
use postrider_actors::{GuardMode, MailTls, MediaFetch, Secret};
use tracing::level_filters::LevelFilter;

use super::cluster::Cluster;
use super::layers::{Layers, Origin, SectionSpec, SettingsError, ValueRefusal, section};
use super::value::{self, LogFormat, MasterKey, Raw, SandboxClock};

section! {
    /// Where the server listens, and its limits on requests and connections.
    Server = "server"
    /// Address and port to listen on.
    listen: SocketAddr = value::address,
        "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"";
    /// Directory of all durable data.
    data_dir: PathBuf = value::path, "a path that is not empty";
    /// Whether the group of the data directory may use it.
    data_group_access: bool = value::flag, "true or false";
    /// Whether `/docs` and `/openapi.json` are served.
    docs: bool = value::flag, "true or false";
    /// Where the pages about errors are. `None`: at this server, while `docs` is on.
    errors_url: Option<String> = value::errors_url,
        "auto, empty, or a path or an http(s) URL without spaces and quotes";
    /// Largest request body, in bytes.
    max_body_bytes: usize = value::whole(1024..=1 << 30), "a whole number from 1024 to 1073741824";
    /// Largest body of a request that creates a broadcast, in bytes.
    max_broadcast_body_bytes: usize = value::body_bytes, "a whole number from 1024 to 1073741824";
    /// Largest body of a request that creates a batch of contacts, in bytes.
    max_contacts_batch_body_bytes: usize = value::body_bytes,
        "a whole number from 1024 to 1073741824";
    /// Longest wait for a request's head.
    head_timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Longest wait for a request's body.
    body_timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Longest time that a handler may take.
    handler_timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Longest time that a write may wait for the client to read.
    write_timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Most simultaneous connections.
    max_connections: usize = value::whole(1..=1_000_000), "a whole number from 1 to 1000000";
    /// Most simultaneous connections of one client address; 0 is no bound.
    max_connections_per_address: usize = value::whole(0..=1_000_000), "a whole number from 0 (no bound) to 1000000";
    /// Connections beyond these bounds that operators may have.
    reserved_connections: usize = value::whole(1..=10_000), "a whole number from 1 to 10000";
    /// Most bytes of request bodies in memory.
    bodies_bytes_max: usize = value::whole(32 << 20..=1 << 40), "a whole number from 33554432 to 1099511627776";
    /// Subnets of the proxies whose `X-Forwarded-For` is believed.
    trusted_proxies: Vec<IpNet> = value::subnets,
        "empty, or subnets with commas between, such as \"10.1.0.0/16, fd00::/8\"";
    /// Names that requests may be for. Empty: any.
    hosts: Vec<String> = value::hosts,
        "empty, or names without ports with commas between, such as \"api.example.com\"";
    /// The server's certificate, in PEM. `None`: it speaks plain HTTP.
    tls_certificate_file: Option<PathBuf> = value::optional(value::path), "empty, or a path";
    /// The certificate's private key, in PEM.
    tls_key_file: Option<PathBuf> = value::optional(value::path), "empty, or a path";
    /// Roots of the certificates that clients of `[admin] listen` must have, in PEM.
    tls_client_ca_file: Option<PathBuf> = value::optional(value::path), "empty, or a path";
}

section! {
    /// The dashboard, and the sessions of people.
    Dashboard = "dashboard"
    /// Whether it is served, and people may sign in.
    enabled: bool = value::flag, "true or false";
    /// The origin by which others reach it. `None`: nobody signs in from another machine.
    public_url: Option<String> = value::public_url, "empty, or an http or https address";
    /// How long a session goes on that is not used.
    session_idle_seconds: Duration = value::session_seconds, "a whole number from 60 to 2592000";
    /// How long a session goes on at the longest.
    session_max_seconds: Duration = value::session_seconds, "a whole number from 60 to 2592000";
    /// Whether passwords sign anybody in.
    password_sign_in: bool = value::flag, "true or false";
}

section! {
    /// Access to the administration.
    Admin = "admin"
    /// Bearer token of `/admin/v1`. `None`: it is in a file of the data directory.
    token: Option<Secret> = value::token,
        "empty, or 16 to 256 visible ASCII characters without spaces";
    /// A listener of its own for health, metrics and administration. `None`: `[server] listen`.
    listen: Option<SocketAddr> = value::optional(value::address),
        "empty, or an IP address and a port, such as \"127.0.0.1:8081\"";
}

section! {
    /// The master keys that one-time passwords are derived from.
    Secrets = "secrets"
    /// The current master key. `None`: it is in a file of the data directory.
    master_key: Option<MasterKey> = value::master_key, "empty, or 64 hexadecimal digits";
    /// The current master key's version.
    master_key_version: u8 = value::whole(1..=255), "a whole number from 1 to 255";
    /// Previous master keys by version.
    previous_master_keys: Vec<(u8, MasterKey)> = value::master_keys,
        "empty, or pairs of a version (1 to 255, each once) and 64 hexadecimal digits with commas \
         between, such as \"1=00…ff,2=11…ee\"";
}

section! {
    /// Prices in credits.
    Prices = "prices"
    /// Credits for a one-time password.
    otp: u64 = value::whole(0..=u64::MAX), "a whole number, 0 or more";
    /// Credits for a try to bring a one-time password by SMS.
    otp_sms: u64 = value::whole(0..=u64::MAX), "a whole number, 0 or more";
    /// Credits for a try to bring a one-time password by mail.
    otp_email: u64 = value::whole(0..=u64::MAX), "a whole number, 0 or more";
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
    /// Files that messages are sent with, or came with.
    Media = "media"
    /// How long they are kept.
    kept_days: Duration = value::days, "a whole number from 1 to 3650";
    /// Most bytes of one workspace.
    kept_bytes_max: u64 = value::whole(0..=u64::MAX), "a whole number, 0 or more";
    /// When the content of one that came in is got.
    fetch: MediaFetch = value::media_fetch, "\"always\" or \"on_demand\"";
}

section! {
    /// Words by which recipients opt out of messages.
    OptOut = "opt_out"
    /// Words that opt out.
    stop_words: Vec<String> = value::words, "at most 200 texts of 1 to 64 characters";
    /// Words that opt in again.
    start_words: Vec<String> = value::words, "at most 200 texts of 1 to 64 characters";
}

section! {
    /// Retry and queue limits of single messages.
    Messages = "messages"
    /// How long sending a message is retried before it fails.
    give_up_seconds: Duration = value::long_seconds, "a whole number from 1 to 2592000";
    /// How long a status callback may settle a message whose answer was lost.
    unknown_after_seconds: Duration = value::long_seconds, "a whole number from 1 to 2592000";
    /// Most unsent messages of a workspace.
    unsent_per_workspace_max: usize = value::whole(1..=100_000_000), "a whole number from 1 to 100000000";
    /// How long a single message is kept. `None`: for ever.
    kept_days: Option<Duration> = value::days_or_ever, "a whole number from 0 (for ever) to 3650";
}

section! {
    /// The numbers of a workspace that messages leave through.
    Pool = "pool"
    /// How long a number is down until another one takes over its messages.
    reassign_after_seconds: Duration = value::long_seconds, "a whole number from 1 to 2592000";
}

section! {
    /// Retention of what was written in conversations.
    Conversations = "conversations"
    /// How long it is kept. `None`: for ever.
    kept_days: Option<Duration> = value::days_or_ever, "a whole number from 0 (for ever) to 3650";
}

section! {
    /// Limits and failure policy of broadcasts.
    Broadcasts = "broadcasts"
    /// Most recipients of a broadcast.
    max_recipients: usize = value::whole(1..=10_000_000), "a whole number from 1 to 10000000";
    /// A scheduled broadcast that starts later than this fails instead.
    max_lateness_seconds: u64 = value::whole(1..=31_536_000), "a whole number from 1 to 31536000";
    /// How long a finished broadcast is kept.
    kept_days: Duration = value::days, "a whole number from 1 to 3650";
    /// Failure rate, in percent, above which a broadcast is paused.
    pause_failure_percent: u32 = value::whole(0..=100), "a whole number from 0 (never) to 100";
    /// Outcomes that must be known before the failure rate is applied.
    pause_failure_min: u32 = value::whole(1..=1_000_000), "a whole number from 1 to 1000000";
}

section! {
    /// The guard against SMS pumping: codes that nobody submits.
    Guard = "guard"
    /// Unverified codes to one country in an hour above which the guard acts; 0 turns it off.
    unverified_per_prefix_hour: u32 = value::whole(0..=u32::MAX.into()), "a whole number from 0 (off) to 4294967295";
    /// What the guard does then.
    mode: GuardMode = value::guard_mode, "\"report\" or \"refuse\"";
    /// What is done about destinations whose codes are rarely verified.
    adaptive: AdaptiveMode = value::adaptive_mode, "\"off\", \"report\" or \"refuse\"";
    /// Codes that were sent in the last so many seconds count.
    adaptive_window_seconds: u16 = value::whole(1800..=3600), "a whole number from 1800 to 3600";
    /// Codes that must have ended before a destination is judged.
    adaptive_min_sends: u32 = value::whole(1..=1_000_000), "a whole number from 1 to 1000000";
    /// Verified codes of a hundred below which a destination is limited.
    adaptive_conversion_percent: u8 = value::whole(1..=100), "a whole number from 1 to 100";
    /// Seconds that a destination stays limited after the codes to it last showed that it is.
    adaptive_hold_seconds: u32 = value::whole(0..=86_400), "a whole number from 0 to 86400";
    /// Phones of a hundred in a limited destination that codes are sent to nevertheless.
    adaptive_probe_percent: u8 = value::whole(0..=100), "a whole number from 0 to 100";
}

section! {
    /// One-time passwords.
    OtpSettings = "otp"
    /// Seconds that a step of a chain is waited for, where it names no time itself.
    step_timeout_seconds: u16 = value::whole(10..=300), "a whole number from 10 to 300";
    /// Days that an ended one can be read.
    kept_days: Duration = value::days, "a whole number from 1 to 3650";
}

section! {
    /// Admission limits: how much may be in flight.
    AdmissionSettings = "admission"
    /// Most commands in flight in one workspace.
    in_flight_per_workspace: usize = value::whole(1..=1_000_000), "a whole number from 1 to 1000000";
    /// Most commands in flight in all workspaces.
    in_flight_total: usize = value::whole(1..=10_000_000), "a whole number from 1 to 10000000";
    /// Most pending one-time passwords of a workspace.
    otps_per_workspace_max: usize = value::whole(1..=100_000_000), "a whole number from 1 to 100000000";
}

section! {
    /// The store: write queue and snapshots.
    Storage = "storage"
    /// Most bytes queued for the writer.
    queued_bytes_max: usize = value::whole(1 << 20..=1 << 34), "a whole number from 1048576 to 17179869184";
    /// Least journal growth, in bytes, between two snapshots.
    snapshot_journal_bytes: u64 = value::whole(1 << 20..=1 << 40), "a whole number from 1048576 to 1099511627776";
    /// Bytes of a file of the log.
    segment_bytes: u64 = value::whole(1 << 20..=1 << 30), "a whole number from 1048576 to 1073741824";
    /// Whether checkpoints are made, from which a damaged view is built anew.
    checkpoints: bool = value::flag, "true or false";
    /// Least growth of the log, in bytes, between two checkpoints.
    checkpoint_log_bytes: u64 = value::whole(1 << 20..=1 << 40),
        "a whole number from 1048576 to 1099511627776";
    /// Free bytes of the disk below which nothing more is made; 0 is no bound. `None`: 1 GiB, or a
    /// tenth of the disk if that is less.
    free_bytes_min: Option<u64> = value::whole_or_auto(0..=1 << 50),
        "\"auto\", or a whole number from 0 (no bound) to 1125899906842624";
}

section! {
    /// What the engine does when the wall clock of the machine steps.
    ClockSettings = "clock"
    /// A larger difference between the wall clock and the engine's real time is a step.
    step_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Engine time may be ahead of the wall clock by this at a start without a warning.
    ahead_max_seconds: Duration = value::long_seconds, "a whole number from 1 to 2592000";
    /// For how long after a step nothing is deleted because of its age.
    rest_seconds: Duration = value::long_seconds, "a whole number from 1 to 2592000";
}

section! {
    /// The developer sandbox.
    SandboxSettings = "sandbox"
    /// Whether this server is a sandbox.
    enabled: bool = value::flag, "true or false";
    /// Messages that the sandbox keeps for each workspace.
    messages_kept: usize = value::whole(1..=10_000_000), "a whole number from 1 to 10000000";
    /// Who may move its clock.
    clock: SandboxClock = value::sandbox_clock, "\"any\" or \"admin\"";
}

section! {
    /// Retention of the event logs.
    Events = "events"
    /// How long events are kept.
    kept_days: Duration = value::days, "a whole number from 1 to 3650";
    /// Most events that are kept of a workspace.
    kept_events_max: u64 = value::whole(1000..=1_000_000_000), "a whole number from 1000 to 1000000000";
    /// Most bytes of events that are kept of a workspace.
    kept_bytes_max: u64 = value::whole((1 << 16)..=(1 << 40)), "a whole number from 65536 to 1099511627776";
}

section! {
    /// Retention of the audit log.
    AuditSettings = "audit"
    /// How long a record is kept. `None`: for ever.
    kept_days: Option<Duration> = value::days_or_ever, "a whole number from 0 (for ever) to 3650";
}

section! {
    /// Delivery of events to webhooks.
    WebhooksSettings = "webhooks"
    /// Whether endpoints may use `http` as well as `https`.
    allow_http: bool = value::flag, "true or false";
    /// Private subnets that endpoints may be in.
    allowed_subnets: Option<Vec<IpNet>> = value::subnets_or_auto,
        "\"auto\", empty, or subnets with commas between, such as \"10.1.0.0/16, fd00::/8\"";
    /// Most simultaneous requests.
    requests_max: usize = value::whole(1..=10_000), "a whole number from 1 to 10000";
    /// Timeout of a request.
    timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Most delivery attempts that are kept of an endpoint.
    deliveries_kept_max: usize = value::whole(1..=10_000), "a whole number from 1 to 10000";
    /// How long delivery attempts are kept.
    deliveries_kept_days: Duration = value::days, "a whole number from 1 to 3650";
}

section! {
    /// Connection to the Cloud API, the chat-app channel.
    CloudApi = "cloud_api"
    /// Base URL of every request.
    base_url: String = value::base_url,
        "an http or https address without a path, such as \"https://graph.facebook.com\"";
    /// Version of the API.
    version: String = value::version, "`v` and a number, such as \"v24.0\"";
    /// A PEM file of certificates to trust in addition to those of the system.
    ca_file: Option<PathBuf> = value::optional(value::path), "empty, or the path of a file";
    /// Hosts that files which came in are got from, beside that of `base_url`.
    media_hosts: Vec<String> = value::hosts,
        "empty, or names without ports with commas between, such as \"files.example.com\"";
    /// Longest wait for a connection.
    connect_timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
    /// Timeout of a whole request.
    timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
}

section! {
    /// The SMTP server for outgoing mail.
    EmailSettings = "email"
    /// Its host name or address. Empty: outgoing mail is off.
    host: String = value::line, "empty, or a name or address";
    /// Its port.
    port: u16 = value::whole(1..=65_535), "a whole number from 1 to 65535";
    /// How the connection is encrypted.
    tls: MailTls = value::mail_tls, "\"none\", \"starttls\" or \"tls\"";
    /// A PEM file of certificates to trust in addition to those of the system.
    ca_file: Option<PathBuf> = value::optional(value::path), "empty, or the path of a file";
    /// User name for the login. Empty: no login.
    user: String = value::line, "a text of at most 254 characters";
    /// Password for the login.
    password: Secret = value::password, "a text of at most 254 characters";
    /// Sender address.
    from: Option<Email> = value::optional(value::email), "empty, or an e-mail address";
    /// Display name of the sender.
    from_name: String = value::line, "a text of at most 254 characters";
    /// Timeout of each SMTP command.
    timeout_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
}

section! {
    /// Shutdown of the server.
    Shutdown = "shutdown"
    /// Grace period of a shutdown.
    grace_seconds: Duration = value::seconds, "a whole number from 1 to 3600";
}

section! {
    /// Logging.
    Log = "log"
    /// Lowest level that is logged.
    level: LevelFilter = value::log_level,
        "\"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\"";
    /// Format of log lines.
    format: LogFormat = value::log_format, "\"auto\", \"text\" or \"json\"";
}

section! {
    /// Traces of requests, for OpenTelemetry.
    TracesSettings = "traces"
    /// Where they are sent, by OTLP over HTTP. `None`: no request is followed.
    endpoint: Option<String> = value::optional(value::endpoint),
        "empty, or an http or https address with its path, such as \
         \"http://127.0.0.1:4318/v1/traces\"";
    /// One request of so many is followed; 0: those only whose caller follows them.
    sample_one_in: u32 = value::whole(0..=1_000_000), "a whole number from 0 to 1000000";
}

/// All sections, in the order of the defaults file.
pub(super) static SECTIONS: [SectionSpec; 27] = [
    Server::SPEC,
    Dashboard::SPEC,
    Admin::SPEC,
    Secrets::SPEC,
    LIMITS,
    Prices::SPEC,
    Media::SPEC,
    OptOut::SPEC,
    Broadcasts::SPEC,
    Messages::SPEC,
    Pool::SPEC,
    Conversations::SPEC,
    Guard::SPEC,
    OtpSettings::SPEC,
    AdmissionSettings::SPEC,
    Storage::SPEC,
    ClockSettings::SPEC,
    SandboxSettings::SPEC,
    Events::SPEC,
    AuditSettings::SPEC,
    WebhooksSettings::SPEC,
    CloudApi::SPEC,
    EmailSettings::SPEC,
    Shutdown::SPEC,
    Log::SPEC,
    TracesSettings::SPEC,
    Cluster::SPEC,
];

/// `[limits]`. Its keys are the engine's, so a new limit needs no line here.
const LIMITS: SectionSpec = SectionSpec {
    name: "limits",
    keys: LIMIT_KEYS,
    check: |key, raw| {
        if key == NUMBER_RATE {
            return rate(raw).map(|_| ()).ok_or(ValueRefusal::BadValue { allowed: RATE_ALLOWED });
        }
        if key == SESSION_RATE {
            return session_rate(raw)
                .map(|_| ())
                .ok_or(ValueRefusal::BadValue { allowed: SESSION_ALLOWED });
        }
        if !Limits::NAMES.contains(&key) {
            return Err(ValueRefusal::UnknownKey);
        }
        let allowed = limit_allowed(key);
        limit(key)(raw).map(|_| ()).ok_or(ValueRefusal::BadValue { allowed })
    },
};

/// A limit of numbers. It is not among the limits of workspaces and keys.
const NUMBER_RATE: &str = "number_messages_per_second";
const RATE_ALLOWED: &str = "empty, or a whole number from 0 (no limit) to 100000";

/// A limit of people's sessions. It is not among the limits of workspaces and keys.
const SESSION_RATE: &str = "session_requests_per_minute";
const SESSION_ALLOWED: &str = "a whole number from 0 (no limit) to 4294967295";

/// The limits of the engine and the rates of numbers and sessions.
const LIMIT_KEYS: &[&str] = &{
    let mut keys = [NUMBER_RATE; Limits::NAMES.len() + 2];
    keys[Limits::NAMES.len() + 1] = SESSION_RATE;
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

fn session_rate(raw: &Raw) -> Option<u32> {
    value::whole(0..=u32::MAX.into())(raw)
}

/// Builds the requests per minute of a session.
pub(super) fn build_session_rate(layers: &Layers) -> Result<u32, SettingsError> {
    layers.take(LIMITS.name, SESSION_RATE, session_rate, SESSION_ALLOWED)
}

/// Builds the rate of numbers that have none of their own.
pub(super) fn build_number_rate(layers: &Layers) -> Result<Option<u32>, SettingsError> {
    layers.take(LIMITS.name, NUMBER_RATE, rate, RATE_ALLOWED)
}

/// Returns the allowed values of a limit. The texts correspond to the engine's largest values.
fn limit_allowed(name: &str) -> &'static str {
    match Limits::max_of(name) {
        4_294_967_295 => "a whole number from 0 (no limit) to 4294967295",
        _ => "a whole number from 0 (no limit) to 9007199254740991",
    }
}

fn limit(name: &str) -> impl Fn(&Raw) -> Option<u64> {
    value::whole(0..=Limits::max_of(name))
}

/// Builds the limits of the engine from the layers.
pub(super) fn build_limits(layers: &Layers) -> Result<Limits, SettingsError> {
    let mut table = serde_json::Map::new();
    for name in Limits::NAMES {
        let limit = layers.take(LIMITS.name, name, limit(name), limit_allowed(name))?;
        table.insert((*name).to_owned(), limit.into());
    }
    serde_json::from_value(table.into()).map_err(|error| SettingsError::BadValue {
        origin: Origin::Defaults,
        key: LIMITS.name.to_owned(),
        allowed: error.to_string(),
    })
}
