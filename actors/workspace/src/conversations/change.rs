//! Changes of conversations, and replies in them.

use crate::Workspace;
use crate::contacts::{Contact, find_contact};
use crate::core::command::{Command, Context};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ConversationId, EventData};

use crate::conversations::counts::moved;
use crate::conversations::days::{InboxCounts, note_inbox};
use crate::conversations::record::{Conversation, ConversationStatus, Counted, emit, find, put};

/// A change of a conversation; `None` leaves a field as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConversationChange {
    /// The status.
    pub status: Option<ConversationStatus>,
    /// The assigned agent; `Some(None)`, or an empty name, is nobody.
    pub assigned_to: Option<Option<String>>,
}

/// The reason why a conversation was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateConversationError {
    /// The workspace has no such conversation.
    #[error("no such conversation")]
    NotFound,
    /// The change cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Changes a conversation. Returns its new state, and its contact.
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

    /// Marks the contact's messages in a conversation as read. No event is emitted.
    ///
    /// # Errors
    /// [`UpdateConversationError`]: there is none, or not now.
    pub async fn mark_conversation_read(
        &self,
        id: ConversationId,
    ) -> Result<(), UpdateConversationError> {
        self.perform(MarkRead(id)).await
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
            if new.status == ConversationStatus::Resolved && old.status != new.status {
                note_inbox(context, &InboxCounts::one_resolved())?.write(context);
            }
            put(context, Some(&old), &new, counted);
            emit(context, EventData::ConversationUpdated, &new, contact.phone);
        }
        Ok((new, contact))
    }
}

/// Returns a conversation after an answer.
///
/// If it was open, it now waits for the contact, and nothing in it is unread.
pub(crate) fn once_answered(conversation: &Conversation) -> Conversation {
    let status = match conversation.status {
        ConversationStatus::Open => ConversationStatus::Pending,
        other => other,
    };
    Conversation { status, unread: 0, ..conversation.clone() }
}

/// Returns the counts after a conversation is answered.
pub(crate) fn answered(
    context: &Context<'_>,
    conversation: &Conversation,
) -> Result<Counted, Unavailable> {
    moved(context, &[conversation], &[&once_answered(conversation)])
}

struct MarkRead(ConversationId);

impl Command for MarkRead {
    type Answer = ();
    type Error = UpdateConversationError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), UpdateConversationError> {
        let old = find(context, self.0)?.ok_or(UpdateConversationError::NotFound)?;
        if old.unread > 0 {
            let new = Conversation { unread: 0, ..old.clone() };
            let counted = moved(context, &[&old], &[&new])?;
            put(context, Some(&old), &new, counted);
        }
        Ok(())
    }
}

pub(crate) fn find_with_contact(
    context: &Context<'_>,
    id: ConversationId,
) -> Result<Option<(Conversation, Contact)>, Unavailable> {
    let Some(conversation) = find(context, id)? else { return Ok(None) };
    let contact = conversation.contact_id;
    Ok(find_contact(context, contact)?.map(|contact| (conversation, contact)))
}
