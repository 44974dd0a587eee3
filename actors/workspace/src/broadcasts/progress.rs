//! The progress of a workspace's broadcasts, for clients that watch.
//!
//! While a client watches, one task of the workspace counts the recipients of running broadcasts.
//! It does so at most twice a second, and less often if that takes long. It counts at once when it
//! is notified of a changed status. An outcome by itself causes no count and no message, and
//! nothing is counted while no client watches. A slow client sees the newest counts only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_broadcast::record::BroadcastStatus;
use postrider_domain::BroadcastId;
use postrider_runtime::clock::Stopwatch;
use tokio::sync::watch;

use crate::Workspace;
use crate::broadcasts::control::BroadcastError;
use crate::broadcasts::view::{Broadcast, RecipientStatus};
use crate::mailbox::watching::{Progress, STATUSES, Watched};

/// The shortest time between two counts.
const PACE: Duration = Duration::from_millis(500);
/// The factor by which the rest after a count is longer than the count.
const REST: u32 = 20;
/// The maximum of finished broadcasts whose last counts stay published.
const OVER_MAX: usize = 100;

type Published = BTreeMap<BroadcastId, Progress>;

impl Workspace {
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
        let (watching, mut published, mut version) = (&self.slot.watching, Published::new(), 0);
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
    async fn count_once(&self, published: &mut Published, version: &mut u64) {
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
        leave_out_old(published);
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

fn leave_out_old(published: &mut Published) {
    let over: Vec<_> =
        published.iter().filter(|(_, it)| it.status.is_over()).map(|(id, _)| *id).collect();
    for id in &over[..over.len().saturating_sub(OVER_MAX)] {
        published.remove(id);
    }
}

const _: () = assert!(RecipientStatus::ALL.len() == STATUSES);
