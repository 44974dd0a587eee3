//! Replies in a conversation by message or by mail, and the time until which they may be free text.

use postrider_channel::Failure;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{
    ConversationId, Email, EventData, MessageId, PartyId, SenderNotes, Timestamp, WorkspaceId,
};
use postrider_number::record::NumberInfo;
use postrider_runtime::random;
use postrider_store::{StoreError, View};

use crate::contacts::{Contact, known_names};
use crate::conversations::change::{answered_counts, find_with_contact, once_answered};
use crate::conversations::{Conversation, ConversationView, emit, find, put};
use crate::core::command::{Command, Context, Footprint};
use crate::core::records;
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};
use crate::messages::{
    MessageContent, MessageSent, ReplyError, Send, SendMessage, SendMessageError, Uploaded,
    service_window,
};
use crate::{Workspace, email};

/// The time until which a conversation may be answered with free text.
///
/// It is read where a reply reads it: in the open service windows of all connected numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyWindow {
    /// Always, as by e-mail.
    Always,
    /// Until this moment, which may have passed.
    Until(Timestamp),
    /// Not until the contact writes.
    Closed,
}

impl ReplyWindow {
    /// Returns whether it is open at a moment.
    #[must_use]
    pub fn is_open(self, now: Timestamp) -> bool {
        match self {
            Self::Always => true,
            Self::Until(end) => now < end,
            Self::Closed => false,
        }
    }

    /// Returns the time at which it closes, or has closed.
    #[must_use]
    pub const fn closes_at(self) -> Option<Timestamp> {
        match self {
            Self::Until(end) => Some(end),
            Self::Always | Self::Closed => None,
        }
    }
}

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
        let reply = |refused| SendReply {
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

    /// Returns the time until which each of these conversations may be answered with free text.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn reply_windows(
        &self,
        of: &[ConversationView],
    ) -> Result<Vec<ReplyWindow>, Unavailable> {
        let names = |(conversation, contact): &ConversationView| {
            (is_by_mail(conversation), contact.names().parties())
        };
        let asked: Vec<_> = of.iter().map(names).collect();
        if asked.iter().all(|(by_mail, names)| *by_mail || names.is_empty()) {
            return Ok(asked.iter().map(|(by_mail, _)| without_number(*by_mail)).collect());
        }
        self.read(move |store, workspace| windows_of(store, workspace, &asked)).await
    }
}

struct SendReply {
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

impl Command for SendReply {
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
        let counted = answered_counts(context, &conversation)?;
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

const fn is_by_mail(conversation: &Conversation) -> bool {
    conversation.mail.is_some()
}

const fn without_number(by_mail: bool) -> ReplyWindow {
    if by_mail { ReplyWindow::Always } else { ReplyWindow::Closed }
}

fn windows_of(
    store: &dyn View,
    workspace: &WorkspaceId,
    asked: &[(bool, Vec<PartyId>)],
) -> Result<Vec<ReplyWindow>, StoreError> {
    let numbers = records::load(store, workspace)?.map(|found| found.numbers).unwrap_or_default();
    let lines: Vec<_> = numbers.iter().map(NumberInfo::line).collect();
    let window = |(by_mail, names): &(bool, Vec<PartyId>)| {
        if *by_mail || names.is_empty() {
            return Ok(without_number(*by_mail));
        }
        // A reply goes to one of the names, to which the person has written.
        let mut latest = None;
        for name in names {
            latest = latest.max(service_window::latest_end(store, workspace, &lines, name)?);
        }
        Ok(latest.map_or(ReplyWindow::Closed, ReplyWindow::Until))
    };
    asked.iter().map(window).collect()
}
