//! What is told of broadcasts: read from what is committed, without asking an actor.

use postrider_store::view::codec;
use std::ops::ControlFlow;

use postrider_broadcast::record::{self, Record};
use postrider_domain::BroadcastId;
use postrider_store::{Direction, StoreError, Table};

use crate::broadcasts::committed::Committed;
use crate::broadcasts::control::BroadcastError;
use crate::broadcasts::view::{Broadcast, RecipientStatus, RecipientsPage};
use crate::handle::Workspace;
use postrider_domain::unavailable::Unavailable;

impl Workspace {
    /// One broadcast. While it runs its recipients are counted, which is a scan.
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
        let counted = self.scan(move |store, workspace| {
            Committed::read(store, workspace, id)?.map(|found| found.broadcast(now)).transpose()
        });
        counted.await?.ok_or(BroadcastError::NotFound)
    }

    /// Broadcasts, newest first: those after the first `skip`, at most `limit`, and how many there
    /// are in all.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub async fn broadcasts(
        &self,
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<Broadcast>, usize), Unavailable> {
        let now = self.shared.clock.now();
        self.scan(move |store, workspace| {
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
                Committed::of(store, workspace, record?).broadcast(now)
            };
            let rows = found.into_iter().map(read).collect::<Result<_, _>>()?;
            Ok((rows, total))
        })
        .await
    }

    /// A broadcast's recipients, those of one status or all.
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
