//! Operations of operators on the cluster: draining a node, and moving a shard.

use std::sync::Arc;
use std::time::Duration;

use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::AuditContext;
use postrider_cluster::{NodeName, OperationError};

use super::door::Shards;
use crate::http::elsewhere::{DrainAnswer, MoveAnswer};
use crate::http::{ApiError, Code};

/// The time that a move waits for its turn, and then for the node to own the shard.
const TURN_WITHIN: Duration = Duration::from_secs(10);
const OWNED_WITHIN: Duration = Duration::from_secs(30);
/// The intervals between checks whether the turn has come, and whether the shard is owned.
const TURN_EVERY: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Carries out operations on the cluster, by way of a node.
pub(super) struct Operations(pub(super) Arc<Shards>);

impl Operations {
    /// Drains a node, so that it owns nothing, or lets it own shards again.
    pub(super) async fn drain(
        &self,
        node: NodeName,
        drains: bool,
        by: &AuditContext,
    ) -> Result<DrainAnswer, ApiError> {
        let (shards, name) = (Arc::clone(&self.0), node.clone());
        blocking(move || shards.node.set_draining(&name, drains)).await?;
        let (kind, id, address, request_id) = shown(by);
        tracing::info!(
            %node, drains, kind, id, address, request_id,
            "an operator has said whether a node drains"
        );
        let seen = self.0.node.seen();
        let state = match (drains, seen.nodes.contains_key(&node)) {
            (_, false) => "unreachable",
            (true, true) => "draining",
            (false, true) => "ready",
        };
        Ok(DrainAnswer { node: node.to_string(), state, shards_left: seen.left(&node) })
    }

    /// Moves a shard to a node, and waits until the node owns it.
    pub(super) async fn move_shard(
        &self,
        shard: u16,
        to: &str,
        by: &AuditContext,
    ) -> Result<MoveAnswer, ApiError> {
        let to = NodeName::new(to).map_err(|error| {
            ApiError::field("to", format_args!("must be the name of a node: {error}"))
        })?;
        let turn = Stopwatch::start();
        let begun = loop {
            let (shards, name) = (Arc::clone(&self.0), to.clone());
            match blocking(move || shards.node.move_shard(shard, &name)).await {
                Err(Refused::Operation(OperationError::Busy)) if turn.elapsed() < TURN_WITHIN => {
                    tokio::time::sleep(TURN_EVERY).await;
                }
                begun => break begun?,
            }
        };
        let from = begun.from.as_ref().map(ToString::to_string);
        let (kind, id, address, request_id) = shown(by);
        tracing::info!(
            shard, from, %to, kind, id, address, request_id,
            "an operator moves a shard"
        );
        let way = Stopwatch::start();
        while way.elapsed() < OWNED_WITHIN {
            let seen = self.0.node.seen();
            if let Some((_, _, report)) = seen.owner(shard).filter(|(owner, ..)| **owner == to) {
                let milliseconds = u64::try_from(way.elapsed().as_millis()).unwrap_or(u64::MAX);
                let (epoch, to) = (report.epoch, to.to_string());
                return Ok(MoveAnswer { shard, from, to, epoch, milliseconds });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let message = format!("{to} does not own shard {shard} yet; the move goes on");
        Err(ApiError::new(Code::ServiceUnavailable, message).because("no_owner"))
    }
}

/// Returns the caller for the log, because no audit log records changes of the cluster.
fn shown(by: &AuditContext) -> (&'static str, Option<&str>, Option<&str>, Option<&str>) {
    let AuditContext { actor, address, request_id } = by;
    (actor.kind.as_str(), actor.id.as_deref(), address.as_deref(), request_id.as_deref())
}

/// The reason why an operation has no result.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Operation(#[from] OperationError),
    #[error(transparent)]
    Ended(#[from] tokio::task::JoinError),
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let message = refused.to_string();
        let Refused::Operation(error) = refused else { return Self::internal() };
        match error {
            OperationError::NoNode(_) | OperationError::NoShard(..) => {
                Self::new(Code::NotFound, message)
            }
            OperationError::Last(_)
            | OperationError::Draining(_)
            | OperationError::Failing(_)
            | OperationError::Away(_)
            | OperationError::Busy => Self::new(Code::Conflict, message),
            OperationError::Bucket(_) => {
                Self::new(Code::ServiceUnavailable, message).because("log_unreachable")
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OperationError> + Send + 'static,
) -> Result<T, Refused> {
    Ok(tokio::task::spawn_blocking(work).await??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whether_asking_again_helps() {
        let node = || NodeName::new("pr-9").unwrap();
        for (error, code) in [
            (OperationError::NoNode(node()), Code::NotFound),
            (OperationError::NoShard(4, 3), Code::NotFound),
            (OperationError::Last(node()), Code::Conflict),
            (OperationError::Busy, Code::Conflict),
        ] {
            let message = error.to_string();
            let refusal = ApiError::from(Refused::from(error));
            assert_eq!((refusal.code(), refusal.message()), (code, message.as_str()));
        }
    }
}
