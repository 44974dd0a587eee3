//! Reports the results of broadcasts, advertisements and codes, by day, as JSON or CSV.

use postrider_actors::domain::Day;
use postrider_actors::{
    AdDay, CampaignCounts, CampaignGrouping, CampaignRow, DayRange, OtpCounts, OtpDays, Permission,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::pipeline::{Answer, ApiError, Call, Key, Page, Principal, Query, Reply, Routes, route};
use super::streamed::{CSV, csv};

/// The number of days of a report if the query gives none.
const DAYS_DEFAULT: u32 = 30;
/// The maximum number of days of a report.
const DAYS_MAX: u32 = 366;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(campaigns).guarded(Key::of(Permission::AnalyticsRead)))
        .routes(route!(ads).guarded(Key::of(Permission::AnalyticsRead)))
        .routes(route!(otp).guarded(Key::of(Permission::AnalyticsRead)))
}

/// What happened to messages of broadcasts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CampaignCounts)]
pub(crate) struct CampaignCountsRow {
    /// The channel was handed them, and did not refuse them; those whose answer got lost are among
    /// them.
    #[schema(example = 1200)]
    sent: u64,
    /// They came onto their recipient's device.
    #[schema(example = 1100)]
    delivered: u64,
    /// Their recipient opened them.
    #[schema(example = 800)]
    read: u64,
    /// They were refused, came too late, or were not delivered.
    #[schema(example = 12)]
    failed: u64,
    /// Recipients that wrote while the broadcast was sent or within three days of its end. Each
    /// counts once, for the last broadcast that they got a message of.
    #[schema(example = 40)]
    replied: u64,
}

/// A broadcast on a day.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CampaignDay)]
pub(crate) struct CampaignAnswer {
    /// The day, in UTC; null when grouped by broadcast.
    #[schema(format = Date, example = "2026-01-31")]
    date: Option<String>,
    /// The broadcast; null when grouped by day.
    #[schema(example = "brd_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    broadcast_id: Option<String>,
    /// Its name; null when grouped by day.
    #[schema(example = "Spring sale")]
    name: Option<Box<str>>,
    /// What happened on that day, whenever the message was sent.
    #[serde(flatten)]
    counts: CampaignCountsRow,
}

/// What became of broadcasts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CampaignsAnswer {
    /// The rows of the page, the newest first.
    data: Vec<CampaignAnswer>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
    /// Of all rows together.
    totals: CampaignCountsRow,
}

/// What an advertisement brought on a day.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AdDay)]
pub(crate) struct AdRow {
    /// The day, in UTC.
    #[schema(format = Date, example = "2026-01-31")]
    date: String,
    /// `ad` or `post`.
    #[schema(example = "ad")]
    source_type: Box<str>,
    /// The channel's id of it.
    #[schema(example = "120208999")]
    source_id: Box<str>,
    /// Its headline, if the channel reported one.
    #[schema(example = "Spring sale")]
    headline: Option<Box<str>>,
    /// Contacts that wrote because of it that day.
    #[schema(example = 12)]
    conversations: u64,
    /// Their messages that came from it.
    #[schema(example = 13)]
    messages: u64,
}

/// What advertisements brought.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct AdsAnswer {
    /// The rows of the page, the newest day first.
    data: Vec<AdRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

impl From<CampaignCounts> for CampaignCountsRow {
    fn from(counts: CampaignCounts) -> Self {
        let CampaignCounts { sent, delivered, read, failed, replied } = counts;
        Self { sent, delivered, read, failed, replied }
    }
}

impl From<CampaignRow> for CampaignAnswer {
    fn from(row: CampaignRow) -> Self {
        let (id, name) = row.broadcast.unzip();
        Self {
            date: row.day.map(|day| day.to_string()),
            broadcast_id: id.map(|id| id.to_string()),
            name,
            counts: row.counts.into(),
        }
    }
}

impl From<AdDay> for AdRow {
    fn from(row: AdDay) -> Self {
        let AdDay { day, source_type, source_id, headline, conversations, messages } = row;
        let date = day.to_string();
        Self { date, source_type, source_id, headline, conversations, messages }
    }
}

#[utoipa::path(
    get,
    path = "/v1/analytics/campaigns",
    operation_id = "readCampaignAnalytics",
    tag = "Analytics",
    summary = "See what became of broadcasts, by day",
    description = "A row for each day and broadcast that something happened to, the newest first. A \
                   message counts on the day on which it was sent, delivered, read, failed or \
                   replied to. One that has arrived counts as sent, so of a broadcast that was \
                   made on these days `delivered` and `replied` are never more than `sent`.",
    params(
        ("from" = Option<String>, Query, format = Date, description = "The first day, in UTC, at \
         most 365 days before `to`; 30 days before it by default"),
        ("to" = Option<String>, Query, format = Date, description = "The last day, in UTC, at \
         most 365 days after `from` and not before it; today by default"),
        ("group_by" = Option<String>, Query, description = "`day` or `broadcast`: a row for each \
         of them alone"),
        ("page" = Option<i64>, Query, minimum = 1, description = "1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most rows of a \
         page, 50 by default"),
    ),
    responses((status = 200, description = "What happened", body = CampaignsAnswer))
)]
async fn campaigns(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let (page, range) = (Page::of(&query)?, days(&call, &query)?);
    let grouping = match query.text("group_by")? {
        None => CampaignGrouping::DayAndBroadcast,
        Some("day") => CampaignGrouping::Day,
        Some("broadcast") => CampaignGrouping::Broadcast,
        Some(_) => return Err(ApiError::field("group_by", "must be day or broadcast")),
    };
    let workspace = call.caller.workspace();
    if call.wants(CSV) {
        let all = workspace.campaign_days(range, grouping, 0, usize::MAX).await?;
        return Ok(campaigns_csv(all.rows));
    }
    let found = workspace.campaign_days(range, grouping, page.skip(), page.limit()).await?;
    Ok(Reply::ok(&CampaignsAnswer {
        data: found.rows.into_iter().map(CampaignAnswer::from).collect(),
        total: found.total,
        page: page.number(),
        totals: found.counts.into(),
    }))
}

#[utoipa::path(
    get,
    path = "/v1/analytics/ads",
    operation_id = "readAdAnalytics",
    tag = "Analytics",
    summary = "See what advertisements brought, by day",
    description = "A row for each day and advertisement that led contacts to write, the newest day \
                   first.",
    params(
        ("from" = Option<String>, Query, format = Date, description = "The first day, in UTC, at \
         most 365 days before `to`; 30 days before it by default"),
        ("to" = Option<String>, Query, format = Date, description = "The last day, in UTC, at \
         most 365 days after `from` and not before it; today by default"),
        ("page" = Option<i64>, Query, minimum = 1, description = "1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most rows of a \
         page, 50 by default"),
    ),
    responses((status = 200, description = "What they brought", body = AdsAnswer))
)]
async fn ads(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let (page, range) = (Page::of(&query)?, days(&call, &query)?);
    if call.wants(CSV) {
        let (all, _) = call.caller.workspace().ad_days(range, 0, usize::MAX).await?;
        return Ok(ads_csv(all));
    }
    let found = call.caller.workspace().ad_days(range, page.skip(), page.limit()).await?;
    let rows = found.0.into_iter().map(AdRow::from).collect();
    Ok(Reply::ok(&page.of_rows(rows, found.1)))
}

/// What happened to one-time passwords.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OtpCounts)]
pub(crate) struct OtpCountsRow {
    /// Requests that were accepted; resends are not counted.
    #[schema(example = 1200)]
    sent: u64,
    /// Messages that came onto a device.
    #[schema(example = 1150)]
    delivered: u64,
    /// Codes that were entered in time.
    #[schema(example = 1080)]
    verified: u64,
    /// Wrong codes that were entered.
    #[schema(example = 60)]
    wrong: u64,
    /// Codes that nobody entered in time.
    #[schema(example = 110)]
    expired: u64,
    /// Requests that came to nothing: five wrong codes, or a message that failed.
    #[schema(example = 10)]
    failed: u64,
    /// Requests that a limit, the balance, the destinations or the pumping guard refused. A crash
    /// may lose those of the last seconds.
    #[schema(example = 4)]
    refused: u64,
}

impl From<OtpCounts> for OtpCountsRow {
    fn from(counts: OtpCounts) -> Self {
        let OtpCounts { sent, delivered, verified, wrong, expired, failed, refused } = counts;
        Self { sent, delivered, verified, wrong, expired, failed, refused }
    }
}

/// What happened on a day, or to a country.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OtpCountsOf)]
pub(crate) struct OtpCountsOfRow {
    /// The day, in UTC, when grouped by day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Date, example = "2026-01-31")]
    day: Option<String>,
    /// The country calling code, without `+`, when grouped by country.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "1")]
    country: Option<String>,
    /// What happened.
    #[serde(flatten)]
    counts: OtpCountsRow,
}

/// What happened to one-time passwords.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OtpAnalyticsAnswer {
    /// By day, the oldest first, or by calling code; those to which something happened.
    data: Vec<OtpCountsOfRow>,
    /// Of all rows together.
    totals: OtpCountsRow,
}

#[utoipa::path(
    get,
    path = "/v1/analytics/otp",
    operation_id = "readOtpAnalytics",
    tag = "Analytics",
    summary = "See what happened to one-time passwords, by day or country",
    description = "Each thing counts on the day on which it happened, as the event log has it. \
                   Counts are kept for 400 days.",
    params(
        ("from" = Option<String>, Query, format = Date, description = "The first day, in UTC, at \
         most 365 days before `to`; 30 days before it by default"),
        ("to" = Option<String>, Query, format = Date, description = "The last day, in UTC, at \
         most 365 days after `from` and not before it; today by default"),
        ("group_by" = Option<String>, Query, description = "`day`, the default, or \
         `country`"),
    ),
    responses((status = 200, description = "What happened", body = OtpAnalyticsAnswer))
)]
async fn otp(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let DayRange { from, to } = days(&call, &query)?;
    let by_country = match query.text("group_by")? {
        None | Some("day") => false,
        Some("country") => true,
        Some(_) => return Err(ApiError::field("group_by", "must be day or country")),
    };
    let found = call.caller.workspace().otp_days(from, to).await?;
    if call.wants(CSV) {
        return Ok(otp_csv(found, by_country));
    }
    let data = if by_country {
        let row = |(code, counts): (u16, OtpCounts)| OtpCountsOfRow {
            day: None,
            country: Some(code.to_string()),
            counts: counts.into(),
        };
        found.countries.into_iter().map(row).collect()
    } else {
        let row = |(day, counts): (Day, OtpCounts)| OtpCountsOfRow {
            day: Some(day.to_string()),
            country: None,
            counts: counts.into(),
        };
        found.days.into_iter().map(row).collect()
    };
    Ok(Reply::ok(&OtpAnalyticsAnswer { data, totals: found.totals.into() }))
}

/// Parses the range of days from `from` and `to`.
pub(crate) fn days<C>(call: &Call<C>, query: &Query) -> Result<DayRange, ApiError> {
    let day = |name: &str| -> Result<Option<Day>, ApiError> {
        let text = query.text(name)?;
        text.map(|text| text.parse().map_err(|error| ApiError::field(name, error))).transpose()
    };
    let to = day("to")?.unwrap_or_else(|| Day::of(call.edge.engine.clock().now()));
    let from = day("from")?.unwrap_or_else(|| to.minus(DAYS_DEFAULT));
    if from > to || from < to.minus(DAYS_MAX - 1) {
        let rule =
            format_args!("must be at most {} days before `to`, and not after it", DAYS_MAX - 1);
        return Err(ApiError::field("from", rule));
    }
    Ok(DayRange { from, to })
}

fn csv_head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn day_cell(day: Option<Day>) -> String {
    day.map(|day| day.to_string()).unwrap_or_default()
}

fn campaigns_csv(rows: Vec<CampaignRow>) -> Reply {
    let names = ["date", "broadcast_id", "name", "sent", "delivered", "read", "failed", "replied"];
    let lines = rows.into_iter().map(|row| {
        let CampaignCounts { sent, delivered, read, failed, replied } = row.counts;
        let (id, name) = row.broadcast.unzip();
        let mut cells = vec![
            day_cell(row.day),
            id.map(|id| id.to_string()).unwrap_or_default(),
            name.map(String::from).unwrap_or_default(),
        ];
        cells.extend([sent, delivered, read, failed, replied].map(|count| count.to_string()));
        cells
    });
    csv([csv_head(&names)].into_iter().chain(lines))
}

fn ads_csv(rows: Vec<AdDay>) -> Reply {
    let names = ["date", "source_type", "source_id", "headline", "conversations", "messages"];
    let lines = rows.into_iter().map(|row| {
        vec![
            row.day.to_string(),
            row.source_type.into_string(),
            row.source_id.into_string(),
            row.headline.map(String::from).unwrap_or_default(),
            row.conversations.to_string(),
            row.messages.to_string(),
        ]
    });
    csv([csv_head(&names)].into_iter().chain(lines))
}

fn otp_csv(found: OtpDays, by_country: bool) -> Reply {
    let first = if by_country { "country" } else { "day" };
    let names = [first, "sent", "delivered", "verified", "wrong", "expired", "failed", "refused"];
    let cells = |first: String, counts: OtpCounts| {
        let OtpCounts { sent, delivered, verified, wrong, expired, failed, refused } = counts;
        let counts = [sent, delivered, verified, wrong, expired, failed, refused];
        let mut cells = vec![first];
        cells.extend(counts.map(|count| count.to_string()));
        cells
    };
    let lines: Vec<_> = match by_country {
        true => found.countries.into_iter().map(|(code, it)| cells(code.to_string(), it)).collect(),
        false => found.days.into_iter().map(|(day, it)| cells(day.to_string(), it)).collect(),
    };
    csv([csv_head(&names)].into_iter().chain(lines))
}
