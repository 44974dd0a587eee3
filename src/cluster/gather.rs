//! Lists workspaces over all shards, and makes a new workspace, whose name is in the body.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use postrider_actors::domain::WorkspaceId;
use postrider_actors::home_of;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asking::PEOPLE;
use super::audits::Audits;
use super::front::{Inner, WORKSPACES};
use super::peers::COUNTED;
use super::questions::Question;
use super::settled::no_answer;
use crate::http::{ApiError, Holder, Page, Peer, Query, ReadDeadline, linger, read_raw};

/// The maximum size of the body of a new workspace in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The maximum size of a page of workspaces in bytes.
const PAGE_BYTES_MAX: usize = 16 << 20;
/// The number of rows per request.
const ROWS: usize = 200;

/// The headers by which a client identifies itself, and those that a proxy adds about the client.
const SHOWN: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::COOKIE,
    header::HOST,
    header::ORIGIN,
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("x-forwarded-for"),
    crate::http::request_id::HEADER,
];

#[derive(Deserialize)]
struct Named {
    id: String,
}

impl Inner {
    /// Makes a workspace on its shard.
    pub(super) async fn create(&self, request: Request) -> Response<Body> {
        let (mut parts, mut body) = request.into_parts();
        // A caller who may not administer is refused before the body is read or another shard is
        // asked.
        let path = format!("{WORKSPACES}?limit=1");
        if let Err(refusal) = self.part(self.any_shard(), &path, &parts, true).await {
            linger(&parts.headers, &mut body, &self.drain);
            return *refusal;
        }
        parts.headers.insert(COUNTED, HeaderValue::from_static("1"));
        let mut lease = self.bodies.lease(Holder::Administrator);
        let deadline = ReadDeadline { timeout: self.body_timeout, drain: &self.drain };
        let bytes = match read_raw(&mut body, BODY_BYTES_MAX, &mut lease, deadline).await {
            Ok(bytes) => bytes,
            Err(error) => {
                return self.shards.answers.refuse(&parts.headers, error.closing_with_body());
            }
        };
        // Any engine refuses a body that names no workspace.
        let id = serde_json::from_slice::<Named>(&bytes).ok().and_then(|it| it.id.parse().ok());
        let shard = id.as_ref().map_or(0, |id: &WorkspaceId| self.shard_of(home_of(id)));
        if let Some(id) = id
            && let Err(error) = self.has_no_members(id).await
        {
            return self.shards.answers.refuse(&parts.headers, error);
        }
        parts.headers.remove(header::TRANSFER_ENCODING);
        parts.headers.insert(header::CONTENT_LENGTH, bytes.len().into());
        self.route(shard, Request::from_parts(parts, Body::from(bytes))).await
    }

    /// Removes the members of a workspace that does not exist.
    ///
    /// Some may be left of a deleted one.
    async fn has_no_members(&self, id: WorkspaceId) -> Result<(), ApiError> {
        if self.shards.ask_workspace(id.clone()).await?.is_none() {
            self.shards.ask(PEOPLE, Question::Forget { workspace: id }).await?;
        }
        Ok(())
    }

    /// Removes the members of a workspace that was deleted just now.
    ///
    /// If that fails, it is done before another workspace with this id is made.
    pub(super) async fn forget_members(&self, id: WorkspaceId) {
        let question = Question::Forget { workspace: id };
        if let Err(error) = self.shards.ask(PEOPLE, question).await {
            tracing::debug!(?error, "the members of a deleted workspace are forgotten later");
        }
    }

    /// Returns the rows of a list of all shards, sorted by this field.
    pub(super) async fn gather(&self, request: Request, list: &str, by: &str) -> Response<Body> {
        let (parts, _) = request.into_parts();
        let mut rows = Vec::new();
        for shard in 0..self.shards.node.cluster().1.shards {
            match self.rows_of(shard, list, &parts).await {
                Ok(some) => rows.extend(some),
                Err(response) => return *response,
            }
        }
        let page = Query::of(&parts.uri).and_then(|query| Page::of(&query));
        let page = match page {
            Ok(page) => page,
            Err(error) => return self.shards.answers.refuse(&parts.headers, error),
        };
        rows.sort_by(|a: &Value, b: &Value| a[by].as_str().cmp(&b[by].as_str()));
        let page = page.cut(rows, |row| row);
        self.shards.answers.json(&parts.headers, &json!(page))
    }

    /// Returns a part of the audit log of all shards.
    pub(super) async fn audit(&self, request: Request) -> Response<Body> {
        Audits(self).read(request).await
    }

    /// Verifies a part of the audit log.
    pub(super) async fn check_audit(&self, request: Request) -> Response<Body> {
        Audits(self).check(request).await
    }

    /// Returns the rows of one shard, or its answer if it refused.
    async fn rows_of(
        &self,
        shard: u16,
        list: &str,
        parts: &Parts,
    ) -> Result<Vec<Value>, Box<Response<Body>>> {
        let mut rows = Vec::new();
        for page in 1.. {
            let path = format!("{list}?page={page}&limit={ROWS}");
            let mut answer = self.part(shard, &path, parts, (shard, page) == (0, 1)).await?;
            let Value::Array(some) = answer["data"].take() else {
                return Err(self.is_no_part(shard, parts));
            };
            let is_last = some.len() < ROWS;
            rows.extend(some);
            if is_last {
                break;
            }
        }
        Ok(rows)
    }

    /// Returns a shard's answer to a part of a request, or its refusal. Only the first part is
    /// counted.
    pub(super) async fn part(
        &self,
        shard: u16,
        path: &str,
        parts: &Parts,
        is_first: bool,
    ) -> Result<Value, Box<Response<Body>>> {
        let response = self.route(shard, part_request(path, parts, is_first)).await;
        if response.status() != StatusCode::OK {
            return Err(Box::new(response));
        }
        let answer = object_of(response.into_body(), self.answer_within).await;
        answer.ok_or_else(|| self.is_no_part(shard, parts))
    }

    /// Returns the refusal for an invalid answer of a shard, such as a truncated one.
    pub(super) fn is_no_part(&self, shard: u16, parts: &Parts) -> Box<Response<Body>> {
        Box::new(self.shards.answers.refuse(&parts.headers, no_answer(shard)))
    }
}

/// Makes a request for a part of the list, as the client would make it.
fn part_request(path: &str, parts: &Parts, is_first: bool) -> Request {
    let mut request = Request::new(Body::empty());
    if let Ok(uri) = path.parse() {
        *request.uri_mut() = uri;
    }
    for (name, value) in parts.headers.iter().filter(|(name, _)| SHOWN.contains(name)) {
        request.headers_mut().append(name, value.clone());
    }
    if !is_first {
        request.headers_mut().insert(COUNTED, HeaderValue::from_static("1"));
    }
    let client = parts.extensions.get::<Peer>().copied();
    client.map(|client| request.extensions_mut().insert(client));
    request
}

/// Parses a body as a JSON object; `None` if it is not one, is incomplete or comes too late.
async fn object_of(body: Body, within: Duration) -> Option<Value> {
    let read = tokio::time::timeout(within, to_bytes(body, PAGE_BYTES_MAX)).await;
    let bytes = read.ok()?.ok()?;
    serde_json::from_slice(&bytes).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests;
