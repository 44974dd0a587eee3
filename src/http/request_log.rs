//! Keeps the newest requests of each workspace, in memory.
//!
//! The hot path takes no lock that workspaces share. It finds the ring of its workspace in a map
//! that is only ever replaced as a whole. Then it overwrites the ring's oldest slot, whose texts
//! keep their memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::http::StatusCode;
use postrider_actors::domain::{ActorKind, KeyId, Timestamp, WorkspaceId};

use super::pipeline::{Cause, Identity};
use crate::metrics::RouteMeter;

/// The maximum number of requests that are kept of a workspace.
pub(crate) const REQUESTS_MAX: usize = 1_000;
/// The maximum number of workspaces with kept requests. It bounds the memory: a full ring takes
/// about 195 KiB.
const WORKSPACES_MAX: usize = 256;
/// The time without a request, in milliseconds, after which a ring may go to another workspace.
const SILENT_MS: u64 = 60_000;

/// The newest requests of the workspaces that call.
#[derive(Default)]
pub(crate) struct RequestLog {
    rings: ArcSwap<HashMap<WorkspaceId, Arc<Ring>>>,
    /// A lock that is held while the map is replaced.
    changes: Mutex<()>,
    /// The engine time before which no ring is given away, in milliseconds.
    full_until: AtomicU64,
}

/// The data that is recorded of a request.
#[derive(Clone, Copy)]
pub(crate) struct AnsweredRequest<'a> {
    pub(crate) request_id: &'a str,
    pub(crate) identity: &'a Identity,
    pub(crate) meter: &'a RouteMeter,
    pub(crate) status: StatusCode,
    /// The reason for the refusal, if the request was refused.
    pub(crate) cause: Option<Cause>,
    pub(crate) took: Duration,
}

/// A request that was answered.
#[derive(Clone)]
pub(crate) struct LoggedRequest {
    pub(crate) request_id: String,
    pub(crate) at: Timestamp,
    pub(crate) meter: RouteMeter,
    pub(crate) status: StatusCode,
    /// The reason for the refusal, if the request was refused.
    pub(crate) cause: Option<Cause>,
    pub(crate) took: Duration,
    pub(crate) caller: LoggedCaller,
}

/// The caller of a request.
#[derive(Clone)]
pub(crate) struct LoggedCaller {
    pub(crate) kind: ActorKind,
    id: CallerId,
    /// The caller's name; empty if there is none.
    pub(crate) name: String,
}

#[derive(Clone)]
enum CallerId {
    /// Most requests come from a key, whose id needs no memory of its own.
    Key(KeyId),
    Text(Option<Box<str>>),
}

impl LoggedCaller {
    /// Returns the caller's id, if it has one.
    pub(crate) fn id(&self) -> Option<String> {
        match &self.id {
            CallerId::Key(id) => Some(id.to_string()),
            CallerId::Text(id) => id.as_deref().map(str::to_owned),
        }
    }

    fn set(&mut self, identity: &Identity) {
        self.name.clear();
        if let Identity::Key(caller) = identity {
            (self.kind, self.id) = (ActorKind::Key, CallerId::Key(caller.key_id));
            caller.add_key_name(&mut self.name);
            return;
        }
        let actor = identity.actor();
        (self.kind, self.id) = (actor.kind, CallerId::Text(actor.id));
        match identity {
            // The audit log names people by their address, which may outlive the name.
            Identity::Person(signed_in) if let Some(person) = &signed_in.person => {
                self.name.push_str(&person.name);
            }
            _ => self.name.push_str(actor.name.as_deref().unwrap_or_default()),
        }
    }
}

impl LoggedRequest {
    fn new(at: Timestamp, answered: AnsweredRequest<'_>) -> Self {
        let id = CallerId::Text(None);
        let caller = LoggedCaller { kind: ActorKind::Anonymous, id, name: String::new() };
        let AnsweredRequest { meter, status, cause, took, .. } = answered;
        let mut new = Self {
            request_id: String::new(),
            at,
            meter: meter.clone(),
            status,
            cause,
            took,
            caller,
        };
        new.set(at, answered);
        new
    }

    fn set(&mut self, at: Timestamp, answered: AnsweredRequest<'_>) {
        self.request_id.clear();
        self.request_id.push_str(answered.request_id);
        if !self.meter.is(answered.meter) {
            self.meter = answered.meter.clone();
        }
        (self.at, self.status, self.took) = (at, answered.status, answered.took);
        self.cause = answered.cause;
        self.caller.set(answered.identity);
    }
}

/// The requests of one workspace.
struct Ring {
    slots: Mutex<RequestSlots>,
    /// The time at which the newest request was answered, in milliseconds.
    newest_at: AtomicU64,
}

struct RequestSlots {
    /// The number of requests that were ever recorded, which is also the number of the next one.
    recorded: u64,
    /// The requests. A request's slot is its number modulo `REQUESTS_MAX`.
    slots: Vec<LoggedRequest>,
}

impl Ring {
    fn new(at: Timestamp) -> Self {
        let slots = RequestSlots { recorded: 0, slots: Vec::with_capacity(REQUESTS_MAX) };
        Self { slots: Mutex::new(slots), newest_at: AtomicU64::new(at.as_millis()) }
    }

    fn slots(&self) -> MutexGuard<'_, RequestSlots> {
        // A half-written slot belongs to a request whose recording panicked. The next request is
        // recorded correctly.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, at: Timestamp, answered: AnsweredRequest<'_>) {
        self.newest_at.store(at.as_millis(), Ordering::Relaxed);
        let mut slots = self.slots();
        let place = slot_of(slots.recorded);
        slots.recorded += 1;
        match slots.slots.get_mut(place) {
            Some(slot) => slot.set(at, answered),
            None => slots.slots.push(LoggedRequest::new(at, answered)),
        }
    }
}

fn slot_of(number: u64) -> usize {
    // The remainder fits into a `usize`.
    (number % REQUESTS_MAX as u64) as usize
}

impl RequestLog {
    /// Records a request of a workspace, if the workspace has a ring or one is free.
    pub(crate) fn record(
        &self,
        workspace: &WorkspaceId,
        at: Timestamp,
        answered: AnsweredRequest<'_>,
    ) {
        if let Some(ring) = self.rings.load().get(workspace) {
            return ring.record(at, answered);
        }
        if let Some(ring) = self.ring_for(workspace, at) {
            ring.record(at, answered);
        }
    }

    /// Returns the requests before the given number, newest first.
    ///
    /// `None` as the number starts at the newest. If a status is given, only its requests are
    /// returned. There are at most `limit` of them, with the number before which to continue if
    /// there may be more.
    pub(crate) fn before(
        &self,
        workspace: &WorkspaceId,
        before: Option<u64>,
        status: Option<StatusCode>,
        limit: usize,
    ) -> (Vec<LoggedRequest>, Option<u64>) {
        let rings = self.rings.load();
        let Some(ring) = rings.get(workspace) else { return (Vec::new(), None) };
        let slots = ring.slots();
        let oldest = slots.recorded - slots.slots.len() as u64;
        let mut number = before.map_or(slots.recorded, |before| before.min(slots.recorded));
        let mut found = Vec::new();
        while number > oldest && found.len() < limit {
            number -= 1;
            let slot = slots.slots.get(slot_of(number));
            found.extend(slot.filter(|it| status.is_none_or(|is| it.status == is)).cloned());
        }
        (found, (number > oldest).then_some(number))
    }

    /// Removes the requests of a workspace. Another workspace with the same id starts without
    /// requests.
    pub(crate) fn forget(&self, workspace: &WorkspaceId) {
        let _changes = self.changes();
        if self.rings.load().contains_key(workspace) {
            let mut rings = HashMap::clone(&self.rings.load());
            rings.remove(workspace);
            self.rings.store(Arc::new(rings));
            self.full_until.store(0, Ordering::Relaxed);
        }
    }

    fn changes(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a ring for a workspace that has none. It may be the ring of a workspace that has
    /// been silent.
    #[cold]
    fn ring_for(&self, workspace: &WorkspaceId, at: Timestamp) -> Option<Arc<Ring>> {
        if at.as_millis() < self.full_until.load(Ordering::Relaxed) {
            return None;
        }
        let _changes = self.changes();
        let known = self.rings.load();
        if let Some(ring) = known.get(workspace) {
            return Some(Arc::clone(ring));
        }
        let mut rings = HashMap::clone(&known);
        if rings.len() >= WORKSPACES_MAX {
            let newest_at = |ring: &Ring| ring.newest_at.load(Ordering::Relaxed);
            let (silent, newest) = rings
                .iter()
                .map(|(id, ring)| (id.clone(), newest_at(ring)))
                .min_by_key(|(_, newest)| *newest)?;
            if at.as_millis() < newest.saturating_add(SILENT_MS) {
                self.full_until.store(newest.saturating_add(SILENT_MS), Ordering::Relaxed);
                return None;
            }
            rings.remove(&silent);
        }
        let ring = Arc::new(Ring::new(at));
        rings.insert(workspace.clone(), Arc::clone(&ring));
        self.rings.store(Arc::new(rings));
        Some(ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(log: &RequestLog, workspace: &str, at: u64, id: &str, status: u16) {
        let meter = RouteMeter::new("/v1/otp/send", "POST");
        let status = StatusCode::from_u16(status).unwrap();
        let answered = AnsweredRequest {
            request_id: id,
            identity: &Identity::Anonymous,
            meter: &meter,
            status,
            cause: None,
            took: Duration::from_millis(1),
        };
        log.record(&workspace.parse().unwrap(), Timestamp::from_millis(at), answered);
    }

    fn ids(found: &[LoggedRequest]) -> Vec<&str> {
        found.iter().map(|it| it.request_id.as_str()).collect()
    }

    #[test]
    fn the_newest_requests_are_read_in_parts() {
        let log = RequestLog::default();
        let acme = "acme".parse().unwrap();
        for number in 0..2_500 {
            record(&log, "acme", number, &format!("r{number}"), 200);
        }
        let (first, next) = log.before(&acme, None, None, 2);
        assert_eq!(ids(&first), ["r2499", "r2498"]);
        // Requests that come in the meantime shift nothing.
        record(&log, "acme", 2_500, "late", 200);
        let (second, _) = log.before(&acme, next, None, 2);
        assert_eq!(ids(&second), ["r2497", "r2496"]);
        let (all, end) = log.before(&acme, None, None, 5_000);
        assert_eq!((all.len(), end), (REQUESTS_MAX, None));
        assert_eq!(all.last().unwrap().request_id, "r1501");
        // The numbers are that of a request that is no longer kept, and one that never existed.
        assert_eq!(log.before(&acme, Some(7), None, 5).0.len(), 0);
        assert_eq!(log.before(&acme, Some(9_999), None, 1).0[0].request_id, "late");
        assert!(log.before(&"other".parse().unwrap(), None, None, 5).0.is_empty());
    }

    #[test]
    fn a_status_is_searched_through_all_that_is_kept() {
        let log = RequestLog::default();
        let acme = "acme".parse().unwrap();
        for number in 0..900 {
            let status = if number % 300 == 0 { 503 } else { 200 };
            record(&log, "acme", number, &format!("r{number}"), status);
        }
        let status = Some(StatusCode::SERVICE_UNAVAILABLE);
        let (first, next) = log.before(&acme, None, status, 2);
        assert_eq!(ids(&first), ["r600", "r300"]);
        assert_eq!(ids(&log.before(&acme, next, status, 2).0), ["r0"]);
    }

    #[test]
    fn only_so_many_workspaces_are_kept() {
        let log = RequestLog::default();
        let kept = |name: &str| !log.before(&name.parse().unwrap(), None, None, 1).0.is_empty();
        for number in 0..WORKSPACES_MAX as u64 {
            record(&log, &format!("w{number}"), 1_000 + number, "a", 200);
        }
        // No workspace has been silent for long enough.
        record(&log, "late", 60_000, "a", 200);
        assert!(kept("w0") && !kept("late"));
        record(&log, "w0", 60_500, "a", 200);
        record(&log, "late", 61_001, "a", 200);
        assert!(kept("w0") && !kept("w1") && kept("w2") && kept("late"));
        assert_eq!(log.rings.load().len(), WORKSPACES_MAX);
        log.forget(&"w0".parse().unwrap());
        assert!(!kept("w0"));
        record(&log, "new", 61_002, "a", 200);
        assert!(kept("new"));
    }
}
