//! `postrider otp`: lists a workspace's one-time passwords.

use clap::Subcommand;
use postrider_actors::domain::Phone;

use super::error::CliError;
use super::own_lists::{OwnGroup, PartArgs, show};
use super::query::query;
use super::table::Column;

const OTP: [Column; 7] = [
    ("ID", "/request_id"),
    ("PHONE", "/phone"),
    ("STATUS", "/status"),
    ("CHANNEL", "/channel"),
    ("DELIVERY", "/delivery_status"),
    ("REFERENCE", "/reference"),
    ("CREATED", "/created_at"),
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
}

/// Runs `postrider otp`.
pub(crate) async fn run(group: OwnGroup<OtpCommand>) -> Result<(), CliError> {
    let OtpCommand::List { phone, status, channel, reference, part } = group.command;
    let filters = query([
        ("phone", phone.map(|phone| phone.to_string())),
        ("status", status),
        ("channel", channel),
        ("reference", reference),
    ]);
    show((&group.caller, group.json), "/otp", &filters, part, &OTP).await
}
