//! Lists and reads broadcasts and their recipients, as JSON or CSV.

use std::collections::BTreeMap;

use postrider_actors::domain::{BroadcastId, Timestamp};
use postrider_actors::{
    Broadcast, BroadcastCounts, BroadcastError, BroadcastPolicy, Permission, RecipientError,
    RecipientRow, RecipientStatus, Unavailable, UnavailableReason, Workspace,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::broadcast_id;
use crate::http::audited_reads::ReadingKind;
use crate::http::contacts::{NamedContact, named_contacts};
use crate::http::pipeline::{Answer, ApiError, Call, Key, Page, Principal, Reply, Routes, route};
use crate::http::streamed::{AnswerParts, CSV, CSV_UTF8, csv_lines, stream};

/// The number of recipients that are read at a time.
const PART_RECIPIENTS: usize = 5_000;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Key::of(Permission::BroadcastsRead)))
        .routes(route!(read).guarded(Key::of(Permission::BroadcastsRead)))
        .routes(route!(recipients).guarded(Key::of(Permission::BroadcastsRead)))
}

/// A broadcast.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Broadcast)]
pub(crate) struct BroadcastRow {
    /// Its id.
    #[schema(example = "brd_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    broadcast_id: String,
    /// Its name, for people.
    name: Box<str>,
    /// The template's name.
    template_name: Box<str>,
    /// The template's language.
    language: Box<str>,
    /// The template's category when the broadcast was made: `utility` or `marketing`. A category
    /// that the channel changes later changes neither it nor the price.
    #[schema(example = "marketing")]
    category: &'static str,
    /// Credits for each recipient, reserved when it was made.
    #[schema(example = 1)]
    price: u64,
    /// `at_most_once` or `at_least_once`.
    policy: &'static str,
    /// `scheduled`, `queued`, `sending`, `paused`, `completed`, `cancelled` or `failed`.
    #[schema(example = "sending")]
    status: &'static str,
    /// Its recipients, each counted once.
    total_recipients: u32,
    /// What became of them: each is in one, and they add up to `total_recipients`.
    counts: BroadcastCountsRow,
    /// Outcomes a second since it began; null before.
    rate_per_second: Option<f64>,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it is or was to begin; null for one that began at once.
    #[schema(format = DateTime)]
    schedule_at: Option<String>,
    /// When it began.
    #[schema(format = DateTime)]
    started_at: Option<String>,
    /// When it goes on, while its `reason` is `portfolio_limit`.
    #[schema(format = DateTime)]
    resumes_at: Option<String>,
    /// When it was over.
    #[schema(format = DateTime)]
    finished_at: Option<String>,
    /// Why it was paused or ended; null if somebody asked for it, and while all is well.
    /// `portfolio_limit` while it is being sent and waits for its numbers' daily budget.
    reason: Option<Box<str>>,
    /// The broadcast whose failed recipients it sends to again; null for others.
    retry_of: Option<String>,
    /// The broadcast that sends to its failed recipients again; null while none does. There is one
    /// at the most.
    retried_by: Option<String>,
    /// What its sender calls it; null where that is nothing.
    #[schema(example = "order-1017")]
    reference: Option<String>,
    /// What its sender keeps with it.
    #[schema(value_type = Object, example = json!({"shop": "north"}))]
    metadata: BTreeMap<String, String>,
}

/// Recipients by what became of them.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BroadcastCounts)]
pub(crate) struct BroadcastCountsRow {
    /// Not sent yet, or not answered for yet.
    pending: u32,
    /// The channel took it and holds it back: it may send it later, or drop it.
    held: u32,
    /// The channel took it.
    sent: u32,
    /// It is on the recipient's device.
    delivered: u32,
    /// The recipient has opened it.
    read: u32,
    /// It was not sent, and never will be.
    failed: u32,
    /// It was handed over and no answer came.
    unknown: u32,
    /// The recipient has opted out.
    suppressed: u32,
    /// The broadcast ended before it was sent.
    cancelled: u32,
}

/// A recipient of a broadcast.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BroadcastRecipient)]
pub(crate) struct RecipientAnswer {
    /// Who.
    #[schema(example = "+15550123456")]
    to: String,
    /// The contact of that phone; null without one, and for a caller without `contacts:read`.
    contact: Option<NamedContact>,
    /// The message to it; null for one that has opted out.
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    message_id: Option<String>,
    /// `pending`, `held`, `sent`, `delivered`, `read`, `failed`, `unknown`, `suppressed` or
    /// `cancelled`.
    #[schema(example = "sent")]
    status: &'static str,
    /// Why it failed; null if it did not.
    error: Option<RecipientErrorAnswer>,
}

/// Why a message to a recipient failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BroadcastRecipientError)]
pub(crate) struct RecipientErrorAnswer {
    /// `channel_refused` or `not_sent_in_time`.
    #[schema(example = "channel_refused")]
    reason: &'static str,
    /// The channel's error code, where it gave one.
    #[schema(example = 131_026)]
    code: Option<u32>,
    /// The channel's explanation; empty where it gave none.
    details: Box<str>,
}

/// A page of broadcasts.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct BroadcastsAnswer {
    /// The rows of the page, newest first.
    data: Vec<BroadcastRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

/// A page of recipients.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct RecipientsAnswer {
    /// The rows of the page.
    data: Vec<RecipientAnswer>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

impl From<BroadcastCounts> for BroadcastCountsRow {
    fn from(counts: BroadcastCounts) -> Self {
        let BroadcastCounts {
            pending,
            held,
            sent,
            delivered,
            read,
            failed,
            unknown,
            suppressed,
            cancelled,
        } = counts;
        Self { pending, held, sent, delivered, read, failed, unknown, suppressed, cancelled }
    }
}

impl From<Broadcast> for BroadcastRow {
    fn from(found: Broadcast) -> Self {
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Self {
            broadcast_id: found.id.to_string(),
            name: found.name,
            template_name: found.template.name,
            language: found.template.language,
            category: found.category.as_str(),
            price: found.price,
            policy: match found.policy {
                BroadcastPolicy::AtMostOnce => "at_most_once",
                BroadcastPolicy::AtLeastOnce => "at_least_once",
            },
            status: found.status.as_str(),
            total_recipients: found.total_recipients,
            counts: found.counts.into(),
            rate_per_second: found.rate_per_second,
            created_at: found.created_at.to_string(),
            schedule_at: time(found.schedule_at),
            started_at: time(found.started_at),
            resumes_at: time(found.resumes_at),
            finished_at: time(found.finished_at),
            reason: found.reason,
            retry_of: found.retry_of.map(|id| id.to_string()),
            retried_by: found.retried_by.map(|id| id.to_string()),
            reference: found.notes.reference,
            metadata: found.notes.metadata,
        }
    }
}

impl RecipientAnswer {
    fn of(row: RecipientRow, contact: Option<NamedContact>) -> Self {
        let error = |RecipientError { reason, code, details }| RecipientErrorAnswer {
            reason,
            code,
            details,
        };
        Self {
            to: row.to.to_string(),
            contact,
            message_id: row.message_id.map(|id| id.to_string()),
            status: row.status.as_str(),
            error: row.error.map(error),
        }
    }
}

/// Answers with the current state of a broadcast.
pub(super) async fn current(call: &Call<Principal>, id: BroadcastId) -> Answer {
    let found = call.caller.workspace().broadcast(id).await?;
    Ok(Reply::ok(&BroadcastRow::from(found)))
}

#[utoipa::path(
    get,
    path = "/v1/messaging/broadcasts",
    operation_id = "listBroadcasts",
    tag = "Messaging",
    summary = "List the broadcasts",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page, newest first", body = BroadcastsAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let (rows, total) = call.caller.workspace().broadcasts(page.skip(), page.limit()).await?;
    let rows = rows.into_iter().map(BroadcastRow::from).collect();
    Ok(Reply::ok(&page.of_rows(rows, total)))
}

#[utoipa::path(
    get,
    path = "/v1/messaging/broadcasts/{broadcast_id}",
    operation_id = "readBroadcast",
    tag = "Messaging",
    summary = "Where a broadcast stands",
    params(("broadcast_id" = String, Path, description = "The broadcast's id")),
    responses((status = 200, description = "The broadcast", body = BroadcastRow))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    let id = broadcast_id(&mut call).await?;
    current(&call, id).await
}

#[utoipa::path(
    get,
    path = "/v1/messaging/broadcasts/{broadcast_id}/recipients",
    operation_id = "listBroadcastRecipients",
    tag = "Messaging",
    summary = "What became of a broadcast's recipients",
    description = "The list of a broadcast that was cancelled before anything of it was sent is empty: \
                   its counts are kept, and its recipients are deleted.",
    params(
        ("broadcast_id" = String, Path, description = "The broadcast's id"),
        ("status" = Option<String>, Query, description = "Only those: `pending`, `held`, \
         `sent`, `delivered`, `read`, `failed`, `unknown`, `suppressed` or `cancelled`"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of recipients", body = RecipientsAnswer))
)]
async fn recipients(mut call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let page = Page::of(&query)?;
    let status = match query.text("status")? {
        None => None,
        Some(text) => {
            let known = RecipientStatus::ALL.iter().find(|known| known.as_str() == text);
            Some(*known.ok_or_else(|| {
                let words: Vec<_> = RecipientStatus::ALL.iter().map(|one| one.as_str()).collect();
                ApiError::field("status", format_args!("must be one of {}", words.join(", ")))
            })?)
        }
    };
    let id = broadcast_id(&mut call).await?;
    let workspace = call.caller.workspace();
    if call.wants(CSV) {
        workspace.broadcast(id).await?;
        call.reads_all(ReadingKind::Recipients).await?;
        let lines = RecipientLines { broadcast: id, status, read: None };
        return Ok(stream(&call, CSV_UTF8, lines));
    }
    let found = workspace.broadcast_recipients(id, status, page.skip(), page.limit()).await?;
    let people = found.rows.iter().map(|row| Some(row.to.into())).collect();
    let rows = found.rows.into_iter().zip(named_contacts(&call, people).await?);
    let rows = rows.map(|(row, contact)| RecipientAnswer::of(row, contact)).collect();
    Ok(Reply::ok(&page.of_rows(rows, found.total)))
}

const CSV_HEAD: [&str; 6] =
    ["to", "message_id", "status", "error_reason", "error_code", "error_details"];

/// The position in the file at which the next part starts.
pub(super) struct RecipientLines {
    pub(super) broadcast: BroadcastId,
    /// The status of the rows, or `None` for all of them. `read` counts recipients of any status,
    /// because statuses change in the meantime.
    pub(super) status: Option<RecipientStatus>,
    /// The number of recipients that were read; `None` if not even the head was written.
    pub(super) read: Option<usize>,
}

impl AnswerParts for RecipientLines {
    async fn next(&mut self, workspace: &Workspace) -> Result<Option<Vec<u8>>, Unavailable> {
        let Some(read) = self.read else {
            self.read = Some(0);
            return Ok(Some(csv_lines([CSV_HEAD.map(str::to_owned).to_vec()])));
        };
        let found = workspace.broadcast_recipients(self.broadcast, None, read, PART_RECIPIENTS);
        let found = found.await.map_err(|error| match error {
            BroadcastError::Unavailable(why) => why,
            // The broadcast was deleted in the meantime.
            _ => Unavailable::because(UnavailableReason::Storage),
        })?;
        if found.rows.is_empty() {
            return Ok(None);
        }
        self.read = Some(read + found.rows.len());
        let wanted = found.rows.into_iter();
        let wanted = wanted.filter(|row| self.status.is_none_or(|status| row.status == status));
        Ok(Some(csv_lines(wanted.map(recipient_cells))))
    }
}

fn recipient_cells(row: RecipientRow) -> Vec<String> {
    let (reason, code, details) = match row.error {
        Some(error) => (error.reason, error.code, error.details.into_string()),
        None => ("", None, String::new()),
    };
    vec![
        row.to.to_string(),
        row.message_id.map(|id| id.to_string()).unwrap_or_default(),
        row.status.as_str().to_owned(),
        reason.to_owned(),
        code.map(|code| code.to_string()).unwrap_or_default(),
        details,
    ]
}
