//! Reports on broadcasts: read from committed records, without asking an actor.
//!
//! While a client watches the progress, one task of the workspace counts the recipients of running
//! broadcasts. It does so at most twice a second, and less often if that takes long. It counts at
//! once when it is notified of a changed status. An outcome by itself causes no count and no
//! message, and nothing is counted while no client watches. A slow client sees the newest counts
//! only.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use postrider_broadcast::record::{BroadcastStatus, Record};
use postrider_broadcast::{Broadcasts, record};
use postrider_domain::BroadcastId;
use postrider_domain::unavailable::Unavailable;
use postrider_runtime::clock::Stopwatch;
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table};
use tokio::sync::watch;

use crate::broadcasts::budget::Budgets;
use crate::broadcasts::committed::Committed;
use crate::broadcasts::control::BroadcastError;
use crate::broadcasts::view::{Broadcast, RecipientStatus, RecipientsPage};
use crate::handle::Workspace;
use crate::mailbox::watching::{Progress, STATUSES, Watched};

/// The reason why a running broadcast waits for the budget of its numbers' portfolio.
const PORTFOLIO_LIMIT: &str = "portfolio_limit";

/// The shortest time between two counts.
const PACE: Duration = Duration::from_millis(500);
/// The factor by which the rest after a count is longer than the count.
const REST: u32 = 20;
/// The maximum of finished broadcasts whose last counts stay published.
const OVER_MAX: usize = 100;

type PublishedCounts = BTreeMap<BroadcastId, Progress>;

impl Workspace {
    /// Returns one broadcast. While it runs its recipients are counted, which is a scan.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is none, or not now.
    pub async fn broadcast(&self, id: BroadcastId) -> Result<Broadcast, BroadcastError> {
        let now = self.shared.clock.now();
        let read = self.read(move |store, workspace| {
            let found = Committed::read(store, workspace, id)?;
            found.map(|found| found.counted_before(now)).transpose()
        });
        if let Some(broadcast) = read.await?.ok_or(BroadcastError::NotFound)? {
            return Ok(broadcast);
        }
        let portfolios = Arc::clone(&self.shared.portfolios);
        let running = Arc::clone(&self.shared.broadcasts);
        let counted = self.scan(move |view, workspace| {
            let budgets = Budgets { portfolios: &portfolios, view, workspace, now };
            let found = Committed::read(view, workspace, id)?;
            found.map(|found| shown_broadcast(found, &budgets, &running)).transpose()
        });
        counted.await?.ok_or(BroadcastError::NotFound)
    }

    /// Returns broadcasts, newest first, and the number of all.
    ///
    /// They are those after the first `skip`, at most `limit`.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub async fn broadcasts(
        &self,
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<Broadcast>, usize), Unavailable> {
        let now = self.shared.clock.now();
        let portfolios = Arc::clone(&self.shared.portfolios);
        let running = Arc::clone(&self.shared.broadcasts);
        self.scan(move |store, workspace| {
            let budgets = Budgets { portfolios: &portfolios, view: store, workspace, now };
            let prefix = record::records_prefix(workspace);
            let (mut found, mut total) = (Vec::new(), 0);
            store.scan(
                Table::Broadcasts,
                &prefix,
                None,
                Direction::Backward,
                &mut |_, value| {
                    if total >= skip && found.len() < limit {
                        found.push(codec::decode::<Record>(value));
                    }
                    total += 1;
                    ControlFlow::Continue(())
                },
            )?;
            let read = |record: Result<Record, StoreError>| {
                shown_broadcast(Committed::of(store, workspace, record?), &budgets, &running)
            };
            let rows = found.into_iter().map(read).collect::<Result<_, _>>()?;
            Ok((rows, total))
        })
        .await
    }

    /// Returns a broadcast's recipients, of one status or all.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is no such broadcast, or not now.
    pub async fn broadcast_recipients(
        &self,
        id: BroadcastId,
        status: Option<RecipientStatus>,
        skip: usize,
        limit: usize,
    ) -> Result<RecipientsPage, BroadcastError> {
        let read = self.scan(move |store, workspace| {
            let found = Committed::read(store, workspace, id)?;
            found.map(|found| found.page(status, skip, limit)).transpose()
        });
        read.await?.ok_or(BroadcastError::NotFound)
    }

    /// Returns the newest counts of the running broadcasts, for as long as the receiver is kept.
    #[must_use]
    pub fn watch_broadcasts(&self) -> watch::Receiver<Watched> {
        let watching = &self.slot.watching;
        let receiver = watching.newest.subscribe();
        let mut runs = watching.runs.lock();
        if !*runs {
            *runs = true;
            let workspace = self.clone();
            drop(tokio::spawn(async move { workspace.count_while_watched().await }));
        }
        receiver
    }

    /// Has a broadcast counted now, because it has changed its status.
    pub fn hurry_progress(&self, id: BroadcastId) {
        self.slot.watching.changed.lock().insert(id);
        self.slot.watching.hurry.notify_one();
    }

    async fn count_while_watched(&self) {
        let (watching, mut published, mut version) =
            (&self.slot.watching, PublishedCounts::new(), 0);
        loop {
            let took = Stopwatch::start();
            self.count_once(&mut published, &mut version).await;
            let rest = PACE.max(took.elapsed().saturating_mul(REST));
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = watching.hurry.notified() => {}
                () = watching.newest.closed() => {}
            }
            let mut runs = watching.runs.lock();
            if watching.newest.is_closed() {
                *runs = false;
                // No client is to start with counts of long ago.
                watching.newest.send_replace(Watched::default());
                return;
            }
        }
    }

    /// Counts the running broadcasts, and once more each that no longer runs.
    async fn count_once(&self, published: &mut PublishedCounts, version: &mut u64) {
        let live = self.shared.broadcasts.all_of(self.id());
        let begun = live.into_iter().filter(|id| self.has_begun(*id));
        let mut ids: Vec<_> = begun.collect();
        ids.extend(std::mem::take(&mut *self.slot.watching.changed.lock()));
        ids.extend(published.iter().filter(|(_, it)| !it.status.is_over()).map(|(id, _)| *id));
        ids.sort_unstable();
        ids.dedup();
        let before = *version;
        for id in ids {
            let progress = match self.broadcast(id).await {
                Ok(broadcast) => progress(*version + 1, &broadcast),
                Err(BroadcastError::NotFound) => {
                    published.remove(&id);
                    continue;
                }
                // It is tried again.
                Err(_) => continue,
            };
            if published.get(&id).is_none_or(|known| differs(known, &progress)) {
                *version += 1;
                published.insert(id, progress);
            }
        }
        drop_old(published);
        if *version > before {
            self.slot.watching.newest.send_replace(Arc::new(published.clone()));
        }
    }

    /// Returns whether a broadcast has started; a scheduled one has nothing to report.
    fn has_begun(&self, id: BroadcastId) -> bool {
        let record = self.broadcast_record(id);
        record.is_ok_and(|found| {
            found.is_some_and(|record| record.status != BroadcastStatus::Scheduled)
        })
    }
}

/// Returns a broadcast as it is shown, with the reason for its wait.
fn shown_broadcast(
    found: Committed<'_>,
    budgets: &Budgets<'_>,
    running: &Broadcasts,
) -> Result<Broadcast, StoreError> {
    let is_held = found.record.status == BroadcastStatus::Sending
        && running.slot(found.record.id).is_some_and(|slot| slot.is_held());
    let resumes_at = is_held.then(|| budgets.resumes_at(&found.record)).transpose()?;
    let mut broadcast = found.broadcast(budgets.now)?;
    if let Some(resumes_at) = resumes_at {
        broadcast.reason = Some(PORTFOLIO_LIMIT.into());
        broadcast.resumes_at = resumes_at;
    }
    Ok(broadcast)
}

fn progress(version: u64, broadcast: &Broadcast) -> Progress {
    let mut counts = broadcast.counts;
    let rate_per_second = broadcast.rate_per_second.unwrap_or(0.0);
    let is_sending = broadcast.status == BroadcastStatus::Sending && rate_per_second > 0.0;
    let left = f64::from(counts.pending) / rate_per_second;
    let all = RecipientStatus::ALL;
    Progress {
        version,
        status: broadcast.status,
        total_recipients: broadcast.total_recipients,
        counts: std::array::from_fn(|at| (all[at].as_str(), *counts.of(all[at]))),
        rate_per_second,
        eta_seconds: is_sending.then_some(left.ceil() as u64),
    }
}

/// Returns whether any published field has changed, except the rate.
fn differs(known: &Progress, now: &Progress) -> bool {
    (known.status, known.counts, known.total_recipients)
        != (now.status, now.counts, now.total_recipients)
}

fn drop_old(published: &mut PublishedCounts) {
    let over: Vec<_> =
        published.iter().filter(|(_, it)| it.status.is_over()).map(|(id, _)| *id).collect();
    for id in &over[..over.len().saturating_sub(OVER_MAX)] {
        published.remove(id);
    }
}

const _: () = assert!(RecipientStatus::ALL.len() == STATUSES);
