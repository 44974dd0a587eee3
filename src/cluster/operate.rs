//! Answers operations on the cluster by operators with an admin token, which need no engine.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Response};
use postrider_actors::domain::{ActorKind, AuditActor, AuditContext};
use postrider_cluster::NodeName;
use serde::Serialize;
use serde_json::{Value, json};

use super::callers::head_of;
use super::front::Inner;
use super::operations::Operations;
use super::shown::OPERATIONS;
use crate::http::elsewhere::ShardTarget;
use crate::http::{ApiError, Code, exact_address, request_id};

/// The maximum size of a body in bytes.
const BODY_BYTES_MAX: usize = 4 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operation {
    Drain(NodeName),
    Undrain(NodeName),
    Move(u16),
}

/// Parses the operation of a path below [`OPERATIONS`].
fn operation(path: &str) -> Option<Operation> {
    let mut parts = path.strip_prefix(OPERATIONS)?.split('/');
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

/// Carries out operations on behalf of the front of a node.
pub(super) struct Operator<'a>(pub(super) &'a Inner);

impl Operator<'_> {
    /// Answers a request whose admin token is valid.
    pub(super) async fn answer(&self, request: Request) -> Response<Body> {
        let mut headers = request.headers().clone();
        // The log and the answer show the same id.
        let id = self.0.shards.answers.id_of(&headers);
        headers.insert(request_id::HEADER, id.header());
        let Some(operation) = operation(request.uri().path()) else {
            let error = ApiError::not_found("there is no such route, node or shard");
            return self.0.shards.answers.refuse(&headers, error.closing_with_body());
        };
        if request.method() != Method::POST {
            return self.0.has_no_such_method(&headers);
        }
        let (shards, asked) = (&self.0.shards, Operations(self.0.shards.clone()));
        let by = self.asker(&request, &headers);
        let done = match operation {
            Operation::Drain(node) => shown(asked.drain(node, true, &by).await),
            Operation::Undrain(node) => shown(asked.drain(node, false, &by).await),
            Operation::Move(shard) => match self.target(request).await {
                Ok(to) => shown(asked.move_shard(shard, &to, &by).await),
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(answer) => shards.answers.json(&headers, &answer),
            Err(error) => shards.answers.refuse(&headers, error.closing_with_body()),
        }
    }

    /// Returns the caller: somebody with the admin token of the settings.
    fn asker(&self, request: &Request, headers: &HeaderMap) -> AuditContext {
        let shards = &self.0.shards;
        let address = exact_address(&head_of(request), &shards.engines.app.trusted_proxies);
        AuditContext {
            actor: AuditActor::of_kind(ActorKind::AdminToken),
            address: Some(address.to_string().into()),
            request_id: Some(shards.answers.id_of(headers).as_str().into()),
        }
    }

    async fn target(&self, request: Request) -> Result<String, ApiError> {
        let reading = to_bytes(request.into_body(), BODY_BYTES_MAX);
        let read = tokio::time::timeout(self.0.body_timeout, reading).await;
        let late = |_| ApiError::new(Code::RequestTimeout, "the body did not come in time");
        let long = |_| ApiError::new(Code::PayloadTooLarge, "the body is too long");
        let bytes = read.map_err(late)?.map_err(long)?;
        let target: ShardTarget = serde_json::from_slice(&bytes)
            .map_err(|_| ApiError::field("to", "must be the name of a node, in a JSON object"))?;
        Ok(target.to)
    }
}

fn shown<T: Serialize>(done: Result<T, ApiError>) -> Result<Value, ApiError> {
    done.map(|answer| json!(answer))
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
}
