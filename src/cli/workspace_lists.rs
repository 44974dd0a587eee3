//! `postrider otp` and `messages`: lists a workspace's records by its API key, part by part.

use clap::{Args, Subcommand};
use postrider_actors::MessageKind;
use postrider_actors::domain::{
    BroadcastId, NumberId, PartyId, Phone, Prefix, RequestId, Timestamp,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::api::{Api, ApiAttempt, CallerArgs, RetryBudget, connection_fault};
use super::client::query;
use super::error::CliError;
use super::output::{print, report};
use super::table::{self, Column};

/// The maximum number of rows in an answer of the server.
const PART_ROWS: u32 = 200;

const OTP_ROW: [Column; 7] = [
    ("ID", "/request_id"),
    ("PHONE", "/phone"),
    ("STATUS", "/status"),
    ("CHANNEL", "/channel"),
    ("DELIVERY", "/delivery_status"),
    ("REFERENCE", "/reference"),
    ("CREATED", "/created_at"),
];

const OTP_RECORD: [Column; 10] = [
    ("ID", "/request_id"),
    ("PHONE", "/phone"),
    ("STATUS", "/status"),
    ("CHANNEL", "/channel"),
    ("DELIVERY", "/delivery_status"),
    ("LANGUAGE", "/language"),
    ("MODE", "/mode"),
    ("REFERENCE", "/reference"),
    ("ATTEMPTS LEFT", "/attempts_remaining"),
    ("EXPIRES", "/expires_at"),
];

const OTP_TRY: [Column; 7] = [
    ("STEP", "/step"),
    ("CHANNEL", "/channel"),
    ("STATUS", "/status"),
    ("ERROR", "/error"),
    ("PRICE", "/price"),
    ("STARTED", "/started_at"),
    ("ENDED", "/ended_at"),
];

const OTP_DECISION: [Column; 8] = [
    ("DECIDED", "/decided_at"),
    ("DECISION", "/decision"),
    ("PHONE", "/phone"),
    ("RULE", "/rule"),
    ("PREFIX", "/prefix"),
    ("SENT", "/sent"),
    ("VERIFIED", "/verified"),
    ("REQUEST", "/request_id"),
];

const MESSAGE: [Column; 7] = [
    ("ID", "/message_id"),
    ("TO", "/to"),
    ("TYPE", "/type"),
    ("STATUS", "/status"),
    ("ERROR", "/error/code"),
    ("REFERENCE", "/reference"),
    ("CREATED", "/created_at"),
];

const MESSAGE_STATUSES: [&str; 7] =
    ["queued", "held", "sent", "delivered", "read", "failed", "unknown"];

/// Commands that call a workspace's own interface, and can print its answer.
#[derive(Debug, Args)]
pub(crate) struct OwnGroup<C: Subcommand> {
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
    #[command(subcommand)]
    pub(crate) command: C,
    /// Print the server's answer as JSON
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Which part of a list is shown.
#[derive(Debug, Args)]
pub(crate) struct PartArgs {
    /// Show only rows from this time on, such as 2026-01-31T09:30:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Show only rows before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Continue from the `next_cursor` of an earlier answer
    #[arg(long)]
    cursor: Option<String>,
    /// Show at most this many rows, the newest ones
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

/// Shows the rows of `path` below `/v1` that match `filters`, a query.
async fn show_list(
    (caller, as_json): (&CallerArgs, bool),
    path: &str,
    filters: &str,
    part: PartArgs,
    columns: &[Column],
) -> Result<(), CliError> {
    let api = Api::new(caller)?;
    let (mut rows, mut cursor, mut left) = (Vec::new(), part.cursor, part.limit);
    loop {
        let place = query([
            ("since", part.since.map(|at| at.to_string())),
            ("until", part.until.map(|at| at.to_string())),
            ("limit", Some(left.min(PART_ROWS).to_string())),
            ("cursor", cursor.take()),
        ]);
        let mut answer = read_answer(&api, &format!("{path}?{filters}&{place}")).await?;
        if let Value::Array(found) = answer["data"].take() {
            left = left.saturating_sub(found.len() as u32);
            rows.extend(found);
        }
        cursor = answer["next_cursor"].as_str().map(str::to_owned);
        if left == 0 || cursor.is_none() {
            break;
        }
    }
    let shown = table::rows(&rows, columns);
    print(as_json, &json!({ "data": rows, "next_cursor": cursor }), &shown)
}

/// Requests `path` below `/v1` until there is an answer.
async fn read_answer(api: &Api, path: &str) -> Result<Value, CliError> {
    let mut retries = RetryBudget::new();
    loop {
        let wait = match api.send(api.request(Method::GET, path)).await? {
            ApiAttempt::Done(response) => match response.json().await {
                Ok(answer) => return Ok(answer),
                Err(error) => connection_fault(&error),
            },
            ApiAttempt::Retry(wait) => wait,
        };
        retries.wait(wait, api.server(), report).await?;
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum OtpCommand {
    /// List one-time passwords, newest first, without their codes
    ///
    /// If you give several filters, each row matches all of them.
    List {
        /// Show only one-time passwords to or from this phone, such as +15550123456
        #[arg(long)]
        phone: Option<Phone>,
        /// Show only one-time passwords with this status
        #[arg(long, value_parser = ["active", "verified", "expired", "invalidated", "cancelled"])]
        status: Option<String>,
        /// Show only one-time passwords that this channel delivered or tried last
        #[arg(long, value_parser = ["messaging", "sms", "email"])]
        channel: Option<String>,
        /// Show only one-time passwords with this reference of the sender
        #[arg(long)]
        reference: Option<String>,
        #[command(flatten)]
        part: PartArgs,
    },
    /// Show a one-time password and the result of each delivery attempt
    Show {
        /// The ID of the request, as `list` shows it
        request_id: RequestId,
    },
    /// List decisions about codes to limited destinations, newest first, with their figures
    Decisions {
        /// Show only decisions about limited destinations that begin with these digits
        #[arg(long)]
        prefix: Option<Prefix>,
        /// Show only decisions about this phone, such as +15550123456
        #[arg(long)]
        phone: Option<Phone>,
        /// Show only decisions about this request for a code
        #[arg(long)]
        request: Option<RequestId>,
        /// Show only decisions of this kind
        #[arg(long, value_parser = ["allowed", "probe", "refused", "would_refuse"])]
        decision: Option<String>,
        #[command(flatten)]
        part: PartArgs,
    },
}

/// Runs `postrider otp`.
pub(crate) async fn run_otp(group: OwnGroup<OtpCommand>) -> Result<(), CliError> {
    let caller = (&group.caller, group.json);
    match group.command {
        OtpCommand::List { phone, status, channel, reference, part } => {
            let filters = query([
                ("phone", phone.map(|phone| phone.to_string())),
                ("status", status),
                ("channel", channel),
                ("reference", reference),
            ]);
            show_list(caller, "/otp", &filters, part, &OTP_ROW).await
        }
        OtpCommand::Show { request_id } => {
            let found =
                read_answer(&Api::new(&group.caller)?, &format!("/otp/{request_id}")).await?;
            let tries = found["tries"].as_array().map(Vec::as_slice).unwrap_or_default();
            let shown = table::record(&found, &OTP_RECORD) + &table::rows(tries, &OTP_TRY);
            print(group.json, &found, &shown)
        }
        OtpCommand::Decisions { prefix, phone, request, decision, part } => {
            let filters = query([
                ("prefix", prefix.map(|prefix| prefix.to_string())),
                ("phone", phone.map(|phone| phone.to_string())),
                ("request_id", request.map(|id| id.to_string())),
                ("decision", decision),
            ]);
            show_list(caller, "/otp/decisions", &filters, part, &OTP_DECISION).await
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum MessagesCommand {
    /// List messages, newest first
    ///
    /// If you give several filters, each row matches all of them. The list includes messages of
    /// broadcasts only with `--to` or `--broadcast`.
    List {
        /// Show only messages to this phone, such as +15550123456, or to the person with this
        /// channel user ID
        #[arg(long)]
        to: Option<PartyId>,
        /// Show only messages with this status
        #[arg(long, value_parser = MESSAGE_STATUSES)]
        status: Option<String>,
        /// Show only messages of this type
        #[arg(long = "type", value_name = "TYPE", value_parser = MessageKind::WORDS.to_vec())]
        kind: Option<String>,
        /// Show only messages of the template with this name, in any language
        #[arg(long)]
        template: Option<String>,
        /// Show only messages with this reference of the sender
        #[arg(long)]
        reference: Option<String>,
        /// Show only messages that this number sends
        #[arg(long, value_name = "NUMBER_ID")]
        number: Option<NumberId>,
        /// Show only messages of this broadcast
        #[arg(long, value_name = "BROADCAST_ID")]
        broadcast: Option<BroadcastId>,
        #[command(flatten)]
        part: PartArgs,
    },
}

/// Runs `postrider messages`.
pub(crate) async fn run_messages(group: OwnGroup<MessagesCommand>) -> Result<(), CliError> {
    let MessagesCommand::List { to, status, kind, template, reference, number, broadcast, part } =
        group.command;
    let filters = query([
        ("to", to.map(|to| to.to_string())),
        ("status", status),
        ("type", kind),
        ("template", template),
        ("reference", reference),
        ("number_id", number.map(|id| id.to_string())),
        ("broadcast_id", broadcast.map(|id| id.to_string())),
    ]);
    show_list((&group.caller, group.json), "/messaging/messages", &filters, part, &MESSAGE).await
}
