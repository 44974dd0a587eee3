//! All sections and keys of the settings, with their defaults, rules and published descriptions.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use postrider_actors::domain::{AdaptiveMode, Email, Limits};
use postrider_actors::{GuardMode, MailTls, MediaFetch, Secret};
use tracing::level_filters::LevelFilter;

use super::cluster::Cluster;
use super::layers::{KeySpec, Layers, Origin, SectionSpec, SettingsError, section};
use super::value::{self, LogFormat, MasterKey, Raw, Rule, SandboxClock};

section! {
    /// The listener of the server, and the limits of its requests and connections.
    Server = "server"
    /// Address and port to listen on. Port 0 takes a free one.
    listen: SocketAddr = "127.0.0.1:8080",
        value::address("\"127.0.0.1:8080\" or \"[::]:8080\"");
    /// Directory of all durable data. The start creates it with mode 0700 if it is missing. It
    /// closes a directory that other users can use, with a warning.
    data_dir: PathBuf = "./data", value::path();
    /// Lets the group of the data directory use it, as of a volume that an orchestrator mounts.
    /// Other users never may. The start closes what they could use, with a warning.
    data_group_access: bool = false, value::flag();
    /// Serves `/docs` and `/openapi.json`.
    docs: bool = true, value::flag();
    /// Address of the pages about errors. `Link` of a refusal is this address, a slash and the
    /// code. "auto": `/docs/errors` of this server while `docs` is on, no link otherwise. Empty: no
    /// link.
    errors_url: Option<String> = "auto", value::errors_url();
    /// Largest request body. A larger one is answered 413.
    max_body_bytes: usize = 1_048_576, value::bytes(1024..=1 << 30);
    /// Largest body of `POST /messaging/broadcasts`. A larger one is answered 413.
    max_broadcast_body_bytes: usize = 33_554_432, value::bytes(1024..=1 << 30);
    /// Largest body of `POST /contacts/batch`. A larger one is answered 413.
    max_contacts_batch_body_bytes: usize = 8_388_608, value::bytes(1024..=1 << 30);
    /// Longest wait for a request's head, and for the next request of an idle connection.
    head_timeout_seconds: Duration = 10, value::seconds(1..=3600);
    /// Longest wait for a request's body; then 408. A file may take a second more for each 256 KiB,
    /// with no longer pause than this.
    body_timeout_seconds: Duration = 30, value::seconds(1..=3600);
    /// Longest time to answer a request that was read; then 503.
    handler_timeout_seconds: Duration = 60, value::seconds(1..=3600);
    /// Longest wait for a client that does not read its answer. Then the connection is closed.
    write_timeout_seconds: Duration = 30, value::seconds(1..=3600);
    /// Most bytes of request bodies in memory, in a cluster for each shard that a node owns. More
    /// is answered 503 with the reason `overloaded`. A quarter is for routes without a key. One key
    /// may hold half of all, one address without a key half of the quarter. It must be at least
    /// twice the largest body above.
    bodies_bytes_max: usize = 268_435_456, value::bytes(32 << 20..=1 << 40);
    /// Most connections at a time. Requests on more are answered 503 with the reason `overloaded`.
    /// The start lowers it to what the limit on open files leaves.
    max_connections: usize = 10_000, value::whole(1..=1_000_000);
    /// Most connections of one client address, and never more than half of `max_connections`. An
    /// IPv6 address counts with its /64. Requests on more are answered 503 with the reason
    /// `overloaded`. Trusted proxies have no such bound.
    max_connections_per_address: usize = 1000, value::whole(0..=1_000_000).zero("no bound");
    /// Connections beyond these bounds. On them only `/healthz`, `/readyz`, `/metrics` and
    /// `/admin/v1` are answered.
    reserved_connections: usize = 64, value::whole(1..=10_000);
    /// Subnets of the proxies before this server. The last address of `X-Forwarded-For` that is not
    /// in them is the client's.
    trusted_proxies: Vec<IpNet> = "", value::subnets();
    /// Names that requests may be for, whatever the port in `Host`. Others are answered 421. Empty:
    /// any name.
    hosts: Vec<String> = "", value::hosts();
    /// The server's certificate in PEM, followed by those between it and its root. With it the
    /// server speaks TLS 1.2 and 1.3 and nothing else. `SIGHUP` reloads it. Empty: plain HTTP.
    tls_certificate_file: Option<PathBuf> = "", value::path().or("");
    /// The certificate's private key in PEM, for the server's own user alone. A key that every
    /// local user may read stops the start.
    tls_key_file: Option<PathBuf> = "", value::path().or("");
    /// Roots, in PEM, of the certificates that clients of `admin.listen` must have.
    tls_client_ca_file: Option<PathBuf> = "", value::path().or("");
}

section! {
    /// The dashboard, and the sessions of people.
    Dashboard = "dashboard"
    /// Serves the dashboard below `/ui` and lets people sign in. Without it `/docs` is not served
    /// either.
    enabled: bool = true, value::flag();
    /// Origin by which others reach the dashboard, through TLS. Empty: nobody signs in from another
    /// machine.
    public_url: Option<String> = "", value::base_url("https://postrider.example.com").or("");
    /// Time after which an unused session ends. An operator's ends after an hour at most.
    session_idle_seconds: Duration = 43_200, value::seconds(60..=2_592_000);
    /// Time after which every session ends. An operator's ends after a day at most.
    session_max_seconds: Duration = 604_800, value::seconds(60..=2_592_000);
    /// Lets people sign in with passwords. Links sign them in anyway.
    password_sign_in: bool = true, value::flag();
}

section! {
    /// Access to the administration.
    Admin = "admin"
    /// Bearer token of `/admin/v1`. Give it by the environment (`POSTRIDER__ADMIN__TOKEN`). Empty:
    /// the first start generates it, in `admin.token` of the data directory (mode 0600).
    token: Option<Secret> = "", value::token();
    /// Address of another listener for `/healthz`, `/readyz`, `/metrics` and `/admin/v1`. They then
    /// leave `server.listen`. Empty: they are there.
    listen: Option<SocketAddr> = "", value::address("\"127.0.0.1:8081\"").or("");
}

section! {
    /// The master keys, which codes are derived from and secrets are encrypted under.
    Secrets = "secrets"
    /// Key that one-time codes are derived from and stored secrets are encrypted under. `openssl
    /// rand -hex 32` prints one. Give it by the environment (`POSTRIDER__SECRETS__MASTER_KEY`).
    /// Empty: the first start generates it, in `master.key` of the data directory (mode 0600).
    master_key: Option<MasterKey> = "", value::master_key();
    /// Version of the master key. To rotate, raise it, set the new key and move the old one to
    /// `previous_master_keys`.
    master_key_version: u8 = 1, value::whole(1..=255);
    /// Earlier master keys. Their codes can still be verified, and the next start encrypts their
    /// secrets under the new key. Drop one two hours after it was replaced.
    previous_master_keys: Vec<(u8, MasterKey)> = "", value::master_keys();
}

section! {
    /// Limits of requests, codes, contacts and records.
    Rates = "limits"
    /// Requests of a person's session in a minute: a token bucket, full at first.
    session_requests_per_minute: u32 = 600, value::whole(0..=u32::MAX.into()).zero("no limit");
    /// Messages through one number in a second, one second's worth at once. More wait and are never
    /// rejected. A number may have its own pace. Empty: 80 for a number of the Cloud API
    /// (`cloud_api`), no limit for a sandbox number.
    number_messages_per_second: Option<u32> = "", value::whole(0..=100_000).zero("no limit").or("");
}

section! {
    /// Prices in credits; 0 is free. The price of a message that surely was not sent is given back.
    Prices = "prices"
    /// Price of a one-time password.
    otp: u64 = 1, value::number("credits", 0..=u64::MAX);
    /// Price of a try to bring a one-time password by SMS.
    otp_sms: u64 = 1, value::number("credits", 0..=u64::MAX);
    /// Price of a try to bring a one-time password by mail.
    otp_email: u64 = 1, value::number("credits", 0..=u64::MAX);
    /// Price of a message of free text.
    text: u64 = 1, value::number("credits", 0..=u64::MAX);
    /// Price of a message of a utility template.
    template_utility: u64 = 1, value::number("credits", 0..=u64::MAX);
    /// Price of a message of a marketing template. A broadcast takes the prices of all its
    /// recipients when it is created. At its end it gives back those of messages that surely were
    /// not sent.
    template_marketing: u64 = 1, value::number("credits", 0..=u64::MAX);
    /// Price of a message of an authentication template.
    template_authentication: u64 = 1, value::number("credits", 0..=u64::MAX);
}

section! {
    /// Files that messages are sent with, and those that came in.
    Media = "media"
    /// Retention of files that were uploaded, or came in with messages.
    kept_days: Duration = 30, value::days();
    /// Most bytes of files of one workspace. More are refused (422, `media_full`), and contents
    /// that came in are not kept. The files are in the directory `media` of the data directory, and
    /// in a cluster in NATS. A backup has them too.
    kept_bytes_max: u64 = 10_737_418_240, value::bytes(0..=u64::MAX);
    /// Time at which the content of a file that came in is fetched from the channel. "always": at
    /// once. "on_demand": at the first `GET /media/{id}/content`, within the seven days that the
    /// channel keeps it.
    fetch: MediaFetch = "always",
        value::one_of([("always", MediaFetch::Always), ("on_demand", MediaFetch::OnDemand)]);
}

section! {
    /// Words by which recipients opt out of messages, and in again.
    OptOut = "opt_out"
    /// Words, in any case, that opt their sender out of marketing and broadcasts. The message must
    /// be nothing but one of them.
    stop_words: Vec<String> = [
        "stop", "stop all", "stopall", "unsubscribe", "opt out", "optout",
        "baja", "darme de baja", "parar", "sair", "descadastrar", "arret", "arrêt", "désabonner",
        "stopp", "abmelden", "annulla iscrizione", "afmelden", "stoppen", "avsluta", "iptal",
        "стоп", "отписаться", "إيقاف", "إلغاء الاشتراك", "रोकें", "berhenti",
        "退订", "停止", "配信停止", "수신거부",
    ], value::words();
    /// Words, in any case, that opt their sender in again. The message must be nothing but one of
    /// them.
    start_words: Vec<String> = [
        "start", "unstop", "subscribe", "opt in", "optin",
        "alta", "darme de alta", "voltar", "assinar", "reprendre", "s'abonner",
        "anmelden", "iscrivimi", "aanmelden", "başla", "старт", "подписаться",
        "ابدأ", "اشتراك", "शुरू", "mulai", "订阅", "開始", "配信再開", "수신동의",
    ], value::words();
}

section! {
    /// The numbers of a workspace that messages leave through.
    Pool = "pool"
    /// Time for which a number is stopped or failing before another one takes over. The other
    /// number is of the same pool and account. It takes over the messages made of a template.
    /// One-time passwords change over at once, free text never does.
    reassign_after_seconds: Duration = 60, value::seconds(1..=2_592_000);
}

section! {
    /// Single messages.
    Messages = "messages"
    /// Longest wait for the channel to take a message. Then it fails, and its price is given back.
    /// A broadcast's message waits from when it is its turn.
    give_up_seconds: Duration = 86_400, value::seconds(1..=2_592_000);
    /// Time in which a report of the provider settles a message whose answer got lost. Until then
    /// it is `unknown`. After this it stays so, whatever is reported.
    unknown_after_seconds: Duration = 86_400, value::seconds(1..=2_592_000);
    /// Most single messages of a workspace that may wait for the channel at a time. More are
    /// answered 503.
    unsent_per_workspace_max: usize = 1_000_000, value::whole(1..=100_000_000);
    /// Retention of a single message, with its text, after it was accepted; then it is 404. One
    /// that may still be sent, or settled by a report, is kept until that is over. In a
    /// conversation its text stays, with the status `unknown`.
    kept_days: Option<Duration> = 365, value::days_or_ever();
}

section! {
    /// Retention of what was written in conversations.
    Conversations = "conversations"
    /// Retention of the messages of conversations. The conversation and its contact stay. So does
    /// the beginning of the last message, which the list of conversations shows. A text that was
    /// sent also stays with its message (`messages.kept_days`).
    kept_days: Option<Duration> = 0, value::days_or_ever();
}

section! {
    /// Limits, retention and pauses of broadcasts.
    Broadcasts = "broadcasts"
    /// Most recipients of a broadcast.
    max_recipients: usize = 1_000_000, value::whole(1..=10_000_000);
    /// Longest delay of a scheduled broadcast. It fails when it could not begin for longer than
    /// this, because the server was down or did not get to it.
    max_lateness_seconds: u64 = 3600, value::number("seconds", 1..=31_536_000);
    /// Retention of a broadcast after its end, with its recipients and what became of them.
    kept_days: Duration = 365, value::days();
    /// Failed messages of a hundred above which a broadcast is paused.
    pause_failure_percent: u32 = 50, value::whole(0..=100).zero("never");
    /// Messages that must have an outcome before the failures are judged.
    pause_failure_min: u32 = 1000, value::whole(1..=1_000_000);
}

section! {
    /// The guard against SMS pumping: codes that nobody submits.
    Guard = "guard"
    /// Unverified one-time passwords from which on more of them are suspicious. They are those of
    /// one workspace in an hour to one country calling code. Somebody may have them sent to be paid
    /// for their delivery.
    unverified_per_prefix_hour: u32 = 0, value::whole(0..=u32::MAX.into()).zero("off");
    /// Reaction to suspicious codes. "report": a warning, a metric and the event
    /// `otp.pumping_suspected`, once for each country and hour. "refuse": that, and more of them
    /// are answered 422 until the hour is over.
    mode: GuardMode = "report",
        value::one_of([("report", GuardMode::Report), ("refuse", GuardMode::Refuse)]);
    /// Reaction to destinations where few codes are verified. A destination is a country calling
    /// code with the next three digits, or a country. "report": the event `otp.decided` for the
    /// first codes to one in each five minutes. "refuse": that, and all but a few codes are
    /// answered 422 with the reason `destination_blocked`. A workspace may say otherwise in its
    /// `destinations`.
    adaptive: AdaptiveMode = "off",
        value::one_of(AdaptiveMode::ALL.map(|mode| (mode.as_str(), mode)));
    /// Time in which sent codes count, in spans of five minutes. Half an hour is the least, because
    /// codes that nobody submits count at their end, up to 900 seconds later.
    adaptive_window_seconds: u16 = 3600, value::number("seconds", 1800..=3600);
    /// Codes that must be verified or have ended before a destination is judged.
    adaptive_min_sends: u32 = 50, value::whole(1..=1_000_000);
    /// Verified codes of a hundred below which a destination is limited.
    adaptive_conversion_percent: u8 = 10, value::whole(1..=100);
    /// Time for which a destination stays limited after its share of verified codes was last too
    /// low. Refused codes do not count, so the share alone would never end the limit. Meanwhile a
    /// fifth of `adaptive_min_sends` is enough to judge the destination again.
    adaptive_hold_seconds: u32 = 3600, value::number("seconds", 0..=86_400);
    /// Phones of a hundred in a limited destination that codes are sent to nevertheless. Their
    /// codes show if people are there again. The phones are others each hour, and get
    /// `adaptive_min_sends` codes in a window at most.
    adaptive_probe_percent: u8 = 10, value::whole(0..=100);
}

section! {
    /// One-time passwords.
    OtpSettings = "otp"
    /// Wait for a step of a chain of channels before the next begins. A step may name its own time.
    step_timeout_seconds: u16 = 30, value::number("seconds", 10..=300);
    /// Time for which a one-time password can be read after its end.
    kept_days: Duration = 30, value::days();
}

section! {
    /// Admission limits of commands in progress and of pending one-time passwords.
    AdmissionSettings = "admission"
    /// Most commands of one workspace in progress at a time. More are answered 503.
    in_flight_per_workspace: usize = 10_000, value::whole(1..=1_000_000);
    /// Most commands of all workspaces in progress at a time. In a cluster they are those of all
    /// shards that a node owns. More are answered 503.
    in_flight_total: usize = 50_000, value::whole(1..=10_000_000);
    /// Most one-time passwords that a workspace may hold, those that ended in the last hour
    /// included. More are answered 503.
    otps_per_workspace_max: usize = 10_000_000, value::whole(1..=100_000_000);
}

section! {
    /// The store: write queue, snapshots, log and free disk.
    Storage = "storage"
    /// Most bytes that may wait for the disk, in a cluster for the log of each shard of a node.
    /// Requests may fill three quarters of it. Beyond that they are answered 503 with the reason
    /// `overloaded`.
    queued_bytes_max: usize = 67_108_864, value::bytes(1 << 20..=1 << 34);
    /// Least log since the last snapshot before the next one. More makes fewer snapshots and a
    /// longer start.
    snapshot_journal_bytes: u64 = 67_108_864, value::bytes(1 << 20..=1 << 40);
    /// Size of a file of the log. Two of them are on the disk at any time. A start after a crash
    /// copies one.
    segment_bytes: u64 = 16_777_216, value::bytes(1 << 20..=1 << 30);
    /// Makes checkpoints: files with everything at one position of the log. A start rebuilds from
    /// them records that are damaged or missing. They take disk for two copies of all records, and
    /// for the log behind the older one.
    checkpoints: bool = false, value::flag();
    /// Least log since the last checkpoint before the next one. The log must also have grown by
    /// half of the last one's bytes. In a cluster checkpoints are always made. There the next one
    /// is made after a quarter of `cluster.stream_bytes_max` at the latest, and while the whole log
    /// has more than half of that.
    checkpoint_log_bytes: u64 = 268_435_456, value::bytes(1 << 20..=1 << 40);
    /// Free bytes of the disk with the data below which nothing more is created. Such requests are
    /// answered 503 with the reason `disk_full`. Codes are verified and callbacks are taken down to
    /// half of it. Below that half every request that writes is answered 503. "auto": 1 GiB, or a
    /// tenth of the disk if that is less.
    free_bytes_min: Option<u64> = "auto", value::bytes(0..=1 << 50).zero("no bound").or("auto");
}

section! {
    /// Steps of the machine's wall clock.
    ClockSettings = "clock"
    /// Largest difference between the machine's clock and the engine's time that is no step. The
    /// engine keeps its time by the monotonic clock, and follows a step slowly: 3 minutes in an
    /// hour. The log, `/readyz` and `postrider_clock_difference_seconds` report it. Meanwhile
    /// nothing is deleted because of its age.
    step_seconds: Duration = 5, value::seconds(1..=3600);
    /// Largest time at a start by which the data may be ahead of the machine's clock. A clock that
    /// was ahead has written such data. More is reported as a step of the clock is.
    ahead_max_seconds: Duration = 300, value::seconds(1..=2_592_000);
    /// Time after a step in which nothing is deleted because of its age. The same time follows a
    /// start that may have a wrong clock.
    rest_seconds: Duration = 3600, value::seconds(1..=2_592_000);
}

section! {
    /// The developer sandbox.
    SandboxSettings = "sandbox"
    /// Makes this server a sandbox. Never use one with real traffic. The first start creates a
    /// workspace `demo` with a key. `/v1/sandbox/…` is served, and the clock can be moved.
    enabled: bool = true, value::flag();
    /// Messages that a workspace's sandbox number remembers, in memory. The oldest go first.
    messages_kept: usize = 200_000, value::whole(1..=10_000_000);
    /// Callers that may move the clock, which is that of all workspaces. "any": a key that may
    /// send. "admin": an admin token only, and a key is answered 403. A caller that may move it can
    /// also make the time pass for which records of the audit log are kept (`audit.kept_days`).
    clock: SandboxClock = "any",
        value::one_of([("any", SandboxClock::Any), ("admin", SandboxClock::Admin)]);
}

section! {
    /// Retention of the event logs.
    Events = "events"
    /// Retention of events, also in a workspace that does nothing. Webhooks lose an event that is
    /// dropped, delivered or not. An endpoint's list of deliveries and the server's log then say
    /// `forgotten`.
    kept_days: Duration = 30, value::days();
    /// Most events of a workspace that are kept. The oldest go first, and webhooks lose them too.
    /// An event has about 250 bytes.
    kept_events_max: u64 = 4_000_000, value::whole(1000..=1_000_000_000);
    /// Most bytes of a workspace's events that are kept. The oldest go first, and webhooks lose
    /// them too. They take about as much on the disk, because they are not compressed. Their index
    /// takes about 10 bytes an event more.
    kept_bytes_max: u64 = 2_147_483_648, value::bytes(1 << 16..=1 << 40);
}

section! {
    /// Retention of the audit log.
    AuditSettings = "audit"
    /// Retention of a record of the audit log, which says who changed what.
    kept_days: Option<Duration> = 400, value::days_or_ever();
}

section! {
    /// Delivery of events to webhooks.
    WebhooksSettings = "webhooks"
    /// Lets endpoints use `http` as well as `https`.
    allow_http: bool = true, value::flag();
    /// Subnets that deliveries may go to although they are not public. Every other private, local
    /// or reserved address is refused. Of an answer from such an address only the status is shown.
    /// "auto": this machine (`127.0.0.0/8`, `::1/128`) while `server.listen` is on it, and none
    /// otherwise.
    allowed_subnets: Option<Vec<IpNet>> = "auto", value::subnets().or("auto");
    /// Most requests in progress, in a cluster of all shards that a node owns. One endpoint may
    /// have a quarter of them, a workspace half.
    requests_max: usize = 256, value::whole(1..=10_000);
    /// Longest time for a request, its answer's body included.
    timeout_seconds: Duration = 20, value::seconds(1..=3600);
    /// Most tries that an endpoint's list of deliveries shows. The oldest go first.
    deliveries_kept_max: usize = 1000, value::whole(1..=10_000);
    /// Time for which that list shows a try.
    deliveries_kept_days: Duration = 7, value::days();
}

section! {
    /// Connection to the Cloud API, the chat-app channel.
    CloudApi = "cloud_api"
    /// Address of the channel's Cloud API, for numbers of the kind `cloud_api`. Plain `http` is for
    /// a fake on this machine.
    base_url: String = "https://graph.facebook.com", value::base_url("https://graph.facebook.com");
    /// Version of the Cloud API.
    version: String = "v24.0", value::version();
    /// File of certificates (PEM), such as a proxy's, that are trusted beside those of the system.
    ca_file: Option<PathBuf> = "", value::path().or("");
    /// Hosts that files which came in are fetched from by HTTPS, beside that of `base_url`. No
    /// other host gets the token.
    media_hosts: Vec<String> = "lookaside.fbsbx.com", value::hosts();
    /// Longest wait for a connection to the Cloud API.
    connect_timeout_seconds: Duration = 5, value::seconds(1..=3600);
    /// Longest wait for a whole answer, connecting included. Without one the outcome of a message
    /// is unknown, so this is generous.
    timeout_seconds: Duration = 20, value::seconds(1..=3600);
}

section! {
    /// Replies by e-mail.
    EmailSettings = "email"
    /// Name or address of the mail server (SMTP) that replies by e-mail leave through. Empty: a
    /// conversation by e-mail cannot be answered.
    host: String = "", value::line();
    /// Port of the mail server.
    port: u16 = 587, value::whole(1..=65_535);
    /// Encryption of the connection. "starttls": the server must offer it. "tls": from the first
    /// byte, usually on port 465. "none": for a server on this machine.
    tls: MailTls = "starttls",
        value::one_of([
            ("starttls", MailTls::StartTls), ("tls", MailTls::Tls), ("none", MailTls::None),
        ]);
    /// File of certificates (PEM) that are trusted beside those of the system.
    ca_file: Option<PathBuf> = "", value::path().or("");
    /// User to log in as. Empty: no login.
    user: String = "", value::line();
    /// Password of that user. Give it by the environment (`POSTRIDER__EMAIL__PASSWORD`).
    password: Secret = "", value::line().map(Secret::new);
    /// Address that mail comes from. It is needed when `host` is given.
    from: Option<Email> = "", value::email().or("");
    /// Name beside that address.
    from_name: String = "", value::line();
    /// Longest wait for each step of SMTP.
    timeout_seconds: Duration = 30, value::seconds(1..=3600);
}

section! {
    /// Shutdown of the server.
    Shutdown = "shutdown"
    /// Longest time that a stop may take. It answers the requests in progress and makes everything
    /// durable.
    grace_seconds: Duration = 30, value::seconds(1..=3600);
}

section! {
    /// Logging.
    Log = "log"
    /// Lowest level that is logged. "debug" logs a line for each request.
    level: LevelFilter = "info",
        value::one_of([
            ("error", LevelFilter::ERROR), ("warn", LevelFilter::WARN), ("info", LevelFilter::INFO),
            ("debug", LevelFilter::DEBUG), ("trace", LevelFilter::TRACE), ("off", LevelFilter::OFF),
        ]);
    /// Format of log lines. "auto": text on a terminal, JSON otherwise.
    format: LogFormat = "auto",
        value::one_of([
            ("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json),
        ]);
}

section! {
    /// Traces of requests, for OpenTelemetry.
    TracesSettings = "traces"
    /// Address of the collector that gets traces of requests, by OTLP over HTTP (protobuf). Empty:
    /// no request is traced.
    endpoint: Option<String> = "", value::endpoint().or("");
    /// One request of so many is followed, by chance. One with a key is always followed if its
    /// `traceparent` header says that its caller follows it. 0: only those.
    sample_one_in: u32 = 100, value::whole(0..=1_000_000);
}

/// Returns all sections, in the order of the defaults file.
pub(super) fn all() -> Vec<SectionSpec> {
    vec![
        Server::spec(),
        Dashboard::spec(),
        Admin::spec(),
        Secrets::spec(),
        limits(),
        Prices::spec(),
        Media::spec(),
        OptOut::spec(),
        Pool::spec(),
        Messages::spec(),
        Conversations::spec(),
        Broadcasts::spec(),
        Guard::spec(),
        OtpSettings::spec(),
        AdmissionSettings::spec(),
        Storage::spec(),
        ClockSettings::spec(),
        SandboxSettings::spec(),
        Events::spec(),
        AuditSettings::spec(),
        WebhooksSettings::spec(),
        CloudApi::spec(),
        EmailSettings::spec(),
        Shutdown::spec(),
        Log::spec(),
        TracesSettings::spec(),
        Cluster::spec(),
    ]
}

/// Returns `[limits]`: the limits of the engine, so that a new one needs no line here, and the
/// rates of sessions and numbers.
fn limits() -> SectionSpec {
    let rates = Rates::spec();
    let of_engine = Limits::NAMES.iter().map(|name| KeySpec {
        name,
        #[cfg(test)]
        about: Limits::about(name),
        default: Raw::from(i64::from(Limits::default_of(name))),
        rule: limit(name).map(|_| ()),
    });
    SectionSpec { keys: of_engine.chain(rates.keys).collect(), ..rates }
}

fn limit(name: &str) -> Rule<u64> {
    value::whole(0..=Limits::max_of(name)).zero("no limit")
}

/// Builds the limits of the engine from the layers.
pub(super) fn build_limits(layers: &Layers) -> Result<Limits, SettingsError> {
    let mut table = serde_json::Map::new();
    for name in Limits::NAMES {
        let value = layers.take("limits", name, &limit(name))?;
        table.insert((*name).to_owned(), value.into());
    }
    serde_json::from_value(table.into()).map_err(|error| SettingsError::BadValue {
        origin: Origin::Defaults,
        key: "limits".to_owned(),
        allowed: error.to_string(),
    })
}
