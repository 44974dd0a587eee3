//! Reports what happened in conversations, by day.

use postrider_actors::domain::Day;
use postrider_actors::{DayRange, InboxCounts, InboxDays, Permission};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::analytics::days as range_of;
use crate::http::pipeline::{Answer, Call, Key, Principal, Reply, Routes, route};
use crate::http::streamed::{CSV, csv};

pub(super) fn routes() -> Routes {
    Routes::default().routes(route!(days).guarded(Key::of(Permission::InboxRead)))
}

/// What happened in conversations.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConversationDayCounts)]
pub(crate) struct CountsRow {
    /// Messages that contacts wrote.
    #[schema(example = 140)]
    received: u64,
    /// Messages to contacts with a conversation: replies, and what else was sent to them; not those
    /// of broadcasts.
    #[schema(example = 120)]
    sent: u64,
    /// Conversations that a contact opened, for the first time or again.
    #[schema(example = 60)]
    opened: u64,
    /// Conversations that were resolved.
    #[schema(example = 55)]
    resolved: u64,
}

/// What happened on a day.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConversationDay)]
pub(crate) struct DayRow {
    /// The day, in UTC.
    #[schema(format = Date, example = "2026-01-31")]
    day: String,
    /// What happened.
    #[serde(flatten)]
    counts: CountsRow,
}

/// What happened in conversations, by day.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConversationDaysAnswer)]
pub(crate) struct DaysAnswer {
    /// The oldest day first; those on which something happened.
    data: Vec<DayRow>,
    /// Of all rows together.
    totals: CountsRow,
}

impl From<InboxCounts> for CountsRow {
    fn from(counts: InboxCounts) -> Self {
        let InboxCounts { received, sent, opened, resolved } = counts;
        Self { received, sent, opened, resolved }
    }
}

#[utoipa::path(
    get,
    path = "/v1/conversations/days",
    operation_id = "readConversationDays",
    tag = "Conversations",
    summary = "See what happened in conversations, by day",
    description = "Counts are kept for 400 days.",
    params(
        ("from" = Option<String>, Query, format = Date, description = "The first day, in UTC, at \
         most 365 days before `to`; 30 days before it by default"),
        ("to" = Option<String>, Query, format = Date, description = "The last day, in UTC, at \
         most 365 days after `from` and not before it; today by default"),
    ),
    responses((status = 200, description = "What happened", body = DaysAnswer))
)]
async fn days(call: Call<Principal>) -> Answer {
    let DayRange { from, to } = range_of(&call, &call.query()?)?;
    let found = call.caller.workspace().inbox_days(from, to).await?;
    if call.wants(CSV) {
        return Ok(as_csv(found));
    }
    let row =
        |(day, counts): (Day, InboxCounts)| DayRow { day: day.to_string(), counts: counts.into() };
    let data = found.days.into_iter().map(row).collect();
    Ok(Reply::ok(&DaysAnswer { data, totals: found.totals.into() }))
}

fn as_csv(found: InboxDays) -> Reply {
    let head = ["day", "received", "sent", "opened", "resolved"].map(str::to_owned).to_vec();
    let lines = found.days.into_iter().map(|(day, counts)| {
        let InboxCounts { received, sent, opened, resolved } = counts;
        let counts = [received, sent, opened, resolved].map(|count| count.to_string());
        [vec![day.to_string()], counts.to_vec()].concat()
    });
    csv([head].into_iter().chain(lines))
}
