//! Identifies the caller before an engine answers: people and their tokens are in the first shard.
//!
//! The facts that an engine needs before it starts on a request are fetched and put into the
//! request's extensions. An address that makes up tokens causes no more questions than an engine
//! would answer with 401.

use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use postrider_actors::domain::WorkspaceId;
use postrider_actors::{Person, RemoteSession, Session, SignedIn};

use super::asking::PEOPLE;
use super::door::Shards;
use super::known::KnownTokens;
use super::questions::{PeerAnswer, Question, SessionReply};
use super::settled::no_answer;
use super::shown::admin_token;
use crate::http::elsewhere::{Asked, RemoteToken, RemoteVisit, RemoteWorkspace};
use crate::http::{ApiError, Peer, STREAM, check_page, client_address, cookie_of};

/// The interval between checks that the holder of a stream may go on.
const STILL_EVERY: Duration = Duration::from_secs(5);
/// The time that a stream goes on without an answer.
const STILL_WITHIN: Duration = Duration::from_secs(30);

impl Shards {
    /// Returns the token of the session that authorises a request.
    pub(super) fn session_token(&self, headers: &HeaderMap) -> Option<String> {
        let dashboard = &self.engines.app.dashboard;
        if !dashboard.enabled || headers.contains_key(header::AUTHORIZATION) {
            return None;
        }
        let token = cookie_of(dashboard.is_secure(), &self.engines.people_name(), headers);
        token.map(ToOwned::to_owned)
    }

    /// Puts the facts of other shards that its engine needs into a request.
    pub(super) async fn inform(
        self: &Arc<Self>,
        shard: u16,
        counts: bool,
        request: &mut Request,
    ) -> Result<(), ApiError> {
        if shard == PEOPLE {
            // Only the permissions of a member depend on it.
            let id = workspace_of_people(request.uri().path());
            if let Some(id) = id.filter(|_| self.is_signed_in(request.headers())) {
                let known = self.ask_workspace(id).await?;
                request.extensions_mut().insert(RemoteWorkspace(known));
            }
            return Ok(());
        }
        if !needs_a_caller(request.uri().path()) {
            return Ok(());
        }
        let (mut parts, body) = std::mem::take(request).into_parts();
        let asked = self.find_caller(shard, counts, &mut parts).await;
        *request = Request::from_parts(parts, body);
        asked
    }

    /// Returns whether a request shows a valid session, as the engine of people here knows it.
    ///
    /// Other shards are asked only for such requests.
    fn is_signed_in(&self, headers: &HeaderMap) -> bool {
        let engine = self.engines.engine(PEOPLE);
        let known = engine.zip(self.session_token(headers));
        known.is_some_and(|(engine, token)| engine.people().signed_in(&token).is_some())
    }

    async fn find_caller(
        self: &Arc<Self>,
        shard: u16,
        counts: bool,
        parts: &mut Parts,
    ) -> Result<(), ApiError> {
        if let Some(token) = admin_token(&parts.headers) {
            let info = self.token_shown(shard, token, parts).await?;
            parts.extensions.insert(RemoteToken(info));
        } else if let Some(token) = self.session_token(&parts.headers) {
            if check_page(&self.engines.app.dashboard, parts).is_err() {
                // The engine refuses it for any caller.
                return Ok(());
            }
            let session = self.session_shown(shard, (token.clone(), counts), parts).await?;
            let visit = session.map(|it| it.visit());
            if let Some((signed_in, ..)) = visit.as_ref().filter(|_| parts.uri.path() == STREAM) {
                let asks = still(Arc::downgrade(self), token);
                tokio::spawn(follow(Watched::of(signed_in), asks));
            }
            parts.extensions.insert(RemoteVisit(visit));
        }
        Ok(())
    }

    /// Returns the id and name of the admin token that a request shows, if it is valid.
    ///
    /// The engine of the shard counts the tries of the address.
    pub(super) async fn token_shown(
        self: &Arc<Self>,
        shard: u16,
        token: String,
        parts: &Parts,
    ) -> Result<Option<(Box<str>, Box<str>)>, ApiError> {
        self.check_tries(shard, &token, parts)?;
        let question = Question::Token { token: token.clone() };
        let PeerAnswer::Token(info) = self.ask(PEOPLE, question).await? else {
            return Err(no_answer(PEOPLE));
        };
        self.known().note(&token, info.is_some());
        Ok(info)
    }

    /// Returns the session of the token that a request shows, if it is valid.
    ///
    /// The flag beside the token states whether this counts as a request of the session.
    pub(super) async fn session_shown(
        self: &Arc<Self>,
        shard: u16,
        (token, counts): (String, bool),
        parts: &Parts,
    ) -> Result<Option<Box<SessionReply>>, ApiError> {
        self.check_tries(shard, &token, parts)?;
        let question = Question::Session { token: token.clone(), counts };
        let PeerAnswer::Session(session) = self.ask(PEOPLE, question).await? else {
            return Err(no_answer(PEOPLE));
        };
        self.known().note(&token, session.is_some());
        Ok(session)
    }

    /// Refuses an unknown token from an address that has used up its tries.
    fn check_tries(&self, shard: u16, token: &str, parts: &Parts) -> Result<(), ApiError> {
        let engine = self.engines.engine(shard).filter(|_| !self.known().has(token));
        let address = client_address(parts, &self.engines.app.trusted_proxies);
        match engine.and_then(|engine| engine.access().address_wait(address)) {
            None => Ok(()),
            Some(wait) => {
                let error = ApiError::rate_limited(wait, "too many requests without a good key");
                Err(error.closing_with_body())
            }
        }
    }

    /// Counts a bad token where no engine does.
    pub(super) fn count_try(&self, shard: u16, parts: &Parts) {
        let address = client_address(parts, &self.engines.app.trusted_proxies);
        if let Some(engine) = self.engines.engine(shard) {
            // If this one used up the last try, the next one is refused.
            let _counted = engine.access().admit_address(address);
        }
    }

    fn known(&self) -> MutexGuard<'_, KnownTokens> {
        // No holder of the lock panics.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies the head of a request, for use while the body has yet to arrive.
pub(super) fn head_of(request: &Request) -> Parts {
    let (mut head, ()) = Request::new(()).into_parts();
    head.method.clone_from(request.method());
    head.uri.clone_from(request.uri());
    head.headers.clone_from(request.headers());
    let client = request.extensions().get::<Peer>().copied();
    client.map(|client| head.extensions.insert(client));
    head
}

/// Returns whether the route of a path needs a caller. All other routes are open to anybody.
fn needs_a_caller(path: &str) -> bool {
    ["/v1/", "/admin/", "/ui/api/"].iter().any(|root| path.starts_with(root))
}

/// Returns the workspace of a path below it that is about people.
fn workspace_of_people(path: &str) -> Option<WorkspaceId> {
    let (id, rest) = path.strip_prefix("/admin/v1/workspaces/")?.split_once('/')?;
    let first = rest.split('/').next();
    matches!(first, Some("members" | "invites")).then(|| id.parse().ok()).flatten()
}

/// A person and their session, for as long as their request takes.
struct Watched {
    session: Weak<Session>,
    person: Option<Arc<Person>>,
}

impl Watched {
    fn of(signed_in: &SignedIn) -> Self {
        let session = Arc::downgrade(&signed_in.session);
        Self { session, person: signed_in.person.clone() }
    }
}

/// The session of a token, if it goes on; the outer `None`: there was no immediate answer.
type Said = Option<Option<RemoteSession>>;

/// Returns a function that asks for the current session of a token.
fn still(shards: Weak<Shards>, token: String) -> impl Fn() -> Asked<'static, Said> {
    move || {
        let (shards, token) = (shards.clone(), token.clone());
        Box::pin(async move {
            let question = Question::Session { token, counts: false };
            match shards.upgrade()?.ask_once(PEOPLE, &question).await {
                Ok(PeerAnswer::Session(now)) => Some(now.map(|now| now.session)),
                _ => None,
            }
        })
    }
}

/// Ends a remote session that is no longer valid. Returns when the request has ended.
///
/// It is not valid once it has ended, its holder has lost permissions, or nobody has confirmed it
/// for half a minute.
async fn follow<F>(watched: Watched, asks: impl Fn() -> F)
where
    F: Future<Output = Said>,
{
    let Watched { session, person } = watched;
    loop {
        let answered = tokio::time::timeout(STILL_WITHIN, next_answer(&session, &asks)).await;
        let now = match answered {
            Ok(Some(now)) => now,
            Ok(None) => return,
            Err(_) => None,
        };
        let Some(session) = session.upgrade() else { return };
        let is_over = now.is_none();
        RemoteSession::refresh(now, &SignedIn { session, person: person.clone() });
        if is_over {
            return;
        }
    }
}

/// Asks until there is an answer about a session; `None` if its request has ended.
async fn next_answer<F>(session: &Weak<Session>, asks: &impl Fn() -> F) -> Said
where
    F: Future<Output = Said>,
{
    loop {
        tokio::time::sleep(STILL_EVERY).await;
        if session.strong_count() == 0 {
            return None;
        }
        if let Some(now) = asks().await {
            return Some(now);
        }
    }
}

#[cfg(test)]
mod tests;
