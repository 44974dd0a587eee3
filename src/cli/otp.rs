//! `postrider otp`: lists and shows one-time passwords, and the decisions about them.

use clap::Subcommand;
use postrider_actors::domain::{Phone, Prefix, RequestId};

use super::api::Api;
use super::error::CliError;
use super::output::print;
use super::own_lists::{OwnGroup, PartArgs, read, show};
use super::query::query;
use super::table::{self, Column};

const OTP: [Column; 7] = [
    ("ID", "/request_id"),
    ("PHONE", "/phone"),
    ("STATUS", "/status"),
    ("CHANNEL", "/channel"),
    ("DELIVERY", "/delivery_status"),
    ("REFERENCE", "/reference"),
    ("CREATED", "/created_at"),
];

const ONE: [Column; 10] = [
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

const TRY: [Column; 7] = [
    ("STEP", "/step"),
    ("CHANNEL", "/channel"),
    ("STATUS", "/status"),
    ("ERROR", "/error"),
    ("PRICE", "/price"),
    ("STARTED", "/started_at"),
    ("ENDED", "/ended_at"),
];

const DECISION: [Column; 8] = [
    ("DECIDED", "/decided_at"),
    ("DECISION", "/decision"),
    ("PHONE", "/phone"),
    ("RULE", "/rule"),
    ("PREFIX", "/prefix"),
    ("SENT", "/sent"),
    ("VERIFIED", "/verified"),
    ("REQUEST", "/request_id"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum OtpCommand {
    /// List one-time passwords, newest first, never with their codes; filters combine
    List {
        /// Only those to this phone, or from it, such as +15550123456
        #[arg(long)]
        phone: Option<Phone>,
        /// Only those that stand so
        #[arg(long, value_parser = ["active", "verified", "expired", "invalidated", "cancelled"])]
        status: Option<String>,
        /// Only those that this channel delivered, or was the last to try
        #[arg(long, value_parser = ["messaging", "sms", "email"])]
        channel: Option<String>,
        /// Only those that their sender calls so
        #[arg(long)]
        reference: Option<String>,
        #[command(flatten)]
        part: PartArgs,
    },
    /// Show a one-time password, and what became of each try to bring it
    Show {
        /// Its id, as `list` shows it
        request_id: RequestId,
    },
    /// List what was decided of codes to limited destinations, newest first, with the figures
    Decisions {
        /// Only those of limited destinations that begin with these digits
        #[arg(long)]
        prefix: Option<Prefix>,
        /// Only those about this phone, such as +15550123456
        #[arg(long)]
        phone: Option<Phone>,
        /// Only those about this request for a code
        #[arg(long)]
        request: Option<RequestId>,
        /// Only those of this kind
        #[arg(long, value_parser = ["allowed", "probe", "refused", "would_refuse"])]
        decision: Option<String>,
        #[command(flatten)]
        part: PartArgs,
    },
}

/// Runs `postrider otp`.
pub(crate) async fn run(group: OwnGroup<OtpCommand>) -> Result<(), CliError> {
    let caller = (&group.caller, group.json);
    match group.command {
        OtpCommand::List { phone, status, channel, reference, part } => {
            let filters = query([
                ("phone", phone.map(|phone| phone.to_string())),
                ("status", status),
                ("channel", channel),
                ("reference", reference),
            ]);
            show(caller, "/otp", &filters, part, &OTP).await
        }
        OtpCommand::Show { request_id } => {
            let found = read(&Api::new(&group.caller)?, &format!("/otp/{request_id}")).await?;
            let tries = found["tries"].as_array().map(Vec::as_slice).unwrap_or_default();
            let shown = table::record(&found, &ONE) + &table::rows(tries, &TRY);
            print(group.json, &found, &shown)
        }
        OtpCommand::Decisions { prefix, phone, request, decision, part } => {
            let filters = query([
                ("prefix", prefix.map(|prefix| prefix.to_string())),
                ("phone", phone.map(|phone| phone.to_string())),
                ("request_id", request.map(|id| id.to_string())),
                ("decision", decision),
            ]);
            show(caller, "/otp/decisions", &filters, part, &DECISION).await
        }
    }
}
