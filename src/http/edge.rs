//! The state that every route needs: the engine, the limits of the settings, the admin token.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ipnet::IpNet;
use postrider_actors::domain::{PersonId, WorkspaceId};
use postrider_actors::{AdminError, Engine, Person, TokenHash};
use subtle::ConstantTimeEq;
use tokio::sync::{Mutex, Semaphore};

use super::audited_reads::Readings;
use super::dashboard::DashboardOptions;
use super::elsewhere::{Elsewhere, Found, KnownWorkspace, ServerFigures, people_of, workspaces_of};
use super::pipeline::Compressed;
use super::pipeline::body::Drain;
use super::pipeline::body_budget::BodyBudget;
use super::pipeline::error::{ApiError, ERRORS_PATH, Help};
use super::pipeline::headers::DateHeader;
use super::pipeline::known_fields::KnownFields;
use super::request_log::RequestLog;
use super::stream_shares::StreamShares;
use crate::metrics::Metrics;
use crate::settings::{InForce, SandboxClock, Settings};

/// The maximum number of large bodies that are parsed at a time. Each may need a multiple of its
/// size in memory.
const PARSERS_MAX: usize = 4;
/// The maximum number of files that are read for copies at once: each holds a thread.
const ARCHIVE_FILES_MAX: usize = 8;

/// The settings that a router needs besides an engine.
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// The token of `/admin/v1`.
    pub admin_token: AdminToken,
    /// The metrics in which requests are counted, and which `/metrics` shows.
    pub metrics: Metrics,
    /// `true` if `/v1/sandbox/…` is mounted.
    pub sandbox: bool,
    /// The callers who may move the sandbox's clock.
    pub sandbox_clock: SandboxClock,
    /// `true` if a server for outgoing mail is configured.
    pub has_mail: bool,
    /// `true` if `/docs` and `/openapi.json` are mounted.
    pub docs: bool,
    /// The settings of the dashboard.
    pub dashboard: DashboardOptions,
    /// The address of the pages about errors, without a slash at the end; `None` if there are none.
    pub errors_url: Option<String>,
    /// The maximum size of a request body, in bytes.
    pub max_body_bytes: usize,
    /// The maximum size of a body that creates a broadcast, in bytes.
    pub max_broadcast_body_bytes: usize,
    /// The maximum size of a body that creates a batch of contacts, in bytes.
    pub max_contacts_batch_body_bytes: usize,
    /// The maximum number of bytes of all bodies in memory.
    pub bodies_bytes_max: usize,
    /// The subnets of the proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The host names that requests may be for. An empty list allows any.
    pub hosts: Vec<String>,
    /// The settings in force, without secrets.
    pub settings: Arc<InForce>,
    /// The warnings for the operator that `/readyz` reports.
    pub warnings: Vec<String>,
    /// The maximum wait for a request's body.
    pub body_timeout: Duration,
    /// The maximum time that a handler may take.
    pub handler_timeout: Duration,
    /// Signals requests that the server is shutting down.
    pub drain: Drain,
    /// The other engines of a cluster; `None` if this engine has everything.
    pub(crate) elsewhere: Option<Arc<dyn Elsewhere>>,
}

impl AppOptions {
    /// Returns the options that the settings give.
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
    /// The budget for the bytes of bodies in memory.
    pub(crate) body_budget: Arc<BodyBudget>,
    /// The permits for parsing large bodies, of broadcasts or batches of contacts.
    pub(crate) parsers: Arc<Semaphore>,
    /// The OpenAPI document as JSON.
    pub(crate) document: &'static LazyLock<Arc<Compressed>>,
    /// The fields of the bodies of all operations.
    pub(crate) fields: &'static LazyLock<KnownFields>,
    /// The links that refusals contain.
    pub(crate) help: Help,
    /// The permit for copying all data, which one request at a time may do.
    pub(crate) archives: Arc<Semaphore>,
    /// The permits for reading the contents of files, and lists of them, for copies. A backup reads
    /// the files one by one, so another copy must not get in between.
    pub(crate) archive_files: Arc<Semaphore>,
    /// The `Date` header of answers.
    pub(crate) date: DateHeader,
    /// The event streams that are open.
    pub(crate) streams: Arc<StreamShares>,
    /// The last recorded readings of everything of a kind, by reader.
    pub(crate) readings: Readings,
    /// A lock that is held while the sandbox checks and moves its clock.
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
    /// Returns the people with these ids, of whatever engine. Unknown ids are left out.
    ///
    /// # Errors
    /// [`ApiError`]: the engine of people does not answer now.
    pub(crate) async fn people(&self, ids: Vec<PersonId>) -> Result<Vec<Arc<Person>>, ApiError> {
        match &self.options.elsewhere {
            None => Ok(people_of(&self.engine, &ids)),
            Some(_) if ids.is_empty() => Ok(Vec::new()),
            Some(all) => Ok(all.people(ids).await?.into_iter().map(Arc::new).collect()),
        }
    }

    /// Returns the workspaces with these ids, of whatever engine; `None` returns the first ones.
    /// Unknown ids are left out.
    pub(crate) async fn workspaces(&self, ids: Option<Vec<WorkspaceId>>) -> Found<KnownWorkspace> {
        match &self.options.elsewhere {
            None => match workspaces_of(&self.engine, ids.as_deref()).await {
                Ok(found) => (found, None),
                Err(error) => (Vec::new(), Some(AdminError::into(error))),
            },
            Some(all) => all.workspaces(ids).await,
        }
    }

    /// Returns the figures of the server.
    ///
    /// # Errors
    /// [`ApiError`]: the figures are not known now.
    pub(crate) async fn figures(&self) -> Result<ServerFigures, ApiError> {
        if let Some(all) = &self.options.elsewhere {
            return all.node().await;
        }
        let (is_ready, system) = (self.engine.health().ready, self.engine.operations());
        Ok(ServerFigures { node: None, is_ready, figures: system.system().await })
    }

    /// Refuses an operation that a node of a cluster does not support.
    ///
    /// # Errors
    /// [`ApiError`]: this server is such a node.
    pub(crate) fn must_be_alone(&self) -> Result<(), ApiError> {
        let message = "this does not work on a node of a cluster";
        let refusal = || ApiError::not_found(message).because("in_cluster");
        self.options.elsewhere.as_ref().map_or(Ok(()), |_| Err(refusal()))
    }

    /// Returns whether a workspace exists, in whatever engine.
    ///
    /// # Errors
    /// [`ApiError`]: an engine does not answer now.
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

    /// Returns whether `token` has this hash. Takes constant time, so that the answer leaks no
    /// prefix.
    pub(crate) fn matches(&self, token: &str) -> bool {
        self.0.as_bytes().ct_eq(TokenHash::of(token).as_bytes()).into()
    }

    /// Returns the hash.
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
