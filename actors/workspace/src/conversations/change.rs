//! Changes of conversations: a member's changes, answers, and messages from contacts and to them.

use postrider_channel::callback::Inbound;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ConversationId, EventData, MessageId, NumberId, PartyId, Timestamp};
use postrider_store::Table;

use crate::Workspace;
use crate::contacts::{Contact, find_contact, party_holder, place_of};
use crate::conversations::counts::moved_counts;
use crate::conversations::days::{InboxCounts, InboxNote, note_inbox};
use crate::conversations::record::{
    ChangedCounts, Conversation, ConversationStatus, Direction, Written, WrittenContent,
    WrittenMedia, emit, find, message_key, of_place, put,
};
use crate::core::command::{Command, Context};

/// The maximum of characters of a message in its conversation; the message has all of them.
const PREVIEW_CHARS_MAX: usize = 200;

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

/// A message of a contact, when it is reported for the first time.
pub(crate) struct Received<'a> {
    /// Our id of the message.
    pub(crate) id: MessageId,
    /// The number to which it was written.
    pub(crate) number: NumberId,
    /// The time of writing, and not later than it came.
    pub(crate) at: Timestamp,
    /// The provider's report.
    pub(crate) inbound: &'a Inbound,
    /// The present name of its file.
    pub(crate) media: Option<&'a WrittenMedia>,
    /// The content beside its text, with our ids.
    pub(crate) content: Option<&'a WrittenContent>,
}

/// A message of the workspace's.
pub(crate) struct Wrote<'a> {
    /// The message.
    pub id: MessageId,
    /// Its kind as a body spells it.
    pub kind: &'static str,
    /// The text for the recipient.
    pub text: &'a str,
    /// The file that it has.
    pub media: Option<WrittenMedia>,
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
            let counted = moved_counts(context, &[&old], &[&new])?;
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
pub(crate) fn answered_counts(
    context: &Context<'_>,
    conversation: &Conversation,
) -> Result<ChangedCounts, Unavailable> {
    moved_counts(context, &[conversation], &[&once_answered(conversation)])
}

struct MarkRead(ConversationId);

impl Command for MarkRead {
    type Answer = ();
    type Error = UpdateConversationError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), UpdateConversationError> {
        let old = find(context, self.0)?.ok_or(UpdateConversationError::NotFound)?;
        if old.unread > 0 {
            let new = Conversation { unread: 0, ..old.clone() };
            let counted = moved_counts(context, &[&old], &[&new])?;
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

/// Applies a contact's message, and opens the conversation. Returns the conversation.
pub(crate) fn received(
    context: &mut Context<'_>,
    contact: &Contact,
    received: &Received<'_>,
) -> Result<Conversation, Unavailable> {
    let Received { id, number, at, inbound, media, content } = *received;
    let unique = u128::from_be_bytes(*id.as_bytes());
    let old = of_place(context, place_of(contact.id))?;
    let mut new =
        old.clone().unwrap_or_else(|| Conversation::new(contact.id, context.now(), at, unique));
    let opens = new.status != ConversationStatus::Open;
    new.status = ConversationStatus::Open;
    new.note_inbound(at);
    // As with the last message, the latest second counts.
    if new.number_at.is_none_or(|last| last.as_secs() <= at.as_secs()) {
        (new.number, new.number_at) = (Some(number), Some(at));
    }
    let (kind, text) = (inbound.kind.to_string(), inbound.shown().to_owned());
    let written = Written {
        direction: Direction::In,
        kind,
        text,
        at,
        mail: None,
        provider_id: Some(inbound.provider_id.clone()),
        media: media.cloned(),
        content: content.cloned().map(Box::new),
    };
    let counted = moved_counts(context, &Vec::from_iter(&old), &[&new])?;
    note_inbox(context, &InboxCounts::one_received(opens))?.write(context);
    let new = note(context, old.as_ref(), new, id, &written, counted);
    if opens {
        emit(context, EventData::ConversationOpened, &new, contact.phone);
    }
    Ok(new)
}

/// Returns the conversation with a party.
pub(crate) fn of_party(
    context: &Context<'_>,
    party: &PartyId,
) -> Result<Option<Conversation>, Unavailable> {
    match party_holder(context, party)? {
        Some(contact) => of_place(context, place_of(contact.id)),
        None => Ok(None),
    }
}

/// Applies a message to a contact, with the day's counts. Returns the changed conversation.
pub(crate) fn sent(
    context: &mut Context<'_>,
    conversation: Conversation,
    wrote: Wrote<'_>,
    noted: InboxNote,
) -> Conversation {
    noted.write(context);
    let at = context.now();
    let (kind, text, media) = (wrote.kind.to_owned(), wrote.text.to_owned(), wrote.media);
    let (direction, mail, provider_id) = (Direction::Out, None, None);
    let written = Written { direction, kind, text, at, mail, provider_id, media, content: None };
    // Its status is unchanged.
    let counted = ChangedCounts::default();
    note(context, Some(&conversation), conversation.clone(), wrote.id, &written, counted)
}

/// Adds a message to a conversation, and writes the counts with it. Returns the changed
/// conversation.
pub(crate) fn note(
    context: &mut Context<'_>,
    old: Option<&Conversation>,
    mut new: Conversation,
    message: MessageId,
    written: &Written,
    counted: ChangedCounts,
) -> Conversation {
    // Messages may be reported in any order. The last message is that of the latest second, and
    // within it the one that came last.
    if new.last_message.is_empty() || new.last_message_at.as_secs() <= written.at.as_secs() {
        new.last_message = match written.text.as_str() {
            "" => format!("[{}]", written.kind),
            text => text.chars().take(PREVIEW_CHARS_MAX).collect(),
        };
        new.last_message_at = new.last_message_at.max(written.at);
    }
    new.active_at = context.now();
    new.added += 1;
    let key = message_key(&context.core.id, &new, message, written.at);
    context.put_json(Table::Conversations, key, written);
    put(context, old, &new, counted);
    new
}
