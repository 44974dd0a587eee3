//! Lists one-time passwords, and shows the state of one.

use std::collections::BTreeMap;

use postrider_actors::domain::destination::calling_code;
use postrider_actors::domain::event::chain::OtpChannel;
use postrider_actors::domain::event::decision::OtpDecision;
use postrider_actors::domain::{PartyId, RequestId, Timestamp};
use postrider_actors::{
    Delivery, OtpFilter, OtpState, OtpStatus, Permission, Unavailable, Workspace,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::chain::TryRow;
use crate::http::audited_reads::ReadingKind;
use crate::http::contacts::{NamedContact, contacts_named, named_contacts, reads_contacts};
use crate::http::pipeline::{
    Answer, ApiError, Call, Key, LIMIT_DEFAULT, LIMIT_MAX, Principal, Reply, Routes,
    encode_id_cursor, id_cursor_of, route,
};
use crate::http::streamed::{CSV, CSV_UTF8, FilePart, ListFile, ListedRows, PART_ROWS, stream};

/// First byte of a cursor, which defines the format of the rest: a request.
const CURSOR_VERSION: u8 = 1;

pub(super) fn routes() -> Routes {
    Routes::default().routes(route!(list).guarded(Key::of(Permission::OtpRead))).routes(
        route!(list)
            .at("/v1/messaging/otp", "listOtpsByMessagingPath")
            .guarded(Key::of(Permission::OtpRead)),
    )
}

/// A request for a one-time password, without its code.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Otp)]
pub(crate) struct OtpAnswer {
    /// The request.
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: String,
    /// Where the code went, or who sent it; null of a code that anybody may send until somebody
    /// has, and of a person whose phone the channel hides.
    #[schema(example = "+15550123456")]
    phone: Option<String>,
    /// The contact of that phone; null without one, and for a caller without `contacts:read`.
    contact: Option<NamedContact>,
    /// `active`, `verified`, `expired`, `invalidated` (five wrong codes) or `cancelled`.
    #[schema(value_type = String, example = "active")]
    status: OtpStatus,
    /// What became of the message, after a resend of the newest: `queued`, `sent`, `delivered`,
    /// `read`, `failed` or `unknown`. From an hour after the end on: what had by that end.
    #[schema(value_type = String, example = "sent")]
    delivery_status: Delivery,
    /// Wrong codes that are still allowed.
    #[schema(minimum = 0, maximum = 5)]
    attempts_remaining: u8,
    /// How often the code was sent.
    #[schema(minimum = 1, example = 1)]
    sends: u8,
    /// The country calling code of the phone, without `+`.
    #[schema(example = "1")]
    country: Option<String>,
    /// When the request was made.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    created_at: String,
    /// When the code stops, or stopped, being valid.
    #[schema(format = DateTime, example = "2026-01-31T09:30:00.000Z")]
    expires_at: String,
    /// When the right code was entered.
    #[schema(format = DateTime, example = "2026-01-31T09:26:00.000Z")]
    verified_at: Option<String>,
    /// When it ended: by the right code, the fifth wrong one, its cancelling or the end of its
    /// time; null while it can be entered.
    #[schema(format = DateTime, example = "2026-01-31T09:26:00.000Z")]
    ended_at: Option<String>,
    /// The channel that delivered it, or that of the step that began last.
    #[schema(example = "messaging")]
    channel: &'static str,
    /// `outbound`, or `inbound`: its person sends the code.
    #[schema(example = "outbound")]
    mode: &'static str,
    /// Who sent the code, once it is verified by that.
    contact_id: Option<String>,
    /// The number that its messages leave through; of one that ended an hour ago only where there
    /// was a choice.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    number_id: Option<String>,
    /// The language that is used over that channel; from an hour after the end on only where one
    /// was asked for.
    #[schema(example = "en")]
    language: Option<String>,
    /// What became of each try to bring the code. Where it goes over the chat-app channel alone,
    /// they are its sends: `started_at` is that of the request, and events have error codes.
    tries: Vec<TryRow>,
    /// What was decided of its newest send where the destination was limited: `allowed`, `probe`
    /// or `would_refuse`; null where it was not.
    #[schema(example = "probe")]
    decision: Option<&'static str>,
    /// What its caller calls it.
    #[schema(example = "order-1017")]
    reference: Option<String>,
    /// What its caller keeps with it.
    #[schema(value_type = Object, example = json!({"flow": "sign-in"}))]
    metadata: BTreeMap<String, String>,
}

impl OtpAnswer {
    pub(super) fn of(row: OtpState, contact: Option<NamedContact>) -> Self {
        Self {
            request_id: row.request_id.to_string(),
            phone: row.phone.map(|phone| phone.to_string()),
            contact,
            status: row.status,
            delivery_status: row.delivery,
            attempts_remaining: row.attempts_remaining,
            sends: row.sends,
            country: row.phone.map(|phone| calling_code(phone).to_string()),
            created_at: row.request_id.timestamp().to_string(),
            expires_at: row.expires_at.to_string(),
            verified_at: row.verified_at.map(|at| at.to_string()),
            ended_at: row.ended_at.map(|at| at.to_string()),
            channel: row.channel.as_str(),
            mode: if row.is_inbound { "inbound" } else { "outbound" },
            contact_id: row.notes.contact_id.map(|id| id.to_string()),
            number_id: row.number.map(|id| id.to_string()),
            language: row.language,
            tries: row.tries.into_iter().map(TryRow::from).collect(),
            decision: row.notes.decision().map(OtpDecision::as_str),
            reference: row.notes.reference,
            metadata: row.notes.metadata,
        }
    }
}

/// A part of the one-time passwords.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OtpsAnswer {
    /// Newest first. It may be short of rows, or empty, while `next_cursor` goes on.
    data: Vec<OtpAnswer>,
    /// Give it as `cursor`, with the same filters, to go on after this part; null at the oldest.
    #[schema(example = "AgGQ8fgbOAECAwQFBgcICQo")]
    next_cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/otp",
    operation_id = "listOtps",
    tag = "OTP",
    summary = "List one-time passwords",
    description = "Never with their codes. Filters combine. Those that have ended are found by \
                   an index where `phone` or `reference` is given; of what else is asked for, a \
                   part looks at 10,000 codes at most. Ended ones are kept for as long as `[otp] \
                   kept_days` says, 30 days by default.",
    params(
        ("phone" = Option<String>, Query, description = "Only those to this phone, in E.164, \
         or that it has sent"),
        ("status" = Option<String>, Query, description = "Only `active`, `verified`, `expired`, \
         `invalidated` or `cancelled` ones"),
        ("reference" = Option<String>, Query, description = "Only those that their sender calls so"),
        ("channel" = Option<String>, Query, description = "Only those that `messaging`, `sms` or \
         `email` delivered, or was the last to try"),
        ("since" = Option<String>, Query, format = DateTime, description = "Only those that were \
         made at this moment or later"),
        ("until" = Option<String>, Query, format = DateTime, description = "Only those that were \
         made before this moment"),
        ("from" = Option<String>, Query, format = DateTime, description = "The same as `since`"),
        ("to" = Option<String>, Query, format = DateTime, description = "The same as `until`"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most rows, 50 \
         by default"),
    ),
    responses((status = 200, description = "One-time passwords, newest first", body = OtpsAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let channel = query.text("channel")?.map(|name| {
        let none = || ApiError::field("channel", "must be one of messaging, sms, email");
        OtpChannel::of(name).ok_or_else(none)
    });
    let since = query.moment("since")?.max(query.moment("from")?);
    let until = match (query.moment("until")?, query.moment("to")?) {
        (Some(until), Some(to)) => Some(until.min(to)),
        (until, to) => until.or(to),
    };
    if since.zip(until).is_some_and(|(since, until)| until < since) {
        return Err(ApiError::field("until", "must not be before `since`"));
    }
    let status = query.text("status")?.map(str::parse);
    let wanted = OtpFilter {
        phone: query.phone("phone")?,
        status: status.transpose().map_err(|error| ApiError::field("status", error))?,
        from: since,
        to: until,
        reference: query.text("reference")?.map(str::to_owned),
        channel: channel.transpose()?,
    };
    let after = id_cursor_of(&query, CURSOR_VERSION)?.map(RequestId::from_bytes);
    if call.wants(CSV) {
        call.reads_all(ReadingKind::Codes).await?;
        let rows = OtpRows { wanted, may_read: reads_contacts(&call) };
        return Ok(stream(&call, CSV_UTF8, ListFile::new(rows)));
    }
    let page = call.caller.workspace().otps(wanted, after, limit).await?;
    let people = page.otps.iter().map(|row| row.phone.map(PartyId::from)).collect();
    let contacts = named_contacts(&call, people).await?;
    let rows = page.otps.into_iter().zip(contacts);
    Ok(Reply::ok(&OtpsAnswer {
        data: rows.map(|(row, contact)| OtpAnswer::of(row, contact)).collect(),
        next_cursor: page.next.map(|id| encode_id_cursor(CURSOR_VERSION, id.as_bytes())),
    }))
}

/// The one-time passwords of a file.
struct OtpRows {
    wanted: OtpFilter,
    may_read: bool,
}

impl ListedRows for OtpRows {
    type Id = RequestId;
    const HEAD: &'static [&'static str] = &[
        "request_id",
        "phone",
        "name",
        "status",
        "delivery_status",
        "channel",
        "attempts_remaining",
        "sends",
        "created_at",
        "verified_at",
        "ended_at",
        "reference",
    ];

    async fn after(
        &self,
        workspace: &Workspace,
        after: Option<RequestId>,
    ) -> Result<FilePart<RequestId>, Unavailable> {
        let page = workspace.otps(self.wanted.clone(), after, PART_ROWS).await?;
        let person = |row: &OtpState| row.phone.filter(|_| self.may_read).map(PartyId::from);
        let contacts = contacts_named(workspace, page.otps.iter().map(person).collect()).await?;
        let rows = page.otps.into_iter().zip(contacts);
        Ok((rows.map(|(row, contact)| cells(row, contact)).collect(), page.next))
    }
}

fn cells(row: OtpState, contact: Option<NamedContact>) -> Vec<String> {
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    vec![
        row.request_id.to_string(),
        row.phone.map(|phone| phone.to_string()).unwrap_or_default(),
        contact.map(|contact| contact.name).unwrap_or_default(),
        row.status.as_str().to_owned(),
        row.delivery.as_str().to_owned(),
        row.channel.as_str().to_owned(),
        row.attempts_remaining.to_string(),
        row.sends.to_string(),
        row.request_id.timestamp().to_string(),
        time(row.verified_at),
        time(row.ended_at),
        row.notes.reference.unwrap_or_default(),
    ]
}
