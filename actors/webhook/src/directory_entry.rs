//! An endpoint's directory entry, which outlasts its actor, and the health that it shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use postrider_domain::{Timestamp, WebhookId, WorkspaceId};
use postrider_runtime::directory::Slot;

use crate::endpoint::Endpoint;
use crate::message::EndpointMessage;
use crate::records::KeptAttempt;

/// One endpoint's slot in the directory: the place of its actor, and its [`EndpointEntry`].
pub type EndpointSlot = Slot<EndpointMessage, EndpointEntry>;

/// The directory's data of an endpoint besides the place of its actor.
#[derive(Debug)]
pub struct EndpointEntry {
    pub(crate) id: WebhookId,
    pub(crate) workspace: WorkspaceId,
    /// The endpoint as it was stored last.
    pub(crate) endpoint: ArcSwap<Endpoint>,
    /// Set if the log has grown, and the actor has not looked since.
    pub(crate) woken: AtomicBool,
    /// Messages of the directory that the actor has not handled yet.
    calls: Arc<AtomicUsize>,
    /// The start of the oldest due delivery's due time, in milliseconds since the epoch.
    ///
    /// `u64::MAX` if there is none.
    pub(crate) due_since_ms: AtomicU64,
    /// The number of deliveries that wait or are under way.
    pub(crate) waiting: AtomicUsize,
    /// Set if the circuit breaker is open, because the endpoint keeps failing.
    pub(crate) breaker_open: AtomicBool,
}

impl EndpointEntry {
    pub(crate) fn new(workspace: WorkspaceId, endpoint: Endpoint) -> Self {
        Self {
            id: endpoint.id,
            workspace,
            endpoint: ArcSwap::from_pointee(endpoint),
            woken: AtomicBool::new(false),
            calls: Arc::default(),
            due_since_ms: AtomicU64::new(u64::MAX),
            waiting: AtomicUsize::new(0),
            breaker_open: AtomicBool::new(false),
        }
    }

    /// Announces a message of the directory to the actor. It must be made before the message is
    /// cast, and travel with it: until it is dropped the actor does not passivate itself.
    pub(crate) fn call(&self) -> DirectoryCall {
        self.calls.fetch_add(1, Ordering::AcqRel);
        DirectoryCall(Arc::clone(&self.calls))
    }

    /// Returns the figures that its actor has published.
    pub(crate) fn published(&self) -> PublishedFigures {
        let due_since = self.due_since_ms.load(Ordering::Relaxed);
        PublishedFigures {
            waiting: self.waiting.load(Ordering::Relaxed),
            due_since: (due_since < u64::MAX).then(|| Timestamp::from_millis(due_since)),
            breaker_open: self.breaker_open.load(Ordering::Relaxed),
        }
    }

    /// Returns whether the actor may passivate itself.
    ///
    /// It may if the log has not grown since it looked, and its mailbox has no message of the
    /// directory.
    pub(crate) fn may_rest(&self) -> bool {
        !self.woken.load(Ordering::Acquire) && self.calls.load(Ordering::Acquire) == 0
    }
}

/// The figures that its actor has published of an endpoint.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PublishedFigures {
    pub(crate) waiting: usize,
    pub(crate) due_since: Option<Timestamp>,
    pub(crate) breaker_open: bool,
}

/// A message of the directory on its way to an endpoint's actor.
#[derive(Debug)]
pub struct DirectoryCall(Arc<AtomicUsize>);

impl Drop for DirectoryCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The period of recent tries.
const LATELY: Duration = Duration::from_secs(24 * 3600);

/// The health of an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EndpointHealth {
    /// The share of the stored tries of the last 24 hours that arrived, from 0 to 1.
    ///
    /// `None` if there were none.
    pub success: Option<f64>,
    /// The time within which 95 of 100 of them ended.
    pub p95: Option<Duration>,
    /// The number of deliveries that are known to wait, or are under way.
    pub waiting: usize,
    /// The time for which the oldest of them has been due.
    pub oldest: Duration,
    /// Set if the circuit breaker is open, because the endpoint keeps failing.
    pub breaker_open: bool,
}

impl EndpointHealth {
    /// Returns the health at `now` by these tries and figures.
    pub(crate) fn of(tries: &[KeptAttempt], published: PublishedFigures, now: Timestamp) -> Self {
        let late = |it: &&KeptAttempt| it.at.plus(LATELY) > now && it.forgotten.is_none();
        let lately: Vec<_> = tries.iter().filter(late).collect();
        let arrived = lately.iter().filter(|it| it.error.is_none()).count();
        let mut took: Vec<_> = lately.iter().map(|it| it.latency_ms).collect();
        took.sort_unstable();
        let at = (took.len() * 95).div_ceil(100).saturating_sub(1);
        Self {
            success: (!lately.is_empty()).then(|| arrived as f64 / lately.len() as f64),
            p95: took.get(at).copied().map(Duration::from_millis),
            waiting: published.waiting,
            oldest: published.due_since.map_or(Duration::ZERO, |since| now.since(since)),
            breaker_open: published.breaker_open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::DeliveryAttempt;

    fn tried(hours_ago: u64, latency_ms: u64, error: Option<&str>) -> KeptAttempt {
        let attempt = DeliveryAttempt {
            event_id: None,
            batch_event_ids: Vec::new(),
            forgotten: None,
            kind: "otp.sent".to_owned(),
            attempt: 1,
            status: Some(200),
            error: error.map(str::to_owned),
            latency_ms,
            response: None,
            at: Timestamp::from_millis((100 - hours_ago) * 3_600_000),
            next_retry_at: None,
        };
        KeptAttempt::at_place(0, attempt)
    }

    #[test]
    fn only_the_tries_of_a_day_count() {
        let now = Timestamp::from_millis(100 * 3_600_000);
        let none = EndpointHealth::of(&[], PublishedFigures::default(), now);
        assert_eq!(none, EndpointHealth::default());
        let mut tries = vec![tried(24, 9000, Some("timeout"))];
        assert_eq!(EndpointHealth::of(&tries, PublishedFigures::default(), now).success, None);
        tries.extend((1..=19).map(|latency| tried(1, latency, None)));
        tries.push(tried(23, 5000, Some("status")));
        let due_since = Some(Timestamp::from_millis(99 * 3_600_000));
        let published = PublishedFigures { waiting: 3, due_since, breaker_open: true };
        let health = EndpointHealth::of(&tries, published, now);
        assert_eq!(health.success, Some(0.95));
        assert_eq!(health.p95, Some(Duration::from_millis(19)));
        assert_eq!((health.waiting, health.oldest.as_secs()), (3, 3600));
        assert!(health.breaker_open);
    }
}
