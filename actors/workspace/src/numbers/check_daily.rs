//! Checks the numbers that have a provider once a day, automatically.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use postrider_domain::{NumberId, Timestamp, WorkspaceId};
use postrider_number::record::NumberKind;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use crate::Workspace;
use crate::core::records;
use crate::numbers::check::{CheckNumberError, NumberCheck};
use crate::services::Services;

/// The time for which a check is valid.
const HOLDS: Duration = Duration::from_secs(24 * 3600);
/// The time for which a check without a reachable provider is valid.
///
/// It is also the time between two searches for numbers without a valid check.
const EVERY: Duration = Duration::from_secs(3600);
/// The longest pause after a check: the provider allows 200 such calls in an hour, for an account.
const PAUSE_MAX: Duration = Duration::from_secs(36);
/// The maximum sum of the pauses in a round.
const PAUSES_MAX: Duration = Duration::from_secs(12 * 3600);
/// The maximum number of numbers that are checked at once.
const AT_ONCE_MAX: usize = 8;

/// A number of a workspace to check, and the time of its last check; the epoch: never.
type Due = (Timestamp, WorkspaceId, NumberId);

/// Starts the checks, which end with the engine and do not keep it alive.
pub fn begin(shared: &Arc<Services>) {
    drop(tokio::spawn(run(Arc::downgrade(shared))));
}

async fn run(shared: Weak<Services>) {
    let Some(clock) = shared.upgrade().map(|shared| shared.clock.clone()) else { return };
    // They end with this task. A round with many numbers takes hours.
    let mut rounds = JoinSet::new();
    let mut under_way: BTreeMap<Box<str>, AbortHandle> = BTreeMap::new();
    let turns = Arc::new(Semaphore::new(AT_ONCE_MAX));
    loop {
        clock.sleep_until(clock.now().plus(EVERY)).await;
        while rounds.try_join_next().is_some() {}
        under_way.retain(|_, round| !round.is_finished());
        let Some(accounts) = due(&shared).await else { return };
        for (account, numbers) in accounts {
            under_way.entry(account).or_insert_with(|| {
                rounds.spawn(check_all(shared.clone(), Arc::clone(&turns), numbers))
            });
        }
    }
}

/// Checks numbers of one account, one after the other.
async fn check_all(shared: Weak<Services>, turns: Arc<Semaphore>, due: Vec<Due>) {
    let Some(clock) = shared.upgrade().map(|shared| shared.clock.clone()) else { return };
    let pause = PAUSE_MAX.min(PAUSES_MAX / u32::try_from(due.len()).unwrap_or(u32::MAX).max(1));
    for (at, (_, id, number)) in due.into_iter().enumerate() {
        if at > 0 {
            clock.sleep_until(clock.now().plus(pause)).await;
        }
        if shared.strong_count() == 0 {
            return;
        }
        let Some(workspace) = workspace(&shared, &id) else { continue };
        // The number may have been checked since.
        let is_due = is_due(&workspace, number, clock.now()).await.is_some();
        drop(workspace);
        if is_due {
            // The semaphore is never closed.
            let _turn = turns.acquire().await;
            check(&shared, &id, number).await;
        }
    }
}

/// Returns the time of a number's last check, if that is not valid any more.
///
/// A check that cannot be read now is read again in the next search.
async fn is_due(workspace: &Workspace, number: NumberId, now: Timestamp) -> Option<Timestamp> {
    let Ok(last) = workspace.last_check(number).await else { return None };
    let holds = |check: &NumberCheck| if check.reachable { HOLDS } else { EVERY };
    match last.filter(|last| last.is_past(now)) {
        Some(last) => Some(last.at).filter(|at| now.since(*at) >= holds(&last)),
        None => Some(Timestamp::from_millis(0)),
    }
}

/// Returns the numbers without a valid check, by account, the oldest first.
///
/// `None`: the engine is dropped.
async fn due(shared: &Weak<Services>) -> Option<Vec<(Box<str>, Vec<Due>)>> {
    let (numbers, clock) =
        shared.upgrade().map(|it| (Arc::clone(&it.numbers), it.clock.clone()))?;
    let mut due: BTreeMap<Box<str>, Vec<Due>> = BTreeMap::new();
    for id in numbers.workspaces_with(NumberKind::CloudApi) {
        let Some(workspace) = workspace(shared, &id) else { continue };
        // This reads beside the actor, which need not be started for it.
        let records = workspace.read(records::load).await.ok().flatten();
        for number in records.map(|records| records.numbers).unwrap_or_default() {
            let Some(account) = number.account.filter(|_| number.kind == NumberKind::CloudApi)
            else {
                continue;
            };
            if let Some(at) = is_due(&workspace, number.id, clock.now()).await {
                let of = due.entry(account.account_id.as_str().into()).or_default();
                of.push((at, id.clone(), number.id));
            }
        }
    }
    let mut accounts: Vec<_> = due.into_iter().collect();
    accounts.iter_mut().for_each(|(_, numbers)| numbers.sort_unstable());
    accounts.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
    Some(accounts)
}

fn workspace(shared: &Weak<Services>, id: &WorkspaceId) -> Option<Workspace> {
    let shared = shared.upgrade()?;
    let slot = shared.workspaces.slot(id)?;
    Some(Workspace::new(shared, slot))
}

/// Checks a number. Nothing keeps the engine alive while its provider is asked.
async fn check(shared: &Weak<Services>, id: &WorkspaceId, number: NumberId) {
    let result = async {
        let Some(found) = workspace(shared, id) else { return Ok(()) };
        let asking = found.begin_check(number).await?;
        drop(found);
        let asked = asking.ask().await;
        match workspace(shared, id) {
            Some(found) => found.end_check(asking, asked).await.map(drop),
            None => Ok(()),
        }
    };
    // A number without a provider was disconnected meanwhile.
    if let Err(CheckNumberError::Unavailable(error)) = result.await {
        tracing::warn!(workspace = %id, %number, %error, "a number was not checked");
    }
}

impl Workspace {
    /// Checks a number in the background.
    pub fn check_number_soon(&self, number: NumberId) {
        let (shared, id) = (Arc::downgrade(&self.shared), self.id().clone());
        drop(tokio::spawn(async move { check(&shared, &id, number).await }));
    }
}
