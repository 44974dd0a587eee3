//! Outgoing mails: their records and outcomes.

#[cfg(any(test, feature = "testing"))]
use crate::Workspace;
use postrider_store::view::codec;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::conversations;
use crate::core::command::{Command, Context, Footprint};
use crate::messages::{MessageError, MessageStatus};
use postrider_channel::email::{Mailed, OutgoingMail};
use postrider_domain::event::message::MessageData;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{
    ConversationId, Email, EventData, MessageId, SenderNotes, Timestamp, WorkspaceId,
};
use postrider_runtime::flow::Backoff;
use postrider_store::{StoreError, Table, View};

use crate::email::{known_key, mail_key, queue_key};

/// The wait before the retry of a mail that the server did not accept.
const RETRY: Backoff = Backoff { min: Duration::from_secs(30), max: Duration::from_secs(3600) };

/// An outgoing mail.
#[derive(Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) to: Email,
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) message_id: String,
    pub(crate) in_reply_to: Option<String>,
    pub(crate) references: Vec<String>,
    pub(crate) status: MessageStatus,
    pub(crate) error: Option<MessageError>,
    pub(crate) give_up_at: Timestamp,
    /// The sender's notes on it.
    #[serde(default, skip_serializing_if = "SenderNotes::is_empty")]
    pub(crate) notes: SenderNotes,
}

/// The queue's record of a mail that has not left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Queued {
    /// Set if the server may have it: only the process that handed it over knows.
    pub(crate) handed: bool,
    /// The earliest time of the next try.
    pub(crate) next_at: Timestamp,
    /// The number of times that the server did not accept it.
    pub(crate) failures: u32,
    /// Why, the last time.
    pub(crate) why: Box<str>,
}

/// Writes a new mail, which is sent as soon as it is durable.
pub(crate) fn queue(context: &mut Context<'_>, id: MessageId, record: &Record) {
    let workspace = context.core.id.clone();
    context.put_json(Table::Mails, mail_key(&workspace, id), record);
    context.put_json(Table::MailQueue, queue_key(&workspace, id), &Queued::default());
    emit(context, id, record);
}

/// Returns a mail's status, the reason for its failure, if it failed, and its sender's notes.
pub(crate) fn outcome_of(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: MessageId,
) -> Result<Option<(MessageStatus, Option<MessageError>, SenderNotes)>, StoreError> {
    let found = store.get(Table::Mails, &mail_key(workspace, id))?;
    let found = found.map(|json| codec::decode::<Record>(&json)).transpose()?;
    Ok(found.map(|record| (record.status, record.error, record.notes)))
}

/// Claims a mail to hand it over; `None` if it must not be handed over.
///
/// Once this is durable it may have been handed over, so a claimed mail is not handed over again.
pub(crate) struct Claim(pub(crate) MessageId);

impl Command for Claim {
    type Answer = Option<OutgoingMail>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, Unavailable> {
        let id = self.0;
        let Some((record, queued)) = find(context, id)? else { return Ok(None) };
        if !has_conversation(context, &record)? {
            // Its contact was deleted; the mail's records are deleted with the conversation.
            let key = queue_key(&context.core.id, id);
            context.delete(Table::MailQueue, key);
            return Ok(None);
        }
        let now = context.now();
        if queued.handed {
            settle(context, id, record, MessageStatus::Unknown, None);
            return Ok(None);
        }
        if record.give_up_at <= now {
            let error = error("not_sent_in_time", &queued.why);
            settle(context, id, record, MessageStatus::Failed, Some(error));
            return Ok(None);
        }
        let key = queue_key(&context.core.id, id);
        context.put_json(Table::MailQueue, key, &Queued { handed: true, ..queued });
        let Record { to, subject, text, message_id, in_reply_to, references, .. } = record;
        let is_automatic = false;
        Ok(Some(OutgoingMail {
            to,
            subject,
            text,
            message_id,
            in_reply_to,
            references,
            is_automatic,
        }))
    }
}

/// Claims a mail as the mailer does. Returns whether it is to be handed over.
#[cfg(any(test, feature = "testing"))]
pub async fn claim(workspace: &Workspace, id: MessageId) -> Result<bool, Unavailable> {
    workspace.perform(Claim(id)).await.map(|mail| mail.is_some())
}

/// Records the outcome of a mail that was handed over.
pub(crate) struct SettleMail(pub(crate) MessageId, pub(crate) Mailed);

impl Command for SettleMail {
    type Answer = ();
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let Self(id, mailed) = self;
        let Some((record, queued)) = find(context, id)? else { return Ok(()) };
        match mailed {
            Mailed::Sent => settle(context, id, record, MessageStatus::Sent, None),
            Mailed::Unknown(_) => settle(context, id, record, MessageStatus::Unknown, None),
            Mailed::Failed(why) => {
                let error = error("channel_refused", &why);
                settle(context, id, record, MessageStatus::Failed, Some(error));
            }
            Mailed::Retry(why) => {
                let pause = RETRY.delay(queued.failures);
                let queued = Queued {
                    handed: false,
                    next_at: context.now().plus(pause),
                    failures: queued.failures + 1,
                    why: clipped(&why),
                };
                context.put_json(Table::MailQueue, queue_key(&context.core.id, id), &queued);
            }
        }
        Ok(())
    }
}

/// Returns whether the conversation of a mail still exists.
fn has_conversation(context: &Context<'_>, mail: &Record) -> Result<bool, Unavailable> {
    let of = context.get(Table::Mails, &known_key(&context.core.id, &mail.message_id))?;
    let of = of.and_then(|of| of.try_into().ok()).map(ConversationId::from_bytes);
    of.map_or(Ok(false), |of| Ok(conversations::find(context, of)?.is_some()))
}

fn find(context: &Context<'_>, id: MessageId) -> Result<Option<(Record, Queued)>, Unavailable> {
    let workspace = &context.core.id;
    let record = context.get_json(Table::Mails, &mail_key(workspace, id))?;
    Ok(record.zip(context.get_json(Table::MailQueue, &queue_key(workspace, id))?))
}

fn settle(
    context: &mut Context<'_>,
    id: MessageId,
    record: Record,
    status: MessageStatus,
    error: Option<MessageError>,
) {
    let record = Record { status, error, ..record };
    let workspace = context.core.id.clone();
    context.delete(Table::MailQueue, queue_key(&workspace, id));
    context.put_json(Table::Mails, mail_key(&workspace, id), &record);
    emit(context, id, &record);
}

fn error(reason: &str, details: &str) -> MessageError {
    MessageError { reason: reason.into(), code: None, details: clipped(details) }
}

/// Returns the server's response, cut to the length that is kept.
fn clipped(said: &str) -> Box<str> {
    said.chars().take(500).collect::<String>().into()
}

/// Emits a mail's status; nothing if it is unknown, as for other messages.
fn emit(context: &mut Context<'_>, id: MessageId, record: &Record) {
    let event = match record.status {
        MessageStatus::Queued => EventData::MessageQueued,
        MessageStatus::Sent => EventData::MessageSent,
        MessageStatus::Failed => EventData::MessageFailed,
        _ => return,
    };
    let (reference, metadata) = record.notes.shown();
    let data = MessageData {
        message_id: id,
        broadcast_id: None,
        to: Some(record.to.as_str().to_owned()),
        recipient: None,
        r#type: Some(MessageData::EMAIL),
        status: record.status.as_str(),
        template: None,
        error: record.error.as_ref().map(MessageError::event_data),
        number_id: None,
        reference,
        metadata,
    };
    context.effects.emit(context.now(), event(data));
}
