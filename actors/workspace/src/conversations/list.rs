//! Reading conversations and what was written in them.

use postrider_store::view::codec;
use std::ops::ControlFlow;

use crate::Workspace;
use crate::contacts::{Contact, read_contact};
use crate::email;
use crate::messages::{MessageState, MessageStatus};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ConversationId, MessageId, Timestamp, WorkspaceId};
use postrider_store::{Direction as ScanDirection, StoreError, Table, View};

use crate::conversations::counts;
use crate::conversations::record::{
    Conversation, ConversationStatus, Direction, Written, conversation_key, messages_prefix, prefix,
};

/// Which conversations are asked for; the default is all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConversationFilter {
    /// Those that stand so.
    pub status: Option<ConversationStatus>,
    /// Those that this agent sees to; nobody has an empty name, and sees to none.
    pub assigned_to: Option<String>,
}

/// A conversation and its contact.
pub type ConversationView = (Conversation, Contact);

/// A page of conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationsPage {
    /// Those of the page, the one that was last written in first.
    pub conversations: Vec<ConversationView>,
    /// How many there are on all pages.
    pub total: usize,
}

/// A message of a conversation.
#[derive(Clone, PartialEq, Eq)]
pub struct ConversationMessage {
    /// The message.
    pub id: MessageId,
    /// Who wrote it.
    pub direction: Direction,
    /// `text`, `template`, or what else the contact sent.
    pub kind: String,
    /// What it says.
    pub text: String,
    /// What became of it; `received` for one of the contact's.
    pub status: &'static str,
    /// When it was written.
    pub at: Timestamp,
}

/// A page of messages.
#[derive(Clone, PartialEq, Eq)]
pub struct MessagesPage {
    /// Those of the page, newest first.
    pub messages: Vec<ConversationMessage>,
    /// How many there are on all pages.
    pub total: usize,
}

/// Why a conversation cannot be told of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadConversationError {
    /// The workspace has no such conversation.
    #[error("no such conversation")]
    NotFound,
    /// It cannot be told now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// One conversation.
    ///
    /// # Errors
    /// [`ReadConversationError`]: there is none, or not now.
    pub async fn conversation(
        &self,
        id: ConversationId,
    ) -> Result<ConversationView, ReadConversationError> {
        let found = self.read(move |store, workspace| view(store, workspace, id)).await?;
        found.ok_or(ReadConversationError::NotFound)
    }

    /// The conversations that a filter asks for, the one that was last written in first: `limit` of
    /// them after the first `skip`.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn conversations(
        &self,
        filter: ConversationFilter,
        skip: usize,
        limit: usize,
    ) -> Result<ConversationsPage, Unavailable> {
        self.read(move |store, workspace| {
            let (ids, total) = find(store, workspace, &filter, skip, limit)?;
            let found = ids.into_iter().map(|id| view(store, workspace, id));
            // One that was deleted meanwhile is left out.
            let conversations = found.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            Ok(ConversationsPage { conversations, total })
        })
        .await
    }

    /// What was written in a conversation, newest first: `limit` messages after the first `skip`.
    ///
    /// # Errors
    /// [`ReadConversationError`]: there is none, or not now.
    pub async fn conversation_messages(
        &self,
        id: ConversationId,
        skip: usize,
        limit: usize,
    ) -> Result<MessagesPage, ReadConversationError> {
        let found = self.read(move |store, workspace| {
            let is_there = view(store, workspace, id)?.is_some();
            is_there.then(|| messages(store, workspace, id, skip, limit)).transpose()
        });
        found.await?.ok_or(ReadConversationError::NotFound)
    }
}

/// A conversation and its contact, if both are there.
fn view(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: ConversationId,
) -> Result<Option<ConversationView>, StoreError> {
    let found = store.get(Table::Conversations, &conversation_key(workspace, id))?;
    let Some(json) = found else { return Ok(None) };
    let conversation: Conversation = codec::decode(&json)?;
    let contact = read_contact(store, workspace, conversation.contact_id)?;
    Ok(contact.map(|contact| (conversation, contact)))
}

/// The ids of a page of conversations, and how many there are.
fn find(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &ConversationFilter,
    skip: usize,
    limit: usize,
) -> Result<(Vec<ConversationId>, usize), StoreError> {
    let (mut ids, mut seen) = (Vec::new(), 0);
    if filter.assigned_to.as_deref() == Some("") {
        return Ok((ids, seen));
    }
    let total = counts::total(store, workspace, filter)?;
    let prefix = prefix(workspace, b'a');
    let status = filter.status.map(ConversationStatus::as_byte);
    let assigned_to = filter.assigned_to.as_deref().map(str::as_bytes);
    store.scan(
        Table::Conversations,
        &prefix,
        None,
        ScanDirection::Backward,
        &mut |key, value| {
            let Some((of, to)) = value.split_first() else { return ControlFlow::Continue(()) };
            if status.is_none_or(|status| status == *of) && assigned_to.is_none_or(|it| it == to) {
                seen += 1;
                if seen > skip && ids.len() < limit {
                    ids.extend(key.last_chunk().map(|id| ConversationId::from_bytes(*id)));
                }
            }
            // Where the total is known, the rest need not be looked at.
            match total {
                Some(total) if ids.len() == limit || seen >= total => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        },
    )?;
    Ok((ids, total.unwrap_or(seen)))
}

fn messages(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: ConversationId,
    skip: usize,
    limit: usize,
) -> Result<MessagesPage, StoreError> {
    let (mut found, mut total) = (Vec::new(), 0);
    let prefix = messages_prefix(workspace, id);
    store.scan(
        Table::Conversations,
        &prefix,
        None,
        ScanDirection::Backward,
        &mut |key, value| {
            total += 1;
            if total > skip && found.len() < limit {
                let id = key.last_chunk().map(|id| MessageId::from_bytes(*id));
                found.extend(id.map(|id| (id, value.to_vec())));
            }
            ControlFlow::Continue(())
        },
    )?;
    let messages = found.into_iter().map(|(id, json)| message(store, workspace, id, &json));
    Ok(MessagesPage { messages: messages.collect::<Result<_, _>>()?, total })
}

fn message(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: MessageId,
    json: &[u8],
) -> Result<ConversationMessage, StoreError> {
    let Written { direction, kind, text, at, .. } = codec::decode(json)?;
    let status = match direction {
        Direction::In => "received",
        Direction::Out => {
            let state = store.get(Table::Messages, &MessageState::key(workspace, id))?;
            let state = state.map(|json| codec::decode::<MessageState>(&json)).transpose()?;
            let status = match state {
                Some(state) => Some(state.status),
                None => email::status_of(store, workspace, id)?,
            };
            status.map_or("unknown", MessageStatus::as_str)
        }
    };
    Ok(ConversationMessage { id, direction, kind, text, status, at })
}
