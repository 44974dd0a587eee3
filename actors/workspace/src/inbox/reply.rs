//! Replying in a conversation, by message or by mail.

use postrider_channel::Failure;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ConversationId, Email, EventData, MessageId, PartyId, SenderNotes};
use postrider_runtime::random;

use crate::Workspace;
use crate::contacts::{Contact, known_names};
use crate::conversations::change::{answered, find_with_contact, once_answered};
use crate::conversations::{Conversation, emit, find, put};
use crate::core::command::{Command, Context, Footprint};
use crate::email;
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};
use crate::messages::service_window;
use crate::messages::{
    MessageContent, MessageSent, ReplyError, Send, SendMessage, SendMessageError, Uploaded,
};

impl Workspace {
    /// Writes to the contact of a conversation. An open conversation then waits for the contact.
    ///
    /// With an idempotency key a second call with the key and the same body returns the first
    /// answer, for a day.
    ///
    /// # Errors
    /// [`ReplyError`]: there is no such conversation, or [`send_message`](Self::send_message)
    /// refuses the message. Or the key was used for another request, for example in another
    /// conversation.
    pub async fn reply(
        &self,
        id: ConversationId,
        content: MessageContent,
        answers: Option<MessageId>,
        notes: SenderNotes,
        key: Option<IdempotencyKey>,
    ) -> Result<Replayable<MessageSent>, IdempotentError<ReplyError>> {
        let key = key.map(|key| key.about(id.as_bytes()));
        let mail_from = self.shared.mailer.from().cloned();
        let reply = |refused| Reply {
            id,
            content: content.clone(),
            answers,
            notes: notes.clone(),
            unique: random::unique(),
            mail_from: mail_from.clone(),
            refused,
        };
        let answer = self.perform(Idempotent { key, command: reply(None) }).await;
        let Err(IdempotentError::Refused(ReplyError::Refused(SendMessageError::NotUploaded {
            number,
            media,
        }))) = answer
        else {
            return answer;
        };
        let refused = match self.upload(number, media).await {
            Ok(Uploaded::Done) => None,
            Ok(Uploaded::Refused(failure)) => Some(failure),
            Ok(Uploaded::Missing) => {
                let unknown = SendMessageError::UnknownMedia { kind: content.kind() };
                return Err(IdempotentError::Refused(unknown.into()));
            }
            Err(why) => return Err(IdempotentError::Refused(why.into())),
        };
        self.perform(Idempotent { key, command: reply(refused) }).await
    }
}

struct Reply {
    id: ConversationId,
    content: MessageContent,
    answers: Option<MessageId>,
    notes: SenderNotes,
    unique: u128,
    /// The address that mails come from.
    mail_from: Option<Email>,
    /// The reason why the channel did not accept the reply's file.
    refused: Option<Failure>,
}

impl Command for Reply {
    type Answer = MessageSent;
    type Error = ReplyError;

    const FOOTPRINT: Footprint = Footprint::Grows;
    const SENDS: bool = true;

    fn carry_out(self, context: &mut Context<'_>) -> Result<MessageSent, ReplyError> {
        let Self { id, content, answers, notes, unique, mail_from, refused } = self;
        let found = find_with_contact(context, id)?;
        let (conversation, contact) = found.ok_or(ReplyError::NotFound)?;
        if let Some(thread) = &conversation.mail {
            if answers.is_some() {
                // A mail answers the last one of its thread.
                return Err(SendMessageError::UnknownMessage.into());
            }
            let of = (&conversation, thread);
            let reply = (&content, notes);
            return email::reply(context, of, contact.phone, reply, unique, mail_from.as_ref());
        }
        let to = recipient(context, &conversation, &contact)?.ok_or(ReplyError::NoPhone)?;
        let counted = answered(context, &conversation)?;
        let message = SendMessage { to, content, answers, notes, from: None };
        let through = conversation.number;
        let send = Send { message, through, unique, waiter: None, refused };
        let sent = send.carry_out(context)?;
        // Sending has added the message to the conversation.
        if let Some(old) = find(context, id)? {
            let new = once_answered(&old);
            if new != old {
                put(context, Some(&old), &new, counted);
            }
            if new.status != old.status {
                emit(context, EventData::ConversationUpdated, &new, contact.phone);
            }
        }
        Ok(sent)
    }
}

/// Returns the name to which a reply goes: the phone, or else the id.
///
/// Anybody may write a phone into a contact. So the reply goes to the id if only the id has written
/// and the channel has not named the phone with it.
fn recipient(
    context: &Context<'_>,
    conversation: &Conversation,
    contact: &Contact,
) -> Result<Option<PartyId>, Unavailable> {
    let id = contact.user_id.clone();
    let (phone, id) = match (contact.phone, id) {
        (Some(phone), Some(id)) => (phone, id),
        (phone, id) => return Ok(phone.map(PartyId::from).or(id.map(PartyId::from))),
    };
    if known_names::proven_phone(context, &id)? == Some(phone) {
        return Ok(Some(phone.into()));
    }
    let [phone, id] = [PartyId::from(phone), PartyId::from(id)];
    let has_written = |name| match conversation.number {
        Some(number) => service_window::last(context, number, name).map(|last| last.is_some()),
        None => Ok(false),
    };
    let is_only_id = has_written(&id)? && !has_written(&phone)?;
    Ok(Some(if is_only_id { id } else { phone }))
}
