//! Numbers of providers in a cluster: one shard has each, and every node knows which.
//!
//! An engine claims a number before it commits one. Claims that a crashed process left over, and
//! numbers from an import, are corrected in the background.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use postrider_actors::domain::NumberId;
use postrider_actors::{Engine, HeldClaims, NumberClaim, NumberClaimError, NumberClaims};
use postrider_cluster::coordination::CoordinationError;
use postrider_cluster::numbers::{NumberHolder, NumberList};
use tokio::task::JoinError;

/// The time an engine may take to change its numbers before the check is postponed.
const HELD_WITHIN: Duration = Duration::from_secs(2);

/// The list of all numbers, once the node is a member.
pub(super) type Numbers = Arc<OnceLock<NumberDirectory>>;

/// This node's copy of the list.
#[derive(Debug)]
pub(super) struct NumberDirectory {
    list: Arc<NumberList>,
    /// Held during a read of the list. Its value is the failure of the last read.
    turn: tokio::sync::Mutex<Option<CoordinationError>>,
    /// The number of the last read that was started, and of the last one that ended.
    begun: AtomicU64,
    ended: AtomicU64,
    /// The numbers of each shard of this node that another shard has too.
    doubled: Mutex<BTreeMap<u16, Vec<String>>>,
}

impl NumberDirectory {
    pub(super) fn new(list: NumberList) -> Self {
        let (turn, begun, ended, doubled) = Default::default();
        Self { list: Arc::new(list), turn, begun, ended, doubled }
    }

    /// Refreshes the copy, so that it has every number that was connected before this call.
    ///
    /// Callers during a read wait for the next read, and share it and its failure.
    pub(super) async fn refresh(&self) -> Result<(), CoordinationError> {
        let before = self.begun.load(Ordering::Acquire);
        let mut failure = self.turn.lock().await;
        if self.ended.load(Ordering::Acquire) <= before {
            let reading = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
            let list = self.list.clone();
            let read = tokio::task::spawn_blocking(move || list.refresh()).await;
            let silent = |error: JoinError| Err(CoordinationError::Silent(error.to_string()));
            *failure = read.unwrap_or_else(silent).err();
            self.ended.store(reading, Ordering::Release);
        }
        failure.clone().map_or(Ok(()), Err)
    }

    /// Returns the holder of a number.
    pub(super) fn holder(&self, number: NumberId) -> Option<NumberHolder> {
        self.list.holder(&number.to_string())
    }

    /// Returns the list itself.
    pub(super) fn list(&self) -> &Arc<NumberList> {
        &self.list
    }

    /// Corrects the list to the claims of a shard's engine. Returns whether that worked. Blocks.
    ///
    /// The engine holds its claims meanwhile: a fresh claim would be taken for a leftover. `may`
    /// returns whether the shard is still this node's.
    fn keep(&self, shard: u16, held: HeldClaims, may: &dyn Fn() -> bool) -> bool {
        let claims: Vec<_> = held.claims.iter().map(|it| (name(it), holder(shard, it))).collect();
        let kept = self.list.refresh().and_then(|()| self.list.keep(shard, &claims, may));
        drop(held);
        match kept {
            Ok(others) => {
                self.note_doubled(shard, others);
                true
            }
            Err(error) => {
                tracing::warn!(shard, %error, "the list of numbers was not brought up");
                false
            }
        }
    }

    fn note_doubled(&self, shard: u16, numbers: Vec<String>) {
        let mut doubled = self.doubled();
        if doubled.get(&shard).is_some_and(|before| *before == numbers) {
            return;
        }
        if !numbers.is_empty() {
            tracing::warn!(shard, ?numbers, "another shard has these numbers too");
        }
        doubled.insert(shard, numbers);
    }

    /// Returns the numbers of each shard of this node that another shard has too.
    pub(super) fn doubled(&self) -> MutexGuard<'_, BTreeMap<u16, Vec<String>>> {
        // No holder of the lock panics.
        self.doubled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Corrects the list to the claims of a shard's engine, and returns whether that worked.
///
/// An engine that takes long to change its numbers does not delay the others. `may` returns whether
/// the shard is still this node's.
pub(super) async fn keep_claims(
    numbers: &Numbers,
    (shard, engine): (u16, &Engine),
    may: impl Fn() -> bool + Send + 'static,
) -> bool {
    let admin = engine.admin();
    let Ok(held) = tokio::time::timeout(HELD_WITHIN, admin.hold_claims()).await else {
        return false;
    };
    let numbers = numbers.clone();
    let keeping = move || {
        let list = numbers.get().filter(|_| may());
        list.is_some_and(|list| list.keep(shard, held, &may))
    };
    // A task that panicked is tried again like one that failed.
    tokio::task::spawn_blocking(keeping).await.unwrap_or(false)
}

fn name(claim: &NumberClaim) -> String {
    claim.phone_number_id.as_str().to_owned()
}

fn holder(shard: u16, claim: &NumberClaim) -> NumberHolder {
    NumberHolder { number: claim.number.to_string(), shard, apps: claim.apps.clone() }
}

/// The claims of one shard's engine.
#[derive(Debug)]
pub(super) struct ShardNumbers {
    pub(super) numbers: Numbers,
    pub(super) shard: u16,
}

impl NumberClaims for ShardNumbers {
    fn claim(&self, claim: &NumberClaim) -> Result<bool, NumberClaimError> {
        let failed = |what: &dyn std::fmt::Display| NumberClaimError(what.to_string());
        let numbers = self.numbers.get().ok_or_else(|| failed(&"the node is no member yet"))?;
        let claimed = numbers.list.claim(&name(claim), &holder(self.shard, claim));
        claimed.map_err(|error| failed(&error))
    }

    fn release(&self, claim: &NumberClaim) {
        let Some(numbers) = self.numbers.get() else { return };
        let number = claim.number.to_string();
        if let Err(error) = numbers.list.release(&name(claim), self.shard, &number) {
            tracing::warn!(number, %error, "the number is given up later");
        }
    }
}
