//! `postrider messages`: lists a workspace's messages.

use clap::Subcommand;
use postrider_actors::MessageKind;
use postrider_actors::domain::{BroadcastId, NumberId, PartyId};

use super::error::CliError;
use super::own_lists::{OwnGroup, PartArgs, show};
use super::query::query;
use super::table::Column;

const MESSAGE: [Column; 7] = [
    ("ID", "/message_id"),
    ("TO", "/to"),
    ("TYPE", "/type"),
    ("STATUS", "/status"),
    ("ERROR", "/error/code"),
    ("REFERENCE", "/reference"),
    ("CREATED", "/created_at"),
];

const STATUSES: [&str; 7] = ["queued", "held", "sent", "delivered", "read", "failed", "unknown"];

#[derive(Debug, Subcommand)]
pub(crate) enum MessagesCommand {
    /// List messages, newest first; filters combine
    ///
    /// Messages of broadcasts are among them where `--to` or `--broadcast` is given.
    List {
        /// Only those to this phone, such as +15550123456, or the person of this id of the channel
        #[arg(long)]
        to: Option<PartyId>,
        /// Only those that stand so
        #[arg(long, value_parser = STATUSES)]
        status: Option<String>,
        /// Only those of this type
        #[arg(long = "type", value_name = "TYPE", value_parser = MessageKind::WORDS.to_vec())]
        kind: Option<String>,
        /// Only those of the template of this name, in any language
        #[arg(long)]
        template: Option<String>,
        /// Only those that their sender calls so
        #[arg(long)]
        reference: Option<String>,
        /// Only those that leave through this number
        #[arg(long, value_name = "NUMBER_ID")]
        number: Option<NumberId>,
        /// Only those of this broadcast
        #[arg(long, value_name = "BROADCAST_ID")]
        broadcast: Option<BroadcastId>,
        #[command(flatten)]
        part: PartArgs,
    },
}

/// Runs `postrider messages`.
pub(crate) async fn run(group: OwnGroup<MessagesCommand>) -> Result<(), CliError> {
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
    show((&group.caller, group.json), "/messaging/messages", &filters, part, &MESSAGE).await
}
