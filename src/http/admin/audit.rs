//! Lists and verifies the audit log.

use postrider_actors::domain::{AuditActor, WorkspaceId};
use postrider_actors::store::Direction;
use postrider_actors::{AuditFault, AuditFilter, AuditRow, DamagedRow};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::events::{after_cursor, encode_cursor};
use crate::http::pipeline::{
    Administrator, Answer, ApiError, Call, LIMIT_DEFAULT, LIMIT_MAX, Query, Reply, Routes, route,
};

/// The maximum length of a filter's text, in characters.
const FILTER_CHARS_MAX: usize = 200;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Administrator))
        .routes(route!(check).guarded(Administrator))
}

/// Who made a change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditActor)]
pub(crate) struct ActorAnswer {
    /// `admin_token`, `key`, `user`, `system` (the server itself) or `anonymous`.
    #[schema(example = "admin_token")]
    kind: &'static str,
    /// Its id, such as that of an API key.
    id: Option<Box<str>>,
    /// Its name.
    name: Option<Box<str>>,
}

impl From<AuditActor> for ActorAnswer {
    fn from(AuditActor { kind, id, name }: AuditActor) -> Self {
        Self { kind: kind.as_str(), id, name }
    }
}

/// A record of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditRecordRow {
    /// Its id; null only if it is damaged and its id cannot be read.
    #[schema(example = "aud_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: Option<String>,
    /// Its place in the log, or in a cluster in that of its shard; grows by one with each record.
    #[schema(example = 1)]
    sequence: u64,
    /// The shard of a cluster in whose log it is; left out on a single server.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<u16>,
    /// When; null only if it is damaged and its moment cannot be read. It does not go back along
    /// the log, unless the clock was rebased.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    at: Option<String>,
    /// Who made the change; null only if it is damaged.
    actor: Option<ActorAnswer>,
    /// What was done, such as `key.create`, `webhook.delete` or `authentication.fail`; `damaged` if
    /// it cannot be read.
    #[schema(example = "key.create")]
    action: Box<str>,
    /// What it was done to.
    #[schema(example = "key_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    target: Option<Box<str>>,
    /// The workspace that it belongs to.
    #[schema(example = "acme")]
    workspace: Option<String>,
    /// The client's address.
    #[schema(example = "192.0.2.7")]
    address: Option<Box<str>>,
    /// The request, as in `X-Request-Id` and the server's log.
    #[schema(example = "req_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: Option<Box<str>>,
    /// The new values by name. Of a value that was set anew, an object with the old one as `from`
    /// and the new one as `to`. Of a secret it is only reported that it was `changed`.
    #[schema(value_type = Object, example = json!({"credits": {"from": 10, "to": 25}}))]
    changes: serde_json::Map<String, serde_json::Value>,
    /// The SHA-256 of the record before, in hexadecimal digits; null only if it is damaged.
    previous_sha256: Option<String>,
    /// The SHA-256 of this record, in hexadecimal digits; null only if it is damaged.
    sha256: Option<String>,
    /// What is wrong with the record, if it cannot be read. Such a record is shown whatever is
    /// asked for, since it may be one of those.
    damage: Option<&'static str>,
}

impl From<AuditRow> for AuditRecordRow {
    fn from(row: AuditRow) -> Self {
        let AuditRow { mark, previous, record } = row;
        Self {
            id: Some(record.id.to_string()),
            sequence: mark.sequence,
            shard: None,
            at: Some(mark.at.to_string()),
            actor: Some(record.actor.into()),
            action: record.action,
            target: record.target,
            workspace: record.workspace.map(|workspace| workspace.to_string()),
            address: record.address,
            request_id: record.request_id,
            changes: record.changes,
            previous_sha256: Some(hex(&previous)),
            sha256: Some(hex(&mark.hash)),
            damage: None,
        }
    }
}

impl From<DamagedRow> for AuditRecordRow {
    fn from(row: DamagedRow) -> Self {
        Self {
            id: row.id.map(|id| id.to_string()),
            sequence: row.sequence,
            shard: None,
            at: row.at.map(|at| at.to_string()),
            actor: None,
            action: "damaged".into(),
            target: None,
            workspace: None,
            address: None,
            request_id: None,
            changes: serde_json::Map::new(),
            previous_sha256: None,
            sha256: None,
            damage: Some(row.why),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A part of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditAnswer {
    /// In the order of the query. It may be empty while `next_cursor` goes on.
    data: Vec<AuditRecordRow>,
    /// Give it as `cursor`, with the same `order`, to go on after this part. With `oldest` it is
    /// always there, and the same again while there is nothing new. With `newest` it is null at the
    /// oldest record.
    #[schema(example = "AQAAAAAAAAAB")]
    next_cursor: Option<String>,
    /// Give it as `cursor` with the order `oldest` for what is recorded after this answer.
    #[schema(example = "AQAAAAAAAAAB")]
    latest_cursor: String,
}

#[utoipa::path(
    get,
    path = "/admin/v1/audit",
    operation_id = "listAudit",
    tag = "Administration",
    summary = "Read the audit log",
    description = "A record for each change by this administration, each change of webhooks and \
                   move of the sandbox's clock by an API key, each start and stop of the server, \
                   and each export (`contacts.export`, `archive.read`; of what programs read again \
                   and again, such as the log for a backup, the first one of an hour). Failed \
                   authentications of an address, and uses of a key from an address that it does \
                   not allow, have a record for the first one of a minute, and a count of the \
                   others when the minute is over. Of each of these at most 60 addresses have records of \
                   their own at a time; those of the others are counted together.",
    params(
        ("workspace" = Option<String>, Query, description = "Only records of this workspace"),
        ("actor" = Option<String>, Query, description = "Only records of the actor of this kind, \
         id or name"),
        ("action" = Option<String>, Query, description = "Only this action, such as `key.create`, \
         or all that begin so, such as `key`"),
        ("since" = Option<String>, Query, description = "Only records of this moment or later"),
        ("until" = Option<String>, Query, description = "Only records before this moment"),
        ("order" = Option<String>, Query, description = "`oldest` (by default) or `newest` first"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most records, \
         50 by default"),
    ),
    responses((status = 200, description = "A part of the log", body = AuditAnswer))
)]
async fn list(call: Call<()>) -> Answer {
    let query = call.query()?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let direction = match query.text("order")? {
        None | Some("oldest") => Direction::Forward,
        Some("newest") => Direction::Backward,
        Some(_) => return Err(ApiError::field("order", "must be `oldest` or `newest`")),
    };
    let workspace = query.text("workspace")?.map(str::parse::<WorkspaceId>).transpose();
    let filter = AuditFilter {
        workspace: workspace.map_err(|error| ApiError::field("workspace", error))?,
        actor: text(&query, "actor")?,
        action: text(&query, "action")?,
        since: query.moment("since")?,
        until: query.moment("until")?,
    };
    let audit = call.edge.engine.audit();
    // The newest record is read before the page. A record that is added in between is therefore
    // seen twice rather than never.
    let latest = audit.newest().await?;
    let cursor = after_cursor(&query)?;
    check_cursor(cursor, latest)?;
    let page = audit.page(filter, direction, cursor, limit).await?;
    let damaged = page.damaged.into_iter().map(AuditRecordRow::from);
    let mut data: Vec<_> = page.rows.into_iter().map(AuditRecordRow::from).chain(damaged).collect();
    data.sort_unstable_by_key(|row| row.sequence);
    if direction == Direction::Backward {
        data.reverse();
    }
    Ok(Reply::ok(&AuditAnswer {
        data,
        next_cursor: page.next.map(encode_cursor),
        latest_cursor: encode_cursor(latest),
    }))
}

fn check_cursor(cursor: Option<u64>, latest: u64) -> Result<(), ApiError> {
    match cursor {
        Some(cursor) if cursor > latest => {
            Err(ApiError::field("cursor", "is ahead of the audit log"))
        }
        _ => Ok(()),
    }
}

fn text(query: &Query, name: &str) -> Result<Option<String>, ApiError> {
    let Some(text) = query.text(name)? else { return Ok(None) };
    if !(1..=FILTER_CHARS_MAX).contains(&text.chars().count()) {
        let rule = format_args!("must have 1 to {FILTER_CHARS_MAX} characters");
        return Err(ApiError::field(name, rule));
    }
    Ok(Some(text.to_owned()))
}

/// The first record that does not fit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditFault)]
pub(crate) struct FaultAnswer {
    /// Its place in the log.
    #[schema(example = 7)]
    sequence: u64,
    /// Its id, if it can be read.
    #[schema(example = "aud_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: Option<String>,
    /// `altered`, `missing`, or `unexpected`: it is beyond the end of the log.
    #[schema(example = "altered")]
    problem: &'static str,
}

impl From<AuditFault> for FaultAnswer {
    fn from(fault: AuditFault) -> Self {
        let AuditFault { sequence, id, kind } = fault;
        Self { sequence, id: id.map(|id| id.to_string()), problem: kind.as_str() }
    }
}

/// What a verification of a part of the audit log found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditCheckAnswer {
    /// Records of this part that fit.
    #[schema(example = 120)]
    checked: u64,
    /// The first record that does not fit; null if all do.
    fault: Option<FaultAnswer>,
    /// Give it as `cursor` to verify the next part; null if there is none.
    #[schema(example = "AQAAAAAAAAAB")]
    next_cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/admin/v1/audit/check",
    operation_id = "checkAudit",
    tag = "Administration",
    summary = "Verify the audit log",
    description = "Whether each record has the SHA-256 of the one before. What retention has \
                   removed is not missed.",
    params(
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before; left \
         out: from the oldest record"),
    ),
    responses((status = 200, description = "What was found", body = AuditCheckAnswer))
)]
async fn check(call: Call<()>) -> Answer {
    let audit = call.edge.engine.audit();
    let after = after_cursor(&call.query()?)?;
    check_cursor(after, audit.newest().await?)?;
    let check = audit.verify(after).await?;
    Ok(Reply::ok(&AuditCheckAnswer {
        checked: check.checked,
        fault: check.fault.map(FaultAnswer::from),
        next_cursor: check.next.map(encode_cursor),
    }))
}
