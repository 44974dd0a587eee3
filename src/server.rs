//! Starts and stops a complete server, which the command line and the tests run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use postrider_actors::clock::Stopwatch;
use postrider_actors::{BoxFuture, Engine, EngineOptions, ShutdownError, StartError};
use tokio::task::JoinHandle;

use crate::banner::Banner;
use crate::boot::{self, BootError, DataDir};
use crate::engine_options::engine_options;
use crate::http::{AdminToken, AppOptions, Drain, Starting, app, apps};
use crate::listeners::{
    Bound, Listening, answer_during_start, exposure, raise_open_files_limit, serve_options,
};
use crate::metrics::Metrics;
use crate::serve::Lingering;
use crate::settings::{Secret, Settings};
use crate::tls::{Tls, TlsError};
use crate::traces::Exporter;

/// Starts servers.
#[derive(Debug)]
pub struct Server;

/// A running server.
///
/// Dropping it stops it immediately, like a crash; [`RunningServer::shutdown`] stops it gracefully.
pub struct RunningServer {
    main: Listening,
    /// The listener for operators, if it is a separate one.
    admin: Option<Listening>,
    engine: Engine,
    demo_key: Option<Secret>,
    banner: Banner,
    grace: Duration,
    drain: Drain,
    upkeep: AbortOnDrop,
    exporter: Option<Exporter>,
    directory: DataDir,
    /// The TLS settings of the listeners.
    tls: Vec<Arc<Tls>>,
}

/// The reason why a shutdown was not graceful. All acknowledged data is durable nevertheless.
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
    /// Starts a server.
    ///
    /// When this returns, the address is bound, and the data directory is locked. In a sandbox the
    /// demo workspace exists.
    ///
    /// # Errors
    /// [`BootError`] is the reason why the server cannot start.
    pub fn start(settings: Settings) -> BoxFuture<'static, Result<RunningServer, BootError>> {
        // Boxed, as a stop is: the compiler translates the body of an `async fn` in each program
        // that awaits it.
        Box::pin(Self::start_here(settings))
    }

    async fn start_here(settings: Settings) -> Result<RunningServer, BootError> {
        let (to_clients, to_operators) = serve_options(&settings, raise_open_files_limit())?;
        let both = [&to_clients, &to_operators];
        let tls = both.into_iter().filter_map(|options| options.tls.clone()).collect();
        let directory =
            DataDir::open(&settings.server.data_dir, settings.server.data_group_access)?;
        let listener = Bound::to(settings.server.listen).await?;
        let admin_listener = Bound::to_any(settings.admin.listen).await?;
        let (admin_token, token_source) =
            boot::admin_token(&directory, settings.admin.token.as_ref())?;
        let metrics = Metrics::new()?;
        let (options, exporter) = traced_options(&settings, &directory, &admin_token, &metrics)?;
        let mut app_options = AppOptions::new(&settings, admin_token, metrics.clone());
        let (rebuilding, clock) = (options.rebuilding.clone(), options.clock.clone());
        let starting_app =
            |is_for_operators| Starting::new(&rebuilding, &clock, &app_options, is_for_operators);
        let mut bound = vec![(&listener, starting_app(admin_listener.is_none()), &to_clients)];
        bound.extend(admin_listener.as_ref().map(|it| (it, starting_app(true), &to_operators)));
        let starting = Engine::start(options);
        let started = Box::pin(answer_during_start(starting, rebuilding.begun(), &bound)).await;
        let engine = started.map_err(|error| start_error(error, &directory))?;
        let (demo_key, warnings) = if settings.sandbox.enabled {
            (Some(boot::prepare_demo(&engine, &directory).await?), Vec::new())
        } else {
            (None, boot::sandbox_leftovers(&engine, &directory)?)
        };
        let warnings = [warnings, exposure(&settings)].concat();
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let banner =
            Banner::new(listener.address, directory.path(), token_source, demo_key.clone());
        let banner = banner.with_sign_in(boot::sign_in_link(&settings, &engine).await?);
        let banner = banner.with_warnings(warnings.clone()).with_settings(&settings);
        let banner = banner.with_admin(admin_listener.as_ref().map(|bound| bound.address));
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
            exporter,
            directory,
            tls,
        })
    }
}

/// Builds the engine's options, and the exporter for the spans of its requests.
fn traced_options(
    settings: &Settings,
    directory: &DataDir,
    admin_token: &AdminToken,
    metrics: &Metrics,
) -> Result<(EngineOptions, Option<Exporter>), BootError> {
    let mut options = engine_options(settings, directory, metrics)?;
    options.people.admin_token = Some(admin_token.hash());
    let exporter;
    (options.traces, exporter) = Exporter::start(&settings.traces, &options.clock, metrics)?;
    Ok((options, exporter))
}

impl RunningServer {
    /// Returns the bound address, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.main.address
    }

    /// Returns the address for health, metrics and administration, with the actual port.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.as_ref().map_or(self.main.address, |admin| admin.address)
    }

    /// Returns the engine behind the server.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the key of the demo workspace, in a sandbox.
    #[must_use]
    pub fn demo_key(&self) -> Option<&str> {
        self.demo_key.as_ref().map(Secret::reveal)
    }

    /// Returns the text that the command line prints after a start.
    #[must_use]
    pub fn banner(&self) -> &Banner {
        &self.banner
    }

    /// Reloads the TLS certificates and keys, for the connections from now on.
    ///
    /// A file that cannot be used is logged, and the earlier one stays in use.
    pub fn reload_certificates(&self) {
        let reloaded: Result<Vec<()>, TlsError> = self.tls.iter().map(|tls| tls.reload()).collect();
        match reloaded {
            Err(error) => tracing::error!(%error, "the certificate stays as it is"),
            Ok(all) if all.is_empty() => tracing::info!("there is no certificate to read anew"),
            Ok(_) => tracing::info!("the certificate was read anew"),
        }
    }

    /// Shuts down within the grace period of the settings.
    ///
    /// The server accepts no more connections, answers the requests in progress, and makes
    /// everything durable. A client with an incomplete request is refused. The connection of a
    /// client that does not read its answer is closed.
    ///
    /// # Errors
    /// [`StopError`] when not everything finished within the grace period.
    pub fn shutdown(self) -> BoxFuture<'static, Result<(), StopError>> {
        Box::pin(self.stop())
    }

    async fn stop(self) -> Result<(), StopError> {
        let Self { engine, grace, drain, main, admin, upkeep, exporter, directory, .. } = self;
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
        // The engine has answered every request. Open connections wait for their clients to read.
        let cut = lingering.cut() + admin_lingering.map_or(0, Lingering::cut);
        if cut > 0 {
            tracing::warn!(connections = cut, "cut connections whose clients were not done");
        }
        if let Some(exporter) = exporter {
            exporter.finish().await;
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

fn start_error(error: StartError, directory: &DataDir) -> BootError {
    match error {
        StartError::ClockMoved(ahead) => {
            BootError::ClockMoved { path: directory.path().to_owned(), ahead }
        }
        error => error.into(),
    }
}

/// A task that is aborted when this is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
