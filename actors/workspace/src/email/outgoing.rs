//! A mail that goes out: its record, and what is learnt of it.

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

/// How long a mail waits that the server did not take.
const RETRY: Backoff = Backoff { min: Duration::from_secs(30), max: Duration::from_secs(3600) };

/// A mail that goes out.
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
    /// What its sender notes of it.
    #[serde(default, skip_serializing_if = "SenderNotes::is_empty")]
    pub(crate) notes: SenderNotes,
}

/// One that has not left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Queued {
    /// It may be with the server: nobody knows unless whoever handed it over is there to say.
    pub(crate) handed: bool,
    /// Not before this.
    pub(crate) next_at: Timestamp,
    /// How often the server did not take it.
    pub(crate) failures: u32,
    /// Why, the last time.
    #[serde(default)]
    pub(crate) why: Box<str>,
}

/// Writes a new mail, to go out as soon as it is durable.
pub(crate) fn queue(context: &mut Context<'_>, id: MessageId, record: &Record) {
    let workspace = context.core.id.clone();
    context.put_json(Table::Mails, mail_key(&workspace, id), record);
    context.put_json(Table::MailQueue, queue_key(&workspace, id), &Queued::default());
    emit(context, id, record);
}

/// What became of a mail, why it failed, if it did, and what its sender notes of it.
pub(crate) fn outcome_of(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: MessageId,
) -> Result<Option<(MessageStatus, Option<MessageError>, SenderNotes)>, StoreError> {
    let found = store.get(Table::Mails, &mail_key(workspace, id))?;
    let found = found.map(|json| codec::decode::<Record>(&json)).transpose()?;
    Ok(found.map(|record| (record.status, record.error, record.notes)))
}

/// Takes a mail to be handed over; nothing if it is not to be. Once this is durable it may have
/// been handed over, so one that was taken before is not handed over again.
pub(crate) struct Claim(pub(crate) MessageId);

impl Command for Claim {
    type Answer = Option<OutgoingMail>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, Unavailable> {
        let id = self.0;
        let Some((record, queued)) = find(context, id)? else { return Ok(None) };
        if !has_conversation(context, &record)? {
            // Its contact was deleted; what is kept of it goes with the conversation.
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

/// Whether a mail is to be handed over, asked as the mailer does.
#[cfg(any(test, feature = "testing"))]
pub async fn claim(workspace: &Workspace, id: MessageId) -> Result<bool, Unavailable> {
    workspace.perform(Claim(id)).await.map(|mail| mail.is_some())
}

/// Notes what became of a mail that was handed over.
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

/// Whether the conversation that a mail belongs to is still there.
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

/// Not more of what a server said than is kept.
fn clipped(said: &str) -> Box<str> {
    said.chars().take(500).collect::<String>().into()
}

/// Emits how far a mail has come; nothing of one that is unknown, as of other messages.
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
