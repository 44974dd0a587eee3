//! The list of workspaces over all shards, and a new workspace, whose name is in the body.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Response, StatusCode, header};
use postrider_actors::domain::WorkspaceId;
use postrider_actors::home_of;
use serde::Deserialize;
use serde_json::{Value, json};

use super::front::Inner;
use crate::http::{ApiError, Code, Page, Peer, Query};

/// Most bytes of the body of a new workspace.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a page of workspaces.
const PAGE_BYTES_MAX: usize = 16 << 20;
/// Rows that are asked for at a time.
const ROWS: usize = 200;

#[derive(Deserialize)]
struct Named {
    id: String,
}

impl Inner {
    /// Has the shard of a new workspace make it.
    pub(super) async fn create(&self, request: Request) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let read = tokio::time::timeout(self.body_timeout, to_bytes(body, BODY_BYTES_MAX)).await;
        let bytes = match read {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(_)) => {
                let message = "the body must be whole, and no longer than 65536 bytes";
                let error = ApiError::new(Code::PayloadTooLarge, message).closing_with_body();
                return self.shards.answers.refuse(&parts.headers, error);
            }
            Err(_) => {
                let error = ApiError::new(Code::RequestTimeout, "the body did not come in time");
                return self.shards.answers.refuse(&parts.headers, error.closing_with_body());
            }
        };
        // One that names no workspace is refused by any engine.
        let id = serde_json::from_slice::<Named>(&bytes).ok().and_then(|it| it.id.parse().ok());
        let shard = id.map_or(0, |id: WorkspaceId| self.shard_of(home_of(&id)));
        parts.headers.remove(header::TRANSFER_ENCODING);
        parts.headers.insert(header::CONTENT_LENGTH, bytes.len().into());
        self.route(shard, Request::from_parts(parts, Body::from(bytes))).await
    }

    /// The workspaces of all shards, by id.
    pub(super) async fn gather(&self, request: Request) -> Response<Body> {
        let (parts, _) = request.into_parts();
        let client = parts.extensions.get::<Peer>().copied();
        let mut rows = Vec::new();
        for shard in 0..self.shards.node.cluster().1.shards {
            match self.rows_of(shard, &parts.headers, client).await {
                Ok(some) => rows.extend(some),
                Err(response) => return *response,
            }
        }
        let page = Query::of(&parts.uri).and_then(|query| Page::of(&query));
        let page = match page {
            Ok(page) => page,
            Err(error) => return self.shards.answers.refuse(&parts.headers, error),
        };
        rows.sort_by(|a: &Value, b: &Value| a["id"].as_str().cmp(&b["id"].as_str()));
        let page = page.cut(rows, |row| row);
        self.shards.answers.tell(&parts.headers, &json!(page))
    }

    /// The workspaces of one shard, or the answer of one that refused.
    async fn rows_of(
        &self,
        shard: u16,
        headers: &HeaderMap,
        client: Option<Peer>,
    ) -> Result<Vec<Value>, Box<Response<Body>>> {
        let mut rows = Vec::new();
        for page in 1.. {
            let path = format!("/admin/v1/workspaces?page={page}&limit={ROWS}");
            let mut request = Request::new(Body::empty());
            if let Ok(uri) = path.parse() {
                *request.uri_mut() = uri;
            }
            for name in [header::AUTHORIZATION, header::HOST, crate::http::request_id::HEADER] {
                let value = headers.get(&name).cloned();
                value.map(|value| request.headers_mut().insert(name, value));
            }
            client.map(|client| request.extensions_mut().insert(client));
            let response = self.route(shard, request).await;
            if response.status() != StatusCode::OK {
                return Err(Box::new(response));
            }
            let body = to_bytes(response.into_body(), PAGE_BYTES_MAX).await.unwrap_or_default();
            let mut answer: Value = serde_json::from_slice(&body).unwrap_or_default();
            let Value::Array(some) = answer["data"].take() else {
                let error = super::settled::no_owner(shard);
                return Err(Box::new(self.shards.answers.refuse(headers, error)));
            };
            let is_last = some.len() < ROWS;
            rows.extend(some);
            if is_last {
                break;
            }
        }
        Ok(rows)
    }
}
