//! Carries out what operators ask of the cluster: to drain a node, and to move a shard.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, Response};
use postrider_actors::clock::Stopwatch;
use postrider_cluster::{NodeName, OperationError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::front::Inner;
use crate::http::{ApiError, Code};

/// What the paths begin with.
pub(super) const PREFIX: &str = "/admin/v1/cluster/";
/// Most bytes of a body.
const BODY_BYTES_MAX: usize = 4 << 10;
/// How long a move waits for its turn, and then for the node to own the shard.
const TURN_WITHIN: Duration = Duration::from_secs(10);
const OWNED_WITHIN: Duration = Duration::from_secs(30);
/// How often it is looked whether the turn has come, and whether the shard is owned.
const TURN_EVERY: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operation {
    Drain(NodeName),
    Undrain(NodeName),
    Move(u16),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    to: String,
}

/// What a path below [`PREFIX`] asks for.
fn operation(path: &str) -> Option<Operation> {
    let mut parts = path.strip_prefix(PREFIX)?.split('/');
    let (of, which, what) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    match (of, what) {
        ("nodes", "drain") => Some(Operation::Drain(NodeName::new(which).ok()?)),
        ("nodes", "undrain") => Some(Operation::Undrain(NodeName::new(which).ok()?)),
        ("shards", "move") => Some(Operation::Move(which.parse().ok()?)),
        _ => None,
    }
}

/// Carries operations out, on behalf of the front of a node.
pub(super) struct Operator<'a>(pub(super) &'a Inner);

impl Operator<'_> {
    /// Answers a request whose admin token is right.
    pub(super) async fn answer(&self, request: Request) -> Response<Body> {
        let headers = request.headers().clone();
        let Some(operation) = operation(request.uri().path()) else {
            let error = ApiError::not_found("there is no such route, node or shard");
            return self.0.shards.answers.refuse(&headers, error.closing_with_body());
        };
        if request.method() != Method::POST {
            return self.0.has_no_such_method(&headers);
        }
        let done = match operation {
            Operation::Drain(node) => self.drain(node, true).await,
            Operation::Undrain(node) => self.drain(node, false).await,
            Operation::Move(shard) => match self.target(request).await {
                Ok(to) => self.move_shard(shard, to).await,
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(answer) => self.0.shards.answers.tell(&headers, &answer),
            Err(error) => self.0.shards.answers.refuse(&headers, error.closing_with_body()),
        }
    }

    async fn target(&self, request: Request) -> Result<NodeName, ApiError> {
        let reading = to_bytes(request.into_body(), BODY_BYTES_MAX);
        let read = tokio::time::timeout(self.0.body_timeout, reading).await;
        let late = |_| ApiError::new(Code::RequestTimeout, "the body did not come in time");
        let long = |_| ApiError::new(Code::PayloadTooLarge, "the body is too long");
        let bytes = read.map_err(late)?.map_err(long)?;
        let target: Target = serde_json::from_slice(&bytes)
            .map_err(|_| ApiError::field("to", "must be the name of a node, in a JSON object"))?;
        NodeName::new(&target.to).map_err(|error| {
            ApiError::field("to", format_args!("must be the name of a node: {error}"))
        })
    }

    async fn drain(&self, node: NodeName, drains: bool) -> Result<Value, ApiError> {
        let (shards, name) = (self.0.shards.clone(), node.clone());
        blocking(move || shards.node.set_draining(&name, drains)).await?;
        tracing::info!(%node, drains, "an operator has said whether a node drains");
        let seen = self.0.shards.node.seen();
        let state = match (drains, seen.nodes.contains_key(&node)) {
            (_, false) => "unreachable",
            (true, true) => "draining",
            (false, true) => "ready",
        };
        Ok(json!({ "node": node.as_str(), "state": state, "shards_left": seen.left(&node) }))
    }

    async fn move_shard(&self, shard: u16, to: NodeName) -> Result<Value, ApiError> {
        let turn = Stopwatch::start();
        let begun = loop {
            let (shards, name) = (Arc::clone(&self.0.shards), to.clone());
            match blocking(move || shards.node.move_shard(shard, &name)).await {
                Err(Refused::Operation(OperationError::Busy)) if turn.elapsed() < TURN_WITHIN => {
                    tokio::time::sleep(TURN_EVERY).await;
                }
                begun => break begun?,
            }
        };
        let from = begun.from.as_ref().map(ToString::to_string);
        tracing::info!(shard, from, %to, "an operator moves a shard");
        let way = Stopwatch::start();
        while way.elapsed() < OWNED_WITHIN {
            let seen = self.0.shards.node.seen();
            if let Some((_, _, report)) = seen.owner(shard).filter(|(owner, ..)| **owner == to) {
                let milliseconds = u64::try_from(way.elapsed().as_millis()).unwrap_or(u64::MAX);
                return Ok(json!({
                    "shard": shard, "from": from, "to": to.as_str(),
                    "epoch": report.epoch, "milliseconds": milliseconds,
                }));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let message = format!("{to} does not own shard {shard} yet; the move goes on");
        Err(ApiError::new(Code::ServiceUnavailable, message).because("no_owner"))
    }
}

/// Why an operation has no result.
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
    fn only_whole_paths_are_operations() {
        let node = || NodeName::new("pr-1").unwrap();
        for (path, expected) in [
            ("/admin/v1/cluster/nodes/pr-1/drain", Some(Operation::Drain(node()))),
            ("/admin/v1/cluster/nodes/pr-1/undrain", Some(Operation::Undrain(node()))),
            ("/admin/v1/cluster/shards/31/move", Some(Operation::Move(31))),
            ("/admin/v1/cluster/shards/x/move", None),
            ("/admin/v1/cluster/shards/65536/move", None),
            ("/admin/v1/cluster/nodes/PR/drain", None),
            ("/admin/v1/cluster/nodes/pr-1/drain/", None),
            ("/admin/v1/cluster/nodes/pr-1", None),
        ] {
            assert_eq!(operation(path), expected, "{path}");
        }
    }

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
