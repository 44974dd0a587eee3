//! An admitted request, as handlers get it.
//!
//! Handlers read its body, query, path and headers here, and make changes that the audit log
//! records as the caller's.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::RawPathParams;
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method};
use bytes::Bytes;
use postrider_actors::domain::{AuditContext, SessionId};
use postrider_actors::{
    Admin, IdempotencyKey, Manager, Permission, Permissions, Recent, Route, Session, Workspace,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::auth::count_failure;
use super::body_budget::BodyLease;
use super::error::ApiError;
use super::json;
use super::origin::RequestOrigin;
use super::principal::{Principal, check_recent};
use super::query::Query;
use super::spool::Spooled;
use crate::http::audited_reads::ReadingKind;
use crate::http::edge::Edge;
use crate::metrics::RouteMeter;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The maximum time that a client may wait for an outcome, in seconds.
const WAIT_SECONDS_MAX: u64 = 30;

/// An admitted request with its body, as handlers get it.
///
/// It is boxed, so that the futures that hold it hold a pointer.
pub(crate) type Call<C> = Box<AdmittedCall<C>>;

/// The data of a [`Call`].
pub(crate) struct AdmittedCall<C> {
    /// The shared state of all routes.
    pub(crate) edge: Arc<Edge>,
    /// The caller that the guard admitted.
    pub(crate) caller: C,
    /// The origin of the request.
    pub(super) origin: RequestOrigin,
    pub(super) meter: RouteMeter,
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    /// The uploaded file, if the body is one.
    pub(super) media: Option<Spooled>,
    /// Counts the body's bytes while this lives.
    pub(super) lease: BodyLease,
}

impl<C> AdmittedCall<C> {
    /// Parses the body as a JSON object of the operation's fields.
    pub(crate) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        let operation = || self.edge.fields.of_body(self.meter.route(), self.meter.method());
        json::parse_known(&self.body, operation)
    }

    /// Returns the body as bytes.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.body
    }

    /// Returns the uploaded file with its type. A second call fails.
    pub(crate) fn take_media(&mut self) -> Result<Spooled, ApiError> {
        self.media.take().ok_or_else(ApiError::internal)
    }

    /// Returns the request's headers.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Returns the address of the client.
    pub(crate) fn address(&self) -> std::net::IpAddr {
        self.origin.address
    }

    /// Returns the value of a header, if it exists and is text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// Returns whether the client asks for an answer of this type, and not for JSON.
    pub(crate) fn wants(&self, media: &str) -> bool {
        let values = self.parts.headers.get_all(ACCEPT).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let ranges = texts.flat_map(|text| text.split(','));
        let named: Vec<_> = ranges.filter_map(named_type).collect();
        let names = |it: &str| named.iter().any(|name| name.eq_ignore_ascii_case(it));
        names(media) && !names("application/json")
    }

    /// Parses the query.
    pub(crate) fn query(&self) -> Result<Query, ApiError> {
        Query::of(&self.parts.uri)
    }

    /// Returns the idempotency key, if the request has one: 1 to 255 characters, quoted or bare.
    pub(crate) fn idempotency_key(&self, route: Route) -> Result<Option<IdempotencyKey>, ApiError> {
        let bad = || ApiError::field("Idempotency-Key", "must have 1 to 255 visible characters");
        let mut values = self.parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(ApiError::field("Idempotency-Key", "must be given once"));
        }
        let key = value.to_str().map_err(|_| bad())?.trim();
        let bare = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
        match bare.len() {
            1..=255 => Ok(Some(IdempotencyKey::new(route, bare, &self.body))),
            _ => Err(bad()),
        }
    }

    /// Returns how long the client asks to wait for an outcome (`Prefer: wait=N`, RFC 7240). It is
    /// 1 to 30 seconds, and not longer than a handler may take. Unknown preferences are ignored, as
    /// the RFC demands.
    pub(crate) fn preferred_wait(&self) -> Option<Duration> {
        let values = self.parts.headers.get_all(PREFER).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let seconds = texts.flat_map(|text| text.split([',', ';'])).find_map(|preference| {
            let (name, value) = preference.split_once('=')?;
            let is_wait = name.trim().eq_ignore_ascii_case("wait");
            is_wait.then(|| value.trim().trim_matches('"').parse::<u64>().ok())?
        })?;
        let longest = self.edge.options.handler_timeout.saturating_sub(Duration::from_secs(1));
        (seconds > 0).then(|| Duration::from_secs(seconds.min(WAIT_SECONDS_MAX)).min(longest))
    }

    /// Counts a failure for the client's address, on a route that needs no key. It returns 429 once
    /// there are too many.
    pub(crate) fn failed(&self, error: ApiError) -> ApiError {
        count_failure(&self.edge, &self.parts, error)
    }

    /// Parses the path parameter `name`. A malformed value is answered 404, like an unknown one.
    pub(crate) async fn path<T: std::str::FromStr>(
        &mut self,
        name: &str,
        missing: &'static str,
    ) -> Result<T, ApiError> {
        use axum::extract::FromRequestParts;
        let params = RawPathParams::from_request_parts(&mut self.parts, &()).await;
        params
            .ok()
            .and_then(|params| {
                let mut named = params.iter().filter(|(key, _)| *key == name);
                named.next().and_then(|(_, value)| value.parse().ok())
            })
            .ok_or_else(|| ApiError::not_found(missing))
    }

    /// Returns the caller's context, for a change that is recorded.
    pub(crate) fn audit_context(&self) -> Arc<AuditContext> {
        self.origin.audit_context()
    }

    /// Returns the caller as a manager, to change the members of a workspace.
    pub(crate) fn manager(&self, permissions: Permissions) -> Manager {
        Manager {
            context: self.audit_context(),
            owners: permissions.contains(Permission::OwnersManage),
            operates: self.origin.identity.operates(),
            person: self.origin.identity.person(),
            session: self.session(),
        }
    }

    /// Returns the id of the caller's session, if they have one.
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.origin.identity.session().map(Session::id)
    }

    /// Returns the administration, for changes that are recorded as this caller's.
    pub(crate) fn admin(&self) -> Admin {
        self.edge.engine.admin().by(self.origin.audit_context())
    }

    /// Returns the workspace, for changes that are recorded as this caller's.
    pub(crate) fn audited(&self, workspace: &Workspace) -> Workspace {
        workspace.by(self.origin.audit_context())
    }

    /// Checks that the body leaves these fields, which are fixed when a resource is created,
    /// unchanged, if it has them. `read` returns the resource; it is called only if the body has
    /// one of them.
    ///
    /// A client may send back the fields that it has read. If it altered a fixed one, a 200 would
    /// hide that the change is lost.
    pub(crate) async fn keeps<T: Serialize>(
        &self,
        fields: &[&str],
        read: impl AsyncFnOnce() -> Result<T, ApiError>,
    ) -> Result<(), ApiError> {
        // The body was already checked to be an object.
        let body: HashMap<Cow<'_, str>, Value> =
            serde_json::from_slice(self.raw()).unwrap_or_default();
        if !fields.iter().any(|field| body.contains_key(*field)) {
            return Ok(());
        }
        let row = serde_json::to_value(read().await?).map_err(|_| ApiError::internal())?;
        let is_other = |field: &&&str| {
            body.get(**field).is_some_and(|given| *given != row[**field] && !given.is_null())
        };
        match fields.iter().find(is_other) {
            Some(field) => Err(ApiError::field(field, "cannot be changed here")),
            None => Ok(()),
        }
    }
}

impl AdmittedCall<Principal> {
    /// Checks and records a reading of all rows of a kind in one answer. A person must have signed
    /// in recently. The reading is added to the audit log.
    pub(crate) async fn reads_all(&self, reading: ReadingKind) -> Result<(), ApiError> {
        let caller = &self.caller;
        if let Principal::Person(member) = caller {
            check_recent(&self.edge, &Method::GET, &member.signed_in, Recent::Always)?;
        }
        let (engine, by) = (&self.edge.engine, self.audit_context());
        let workspace = Some(caller.workspace().id());
        Ok(self.edge.readings.record(engine, &by, reading, workspace).await?)
    }
}

/// Returns the type that a part of `Accept` names, unless the client refuses it.
fn named_type(range: &str) -> Option<&str> {
    let (name, parameters) = range.split_once(';').unwrap_or((range, ""));
    let weight = parameters.split(';').find_map(|it| it.trim().strip_prefix("q="));
    let is_refused = weight.is_some_and(|it| it.trim().parse() == Ok(0.0_f32));
    (!is_refused).then(|| name.trim())
}

#[cfg(test)]
mod tests {
    use super::named_type;

    #[test]
    fn a_part_of_accept_names_a_type() {
        for good in ["text/csv", " text/csv ", "text/csv;q=0.5", "text/csv; charset=utf-8"] {
            assert_eq!(named_type(good), Some("text/csv"), "{good}");
        }
        for bad in ["text/csv;q=0", "text/csv; q=0.000"] {
            assert_eq!(named_type(bad), None, "{bad}");
        }
    }
}
