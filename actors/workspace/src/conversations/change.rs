//! Changing conversations, and replying in them.

use crate::Workspace;
use crate::contacts::{Contact, find_contact};
use crate::core::command::{Command, Context};
use crate::email;
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};
use crate::messages::{MessageContent, MessageSent, Send, SendMessage, SendMessageError};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ConversationId, Email, EventKind};
use postrider_runtime::random;

use crate::conversations::counts::{Counted, moved};
use crate::conversations::record::{Conversation, ConversationStatus, find, put, tell};

/// A change of a conversation; `None` leaves a field as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConversationChange {
    /// Where it stands.
    pub status: Option<ConversationStatus>,
    /// Who sees to it; `Some(None)`, or an empty name, is nobody.
    pub assigned_to: Option<Option<String>>,
}

/// Why a conversation was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateConversationError {
    /// The workspace has no such conversation.
    #[error("no such conversation")]
    NotFound,
    /// It cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a reply was not accepted. It cost nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The workspace has no such conversation.
    #[error("no such conversation")]
    NotFound,
    /// The contact has no phone any more.
    #[error("the contact has no phone")]
    NoPhone,
    /// It is a conversation by e-mail, which takes text only.
    #[error("a reply by e-mail must be text")]
    TextOnly,
    /// It is a conversation by e-mail, and there is no mail server.
    #[error("no mail server is set up: see [email] in the settings")]
    NoMailServer,
    /// The message was refused.
    #[error(transparent)]
    Refused(#[from] SendMessageError),
}

impl From<Unavailable> for ReplyError {
    fn from(why: Unavailable) -> Self {
        Self::Refused(why.into())
    }
}

impl Workspace {
    /// Changes a conversation; gives what it is then, and its contact.
    ///
    /// # Errors
    /// [`UpdateConversationError`]: there is none, or not now.
    pub async fn update_conversation(
        &self,
        id: ConversationId,
        change: ConversationChange,
    ) -> Result<(Conversation, Contact), UpdateConversationError> {
        self.perform(UpdateConversation { id, change }).await
    }

    /// Writes to the contact of a conversation. It waits for the contact then, if it was open. With
    /// an idempotency key a second call with the key and the same body answers what the first did,
    /// for a day.
    ///
    /// # Errors
    /// [`ReplyError`]: there is none, or what [`send_message`](Self::send_message) refuses; or the key
    /// was used otherwise, as for another conversation.
    pub async fn reply(
        &self,
        id: ConversationId,
        content: MessageContent,
        key: Option<IdempotencyKey>,
    ) -> Result<Replayable<MessageSent>, IdempotentError<ReplyError>> {
        let key = key.map(|key| key.about(id.as_bytes()));
        let mail_from = self.shared.mailer.from().cloned();
        let command = Reply { id, content, unique: random::unique(), mail_from };
        self.perform(Idempotent { key, command }).await
    }
}

struct UpdateConversation {
    id: ConversationId,
    change: ConversationChange,
}

impl Command for UpdateConversation {
    type Answer = (Conversation, Contact);
    type Error = UpdateConversationError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, UpdateConversationError> {
        let found = find_with_contact(context, self.id)?;
        let (old, contact) = found.ok_or(UpdateConversationError::NotFound)?;
        let ConversationChange { status, assigned_to } = self.change;
        let new = Conversation {
            status: status.unwrap_or(old.status),
            assigned_to: assigned_to
                .map_or_else(|| old.assigned_to.clone(), |agent| agent.filter(|it| !it.is_empty())),
            ..old.clone()
        };
        if new != old {
            let counted = moved(context, &[&old], &[&new])?;
            put(context, Some(&old), &new, counted);
            tell(context, EventKind::ConversationUpdated, &new, contact.phone);
        }
        Ok((new, contact))
    }
}

struct Reply {
    id: ConversationId,
    content: MessageContent,
    unique: u128,
    /// Where mails come from.
    mail_from: Option<Email>,
}

impl Command for Reply {
    type Answer = MessageSent;
    type Error = ReplyError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<MessageSent, ReplyError> {
        let Self { id, content, unique, mail_from } = self;
        let found = find_with_contact(context, id)?;
        let (conversation, contact) = found.ok_or(ReplyError::NotFound)?;
        if let Some(thread) = &conversation.mail {
            let of = (&conversation, thread);
            return email::reply(context, of, contact.phone, &content, unique, mail_from.as_ref());
        }
        let to = contact.phone.ok_or(ReplyError::NoPhone)?;
        let counted = answered(context, &conversation)?;
        let (message, through) = (SendMessage { to, content }, conversation.number);
        let send = Send { message, through, unique, waiter: None };
        let sent = send.carry_out(context)?;
        // Sending has added the message to the conversation.
        if let Some(old) = find(context, id)?
            && old.status == ConversationStatus::Open
        {
            let new = Conversation { status: ConversationStatus::Pending, ..old.clone() };
            put(context, Some(&old), &new, counted);
            tell(context, EventKind::ConversationUpdated, &new, contact.phone);
        }
        Ok(sent)
    }
}

/// The counts once a conversation is answered: it waits for the contact then, if it was open.
pub(crate) fn answered(
    context: &Context<'_>,
    conversation: &Conversation,
) -> Result<Counted, Unavailable> {
    if conversation.status != ConversationStatus::Open {
        return Ok(Counted::default());
    }
    let pending = Conversation { status: ConversationStatus::Pending, ..conversation.clone() };
    moved(context, &[conversation], &[&pending])
}

fn find_with_contact(
    context: &Context<'_>,
    id: ConversationId,
) -> Result<Option<(Conversation, Contact)>, Unavailable> {
    let Some(conversation) = find(context, id)? else { return Ok(None) };
    let contact = conversation.contact_id;
    Ok(find_contact(context, contact)?.map(|contact| (conversation, contact)))
}
