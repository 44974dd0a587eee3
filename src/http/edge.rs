//! What every route needs: the engine, the limits of the settings, the admin token.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ipnet::IpNet;
use postrider_actors::domain::{PersonId, WorkspaceId};
use postrider_actors::{AdminError, Engine, Person, TokenHash};
use subtle::ConstantTimeEq;
use tokio::sync::{Mutex, Semaphore};

use super::dashboard::DashboardOptions;
use super::elsewhere::{Elsewhere, Found, KnownWorkspace, ServerFigures, people_of, workspaces_of};
use super::pipeline::Compressed;
use super::pipeline::body_budget::BodyBudget;
use super::pipeline::date::DateHeader;
use super::pipeline::drain::Drain;
use super::pipeline::error::ApiError;
use super::pipeline::error::help::{ERRORS_PATH, Help};
use super::pipeline::known_fields::KnownFields;
use super::readings::Readings;
use super::request_log::RequestLog;
use super::stream_shares::StreamShares;
use crate::metrics::Metrics;
use crate::settings::{InForce, SandboxClock, Settings};

/// Large bodies that are parsed at a time. Each may need a multiple of its size in memory.
const PARSERS_MAX: usize = 4;
/// Contents of files that are read for copies at once: each holds a thread.
const ARCHIVE_FILES_MAX: usize = 8;

/// What a router needs beside an engine.
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// The token of `/admin/v1`.
    pub admin_token: AdminToken,
    /// Where requests are counted, and what `/metrics` shows.
    pub metrics: Metrics,
    /// Whether `/v1/sandbox/…` is mounted.
    pub sandbox: bool,
    /// Who may move the sandbox's clock.
    pub sandbox_clock: SandboxClock,
    /// Whether a server for outgoing mail is set.
    pub has_mail: bool,
    /// Whether `/docs` and `/openapi.json` are mounted.
    pub docs: bool,
    /// Whether the dashboard is mounted, and how it is reached.
    pub dashboard: DashboardOptions,
    /// Where the pages about errors are, without a slash at the end. `None`: nowhere.
    pub errors_url: Option<String>,
    /// Largest request body, in bytes.
    pub max_body_bytes: usize,
    /// Largest body of a request that creates a broadcast, in bytes.
    pub max_broadcast_body_bytes: usize,
    /// Largest body of a request that creates a batch of contacts, in bytes.
    pub max_contacts_batch_body_bytes: usize,
    /// Most bytes of bodies in memory.
    pub bodies_bytes_max: usize,
    /// Subnets of the proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Names that requests may be for. Empty: any.
    pub hosts: Vec<String>,
    /// The settings in force, without secrets.
    pub settings: Arc<InForce>,
    /// What an operator should know, which `/readyz` reports.
    pub warnings: Vec<String>,
    /// Longest wait for a request's body.
    pub body_timeout: Duration,
    /// Longest time that a handler may take.
    pub handler_timeout: Duration,
    /// Signals requests that the server is shutting down.
    pub drain: Drain,
    /// The other engines of a cluster; `None`: this one has everything.
    pub(crate) elsewhere: Option<Arc<dyn Elsewhere>>,
}

impl AppOptions {
    /// The options that the settings give.
    #[must_use]
    pub fn new(settings: &Settings, admin_token: AdminToken, metrics: Metrics) -> Self {
        Self {
            admin_token,
            metrics,
            sandbox: settings.sandbox.enabled,
            sandbox_clock: settings.sandbox.clock,
            has_mail: !settings.email.host.is_empty(),
            docs: settings.server.docs,
            dashboard: DashboardOptions::new(settings),
            errors_url: match &settings.server.errors_url {
                Some(url) => Some(url.clone()).filter(|url| !url.is_empty()),
                None => settings.server.docs.then(|| ERRORS_PATH.to_owned()),
            },
            max_body_bytes: settings.server.max_body_bytes,
            max_broadcast_body_bytes: settings.server.max_broadcast_body_bytes,
            max_contacts_batch_body_bytes: settings.server.max_contacts_batch_body_bytes,
            bodies_bytes_max: settings.server.bodies_bytes_max,
            trusted_proxies: settings.server.trusted_proxies.clone(),
            hosts: settings.server.hosts.clone(),
            settings: Arc::new(settings.in_force().clone()),
            warnings: Vec::new(),
            body_timeout: settings.server.body_timeout_seconds,
            handler_timeout: settings.server.handler_timeout_seconds,
            drain: Drain::default(),
            elsewhere: None,
        }
    }
}

/// The state that all routes share.
pub(crate) struct Edge {
    pub(crate) engine: Engine,
    pub(crate) options: AppOptions,
    /// The bytes of bodies in memory.
    pub(crate) body_budget: Arc<BodyBudget>,
    /// One permit for each large body that may be parsed now, of a broadcast or a batch of
    /// contacts.
    pub(crate) parsers: Arc<Semaphore>,
    /// The OpenAPI document as JSON.
    pub(crate) document: &'static LazyLock<Arc<Compressed>>,
    /// The fields of the bodies of all operations.
    pub(crate) fields: &'static LazyLock<KnownFields>,
    /// What refusals link to.
    pub(crate) help: Help,
    /// The permit for the one copy of all data that may be read now.
    pub(crate) archives: Arc<Semaphore>,
    /// Permits for contents of files, and lists of them, that are read for copies. A backup reads
    /// them one by one, so another copy must not come between.
    pub(crate) archive_files: Arc<Semaphore>,
    /// The `Date` of answers.
    pub(crate) date: DateHeader,
    /// The event streams that are open.
    pub(crate) streams: Arc<StreamShares>,
    /// Who has read everything of a kind.
    pub(crate) readings: Readings,
    /// Held while the sandbox checks and moves its clock.
    pub(crate) clock_moves: Mutex<()>,
    /// The newest requests of the workspaces.
    pub(crate) requests: RequestLog,
}

impl Edge {
    pub(crate) fn new(
        engine: Engine,
        options: AppOptions,
        document: &'static LazyLock<Arc<Compressed>>,
        fields: &'static LazyLock<KnownFields>,
    ) -> Self {
        let parsers = Arc::new(Semaphore::new(PARSERS_MAX));
        let body_budget = BodyBudget::new(options.bodies_bytes_max);
        let archives = Arc::new(Semaphore::new(1));
        let archive_files = Arc::new(Semaphore::new(ARCHIVE_FILES_MAX));
        let clock_moves = Mutex::default();
        let help = options.errors_url.as_deref().map(Help::below).unwrap_or_default();
        Self {
            engine,
            options,
            body_budget,
            parsers,
            document,
            fields,
            help,
            archives,
            archive_files,
            date: DateHeader::default(),
            streams: Arc::default(),
            readings: Readings::default(),
            clock_moves,
            requests: RequestLog::default(),
        }
    }
}

impl Edge {
    /// Those people of these ids who are there, of whatever engine.
    ///
    /// # Errors
    /// [`ApiError`]: nobody answers now.
    pub(crate) async fn people(&self, ids: Vec<PersonId>) -> Result<Vec<Arc<Person>>, ApiError> {
        match &self.options.elsewhere {
            None => Ok(people_of(&self.engine, &ids)),
            Some(_) if ids.is_empty() => Ok(Vec::new()),
            Some(all) => Ok(all.people(ids).await?.into_iter().map(Arc::new).collect()),
        }
    }

    /// Those workspaces of these ids that are there, of whatever engine; `None`: the first ones.
    pub(crate) async fn workspaces(&self, ids: Option<Vec<WorkspaceId>>) -> Found<KnownWorkspace> {
        match &self.options.elsewhere {
            None => match workspaces_of(&self.engine, ids.as_deref()).await {
                Ok(found) => (found, None),
                Err(error) => (Vec::new(), Some(AdminError::into(error))),
            },
            Some(all) => all.workspaces(ids).await,
        }
    }

    /// How the server does.
    ///
    /// # Errors
    /// [`ApiError`]: it is not known now.
    pub(crate) async fn figures(&self) -> Result<ServerFigures, ApiError> {
        if let Some(all) = &self.options.elsewhere {
            return all.node().await;
        }
        let (is_ready, system) = (self.engine.health().ready, self.engine.operations());
        Ok(ServerFigures { node: None, is_ready, figures: system.system().await })
    }

    /// Refuses what a node of a cluster does not do.
    ///
    /// # Errors
    /// [`ApiError`]: this is one.
    pub(crate) fn must_be_alone(&self) -> Result<(), ApiError> {
        let message = "this does not work on a node of a cluster";
        let refusal = || ApiError::not_found(message).because("in_cluster");
        self.options.elsewhere.as_ref().map_or(Ok(()), |_| Err(refusal()))
    }

    /// Whether a workspace is there, in whatever engine.
    ///
    /// # Errors
    /// [`ApiError`]: nobody answers now.
    pub(crate) async fn has_workspace(&self, id: &WorkspaceId) -> Result<bool, ApiError> {
        let Some(all) = self.options.elsewhere.as_ref() else {
            return Ok(self.engine.workspace(id).is_some());
        };
        match all.workspaces(Some(vec![id.clone()])).await {
            (_, Some(error)) => Err(error),
            (found, None) => Ok(!found.is_empty()),
        }
    }
}

/// The SHA-256 of the admin token; the token itself is not kept.
#[derive(Clone)]
pub struct AdminToken(TokenHash);

impl AdminToken {
    /// Hashes `token`.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(TokenHash::of(token))
    }

    /// Whether `token` has this hash. Takes constant time, so that the answer leaks no prefix.
    pub(crate) fn matches(&self, token: &str) -> bool {
        self.0.as_bytes().ct_eq(TokenHash::of(token).as_bytes()).into()
    }

    /// The hash.
    pub(crate) const fn hash(&self) -> TokenHash {
        self.0
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_token_is_compared_as_a_whole() {
        let token = AdminToken::new("right");
        assert!(token.matches("right"));
        assert!(!token.matches("righ") && !token.matches("rightt") && !token.matches(""));
        assert_eq!(format!("{token:?}"), "AdminToken(…)");
    }
}
