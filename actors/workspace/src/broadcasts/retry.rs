//! A new broadcast to the failed recipients of an earlier one.

use postrider_broadcast::Audience;
use postrider_domain::{BroadcastId, NumberId};

use crate::broadcasts::committed::Committed;
use crate::broadcasts::control::BroadcastError;
use crate::broadcasts::create::{BroadcastMade, CreateBroadcastError, NewBroadcast};
use crate::broadcasts::view::RecipientStatus;
use crate::handle::Workspace;
use crate::idempotency::IdempotentError;

/// The reason why a broadcast was not sent again to its failed recipients.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetryBroadcastError {
    /// The broadcast cannot be retried.
    #[error(transparent)]
    Broadcast(#[from] BroadcastError),
    /// The new broadcast cannot be created.
    #[error(transparent)]
    Create(#[from] CreateBroadcastError),
}

impl From<postrider_domain::unavailable::Unavailable> for RetryBroadcastError {
    fn from(why: postrider_domain::unavailable::Unavailable) -> Self {
        Self::Broadcast(why.into())
    }
}

impl Workspace {
    /// Creates a new broadcast to the failed recipients of one that is over.
    ///
    /// # Errors
    /// [`RetryBroadcastError`]: there is none, it is not over, nothing has failed, it was retried
    /// before, or the refusal of [`create_broadcast`](Self::create_broadcast).
    pub async fn retry_broadcast(
        &self,
        id: BroadcastId,
    ) -> Result<BroadcastMade, RetryBroadcastError> {
        let workspace = self.clone();
        postrider_runtime::task::detached(async move { workspace.retry_attached(id).await }).await
    }

    /// Returns those of the named numbers that are still connected, or all of them if none is.
    ///
    /// A broadcast must not leave through others, and the refusal names one.
    fn still_connected(&self, named: Vec<NumberId>) -> Vec<NumberId> {
        let is_connected = |number: &NumberId| self.shared.numbers.connected(*number).is_some();
        let left: Vec<_> = named.iter().copied().filter(is_connected).collect();
        if left.is_empty() { named } else { left }
    }

    async fn retry_attached(&self, id: BroadcastId) -> Result<BroadcastMade, RetryBroadcastError> {
        let read = self.scan(move |store, workspace| {
            let Some(found) = Committed::read(store, workspace, id)? else {
                return Ok(Err(RetryBroadcastError::from(BroadcastError::NotFound)));
            };
            if let Some(by) = found.record.retried_by {
                return Ok(Err(CreateBroadcastError::Retried(by).into()));
            }
            if !found.record.settled {
                return Ok(Err(BroadcastError::WrongState(found.record.status).into()));
            }
            let mut failed = Vec::new();
            found.visit(&mut |index, status, _| {
                if status == RecipientStatus::Failed {
                    failed.push(index);
                }
            })?;
            let mut audience = Audience::new();
            found.recipients(failed.into_iter(), &mut |_, phone, variables| {
                audience.add(phone, variables.into());
            })?;
            if audience.is_empty() {
                return Ok(Err(BroadcastError::NothingFailed.into()));
            }
            Ok(Ok((found.record, audience)))
        });
        let (record, audience) = read.await??;
        let from = self.still_connected(record.from);
        let new = NewBroadcast {
            name: record.name,
            template: record.template.name,
            language: record.template.language,
            components: record.components,
            audience,
            schedule_at: None,
            policy: record.policy,
            notes: record.notes,
            from: from.iter().map(|number| number.to_string().into()).collect(),
        };
        match self.create_broadcast_attached(new, None, Some(id)).await {
            Ok(made) => Ok(made.answer),
            Err(IdempotentError::Refused(error)) => Err(error.into()),
            // There is no key.
            Err(_) => Err(BroadcastError::NotFound.into()),
        }
    }
}
