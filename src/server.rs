//! Starts and stops a complete server, which the command line and the tests run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use postrider_actors::MailOptions;
use postrider_actors::clock::{Clock, ClockOptions, Stopwatch};
use postrider_actors::domain::OptOutWords;
use postrider_actors::{
    AddressRules, AdmissionOptions, AuditOptions, BroadcastOptions, CloudApiOptions,
    DeliveriesKept, DirectorySpace, Engine, EngineOptions, EventOptions, GuardOptions,
    MessageOptions, PeopleOptions, Prices, SandboxOptions, ShutdownError, StartError,
    WebhookOptions,
};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::banner::Banner;
use crate::boot::{self, BootError, DataDir};
use crate::http::{App, AppOptions, Drain, app, apps};
use crate::listeners::{exposure, serve_options};
use crate::metrics::Metrics;
use crate::serve::{Lingering, ServeOptions, serve};
use crate::settings::{Secret, Settings};
use crate::tls::{Tls, TlsError};

/// Starts servers.
#[derive(Debug)]
pub struct Server;

/// A running server. Dropping it stops it at once, like a crash; [`RunningServer::shutdown`] stops
/// it gracefully.
pub struct RunningServer {
    main: Listening,
    /// The listener for operators, if it is another one.
    admin: Option<Listening>,
    engine: Engine,
    demo_key: Option<Secret>,
    banner: Banner,
    grace: Duration,
    drain: Drain,
    upkeep: AbortOnDrop,
    directory: DataDir,
    /// What encrypts the connections of each listener.
    tls: Vec<Arc<Tls>>,
}

/// Why a shutdown was not graceful. Everything that was acknowledged is durable nevertheless.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The engine did not finish within the grace period.
    #[error(transparent)]
    Engine(#[from] ShutdownError),
    /// The accept loop panicked.
    #[error("the server failed: {0}")]
    Panicked(#[from] tokio::task::JoinError),
}

impl Server {
    /// Starts a server. When this returns, the address is bound, the data directory is locked, and
    /// in a sandbox the demo workspace exists.
    ///
    /// # Errors
    /// [`BootError`] says why the server cannot start.
    pub async fn start(settings: Settings) -> Result<RunningServer, BootError> {
        let (to_clients, to_operators) = serve_options(&settings, boot::raise_limit())?;
        let both = [&to_clients, &to_operators];
        let tls = both.into_iter().filter_map(|options| options.tls.clone()).collect();
        let directory =
            DataDir::open(&settings.server.data_dir, settings.server.data_group_access)?;
        let listener = Bound::to(settings.server.listen).await?;
        let admin_listener = match settings.admin.listen {
            Some(address) => Some(Bound::to(address).await?),
            None => None,
        };
        let (admin_token, token_source) =
            boot::admin_token(&directory, settings.admin.token.as_ref())?;
        let metrics = Metrics::new()?;
        let options = engine_options(&settings, &directory, &metrics)?;
        let engine = Engine::start(options).await.map_err(|error| match error {
            StartError::ClockMoved(ahead) => {
                BootError::ClockMoved { path: directory.path().to_owned(), ahead }
            }
            error => error.into(),
        })?;
        let (demo_key, warnings) = if settings.sandbox.enabled {
            (Some(boot::prepare_demo(&engine, &directory).await?), Vec::new())
        } else {
            (None, boot::leftovers(&engine, &directory)?)
        };
        let warnings = [warnings, exposure(&settings)].concat();
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let banner =
            Banner::new(listener.address, directory.path(), token_source, demo_key.clone());
        let banner = banner.with_sign_in(boot::sign_in_link(&settings, &engine).await?);
        let banner = banner.with_warnings(warnings.clone()).with_settings(&settings);
        let banner = banner.with_admin(admin_listener.as_ref().map(|bound| bound.address));
        let mut app_options = AppOptions::new(&settings, admin_token, metrics.clone());
        app_options.dashboard.address = listener.address;
        app_options.warnings = warnings;
        let drain = app_options.drain.clone();
        let (main, admin) = match admin_listener {
            None => (listener.serve(app(engine.clone(), app_options), to_clients), None),
            Some(admin_listener) => {
                let (clients, operators) = apps(engine.clone(), app_options);
                let admin = admin_listener.serve(operators, to_operators);
                (listener.serve(clients, to_clients), Some(admin))
            }
        };
        let upkeep = AbortOnDrop(tokio::spawn(async move { metrics.upkeep().await }));
        tracing::info!(address = %main.address, "listening");
        Ok(RunningServer {
            main,
            admin,
            engine,
            demo_key,
            banner,
            grace: settings.shutdown.grace_seconds,
            drain,
            upkeep,
            directory,
            tls,
        })
    }
}

/// A listener that is bound and accepts nothing yet.
struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    async fn to(address: SocketAddr) -> Result<Self, BootError> {
        let unbound = |source| BootError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        Ok(Self { listener, address })
    }

    fn serve(self, app: App, options: ServeOptions) -> Listening {
        let (stop, stopped) = oneshot::channel();
        // Dropping the server drops the sender, which stops the accept loop without a grace period.
        let stopped = async { stopped.await.unwrap_or(Duration::ZERO) };
        let serving = tokio::spawn(serve(self.listener, app, options, stopped));
        Listening { address: self.address, stop, serving }
    }
}

/// A listener that is served.
struct Listening {
    address: SocketAddr,
    stop: oneshot::Sender<Duration>,
    serving: JoinHandle<Lingering>,
}

impl Listening {
    /// Has it accept no more, and end within the grace period.
    fn stop(self, grace: Duration) -> JoinHandle<Lingering> {
        if self.stop.send(grace).is_err() {
            tracing::warn!("the server had stopped serving before");
        }
        self.serving
    }
}

impl RunningServer {
    /// The bound address, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.main.address
    }

    /// The address for health, metrics and administration, with the actual port.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.as_ref().map_or(self.main.address, |admin| admin.address)
    }

    /// The engine behind the server.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The key of the demo workspace, in a sandbox.
    #[must_use]
    pub fn demo_key(&self) -> Option<&str> {
        self.demo_key.as_ref().map(Secret::reveal)
    }

    /// What the command line prints after a start.
    #[must_use]
    pub fn banner(&self) -> &Banner {
        &self.banner
    }

    /// Reads certificates and keys of TLS anew, for the connections from now on. Whatever cannot be
    /// used is logged, and what was read before stays in use.
    pub fn reload_certificates(&self) {
        let reloaded: Result<Vec<()>, TlsError> = self.tls.iter().map(|tls| tls.reload()).collect();
        match reloaded {
            Err(error) => tracing::error!(%error, "the certificate stays as it is"),
            Ok(all) if all.is_empty() => tracing::info!("there is no certificate to read anew"),
            Ok(_) => tracing::info!("the certificate was read anew"),
        }
    }

    /// Shuts down within the grace period of the settings: accepts no more connections, answers the
    /// requests in progress, and makes everything durable. A client that has not sent its whole
    /// request is refused, and the connection of a client that does not read its answer is closed.
    ///
    /// # Errors
    /// [`StopError`] when not everything finished within the grace period.
    pub async fn shutdown(self) -> Result<(), StopError> {
        let Self { engine, grace, drain, main, admin, upkeep, directory, .. } = self;
        let watch = Stopwatch::start();
        drain.begin();
        // A quarter of the grace period is reserved for the engine, however slow the clients are.
        let stopping = main.stop(grace * 3 / 4);
        let admin_stopping = admin.map(|admin| admin.stop(grace * 3 / 4));
        let lingering = stopping.await?;
        let admin_lingering = match admin_stopping {
            Some(stopping) => Some(stopping.await?),
            None => None,
        };
        let finished = engine.shutdown(grace.saturating_sub(watch.elapsed())).await;
        // The engine has answered every request. What is still open waits for its client to read.
        let cut = lingering.cut() + admin_lingering.map_or(0, Lingering::cut);
        if cut > 0 {
            tracing::warn!(connections = cut, "cut connections whose clients were not done");
        }
        drop((upkeep, directory));
        Ok(finished?)
    }
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningServer").field("address", &self.main.address).finish_non_exhaustive()
    }
}

/// A task that is aborted when this is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The free bytes below which nothing more is made. A tenth of a small disk is enough where nobody
/// has set them.
fn free_bytes_min(settings: &Settings, directory: &DataDir) -> u64 {
    const AUTO: u64 = 1 << 30;
    settings.storage.free_bytes_min.unwrap_or_else(|| {
        let space = DirectorySpace(directory.path().to_owned());
        // Where the file system does not say how large it is, the engine logs it when it measures.
        space.total_bytes().map_or(AUTO, |total| AUTO.min(total / 10))
    })
}

fn broadcast_options(settings: &Settings) -> BroadcastOptions {
    BroadcastOptions {
        recipients_max: settings.broadcasts.max_recipients,
        max_lateness: Duration::from_secs(settings.broadcasts.max_lateness_seconds),
        kept_for: settings.broadcasts.kept_days,
        pause_failure_percent: settings.broadcasts.pause_failure_percent,
        pause_failure_min: settings.broadcasts.pause_failure_min,
    }
}

fn engine_options(
    settings: &Settings,
    directory: &DataDir,
    metrics: &Metrics,
) -> Result<EngineOptions, BootError> {
    let master_keys = boot::master_keys(directory, &settings.secrets)?;
    let defaults = EngineOptions::on_disk(directory.path(), master_keys);
    Ok(EngineOptions {
        limits: settings.limits,
        clock: Clock::with_options(ClockOptions {
            step: settings.clock.step_seconds,
            ahead_max: settings.clock.ahead_max_seconds,
            rest: settings.clock.rest_seconds,
        }),
        allow_moved_clock: settings.sandbox.enabled,
        number_messages_per_second: settings.number_messages_per_second,
        prices: prices(settings),
        opt_out: OptOutWords::new(&settings.opt_out.stop_words, &settings.opt_out.start_words),
        messages: message_options(settings),
        broadcasts: broadcast_options(settings),
        guard: GuardOptions {
            unverified_per_prefix_hour: settings.guard.unverified_per_prefix_hour,
            mode: settings.guard.mode,
        },
        admission: AdmissionOptions {
            in_flight_per_workspace: settings.admission.in_flight_per_workspace,
            in_flight_total: settings.admission.in_flight_total,
        },
        otps_per_workspace_max: settings.admission.otps_per_workspace_max,
        queued_bytes_max: settings.storage.queued_bytes_max,
        snapshot_journal_bytes: settings.storage.snapshot_journal_bytes,
        segment_bytes: settings.storage.segment_bytes,
        free_bytes_min: free_bytes_min(settings, directory),
        sandbox: SandboxOptions { messages_kept: settings.sandbox.messages_kept },
        events: event_options(settings),
        audit: AuditOptions { kept_for: settings.audit.kept_days },
        webhooks: webhook_options(settings),
        cloud_api: CloudApiOptions {
            base_url: settings.cloud_api.base_url.clone(),
            version: settings.cloud_api.version.clone(),
            extra_roots: boot::certificates(settings.cloud_api.ca_file.as_deref())?,
            connect_timeout: settings.cloud_api.connect_timeout_seconds,
            timeout: settings.cloud_api.timeout_seconds,
        },
        mail: mail_options(settings)?,
        people: people_options(settings),
        recorder: Some(metrics.recorder()),
        ..defaults
    })
}

/// The outgoing mail server, when one is configured.
fn mail_options(settings: &Settings) -> Result<Option<MailOptions>, BootError> {
    let email = &settings.email;
    let Some(from) = email.from.clone().filter(|_| !email.host.is_empty()) else {
        return Ok(None);
    };
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    Ok(Some(MailOptions {
        host: email.host.clone(),
        port: email.port,
        tls: email.tls,
        extra_roots: boot::certificates(email.ca_file.as_deref())?,
        login: given(&email.user).map(|user| (user, email.password.clone())),
        from,
        from_name: given(&email.from_name),
        timeout: email.timeout_seconds,
    }))
}

const fn prices(settings: &Settings) -> Prices {
    let prices = &settings.prices;
    Prices {
        otp: prices.otp,
        text: prices.text,
        template_utility: prices.template_utility,
        template_marketing: prices.template_marketing,
        template_authentication: prices.template_authentication,
    }
}

fn people_options(settings: &Settings) -> PeopleOptions {
    PeopleOptions {
        session_idle: settings.dashboard.session_idle_seconds,
        session_max: settings.dashboard.session_max_seconds,
        session_requests_per_minute: settings.session_requests_per_minute,
        password_sign_in: settings.dashboard.password_sign_in,
    }
}

fn message_options(settings: &Settings) -> MessageOptions {
    MessageOptions {
        give_up: settings.messages.give_up_seconds,
        unknown_after: settings.messages.unknown_after_seconds,
        unsent_max: settings.messages.unsent_per_workspace_max,
        kept_for: settings.messages.kept_days,
        written_kept_for: settings.conversations.kept_days,
    }
}

fn event_options(settings: &Settings) -> EventOptions {
    EventOptions {
        kept_for: settings.events.kept_days,
        kept_max: settings.events.kept_events_max,
        kept_bytes_max: settings.events.kept_bytes_max,
    }
}

fn webhook_options(settings: &Settings) -> WebhookOptions {
    WebhookOptions {
        addresses: AddressRules {
            allow_http: settings.webhooks.allow_http,
            allowed_subnets: settings.webhook_subnets(),
        },
        requests_max: settings.webhooks.requests_max,
        timeout: settings.webhooks.timeout_seconds,
        deliveries: DeliveriesKept {
            kept_max: settings.webhooks.deliveries_kept_max,
            kept_for: settings.webhooks.deliveries_kept_days,
        },
    }
}
