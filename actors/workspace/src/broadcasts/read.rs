//! Reports on broadcasts: read from committed records, without asking an actor.

use postrider_store::view::codec;
use std::ops::ControlFlow;
use std::sync::Arc;

use postrider_broadcast::Broadcasts;
use postrider_broadcast::record::{self, BroadcastStatus, Record};
use postrider_domain::BroadcastId;
use postrider_store::{Direction, StoreError, Table};

use crate::broadcasts::budget::Budgets;
use crate::broadcasts::committed::Committed;
use crate::broadcasts::control::BroadcastError;
use crate::broadcasts::view::{Broadcast, RecipientStatus, RecipientsPage};
use crate::handle::Workspace;
use postrider_domain::unavailable::Unavailable;

/// The reason why a running broadcast waits for the budget of its numbers' portfolio.
const PORTFOLIO_LIMIT: &str = "portfolio_limit";

/// Returns a broadcast as it is shown, with the reason for its wait.
fn shown(
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
            found.map(|found| shown(found, &budgets, &running)).transpose()
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
                shown(Committed::of(store, workspace, record?), &budgets, &running)
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
}
