//! A conversation's messages, with what became of each.

use std::ops::ControlFlow;

use postrider_domain::{ConversationId, MessageId, SenderNotes, Timestamp, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{Direction as ScanDirection, StoreError, Table, View};

use crate::Workspace;
use crate::conversations::WrittenContent;
use crate::conversations::list::{ReadConversationError, view};
use crate::conversations::record::{Direction, Written, WrittenMedia, messages_prefix};
use crate::email;
use crate::messages::{MessageError, MessageState};

/// A message of a conversation.
#[derive(Clone, PartialEq, Eq)]
pub struct ConversationMessage {
    /// The message.
    pub id: MessageId,
    /// Who wrote it.
    pub direction: Direction,
    /// The word of its [`MessageKind`](crate::messages::MessageKind), `email`, or what else the
    /// contact sent.
    pub kind: String,
    /// What it says.
    pub text: String,
    /// What became of it; `received` for one of the contact's.
    pub status: &'static str,
    /// Why it failed, if it did.
    pub error: Option<MessageError>,
    /// When it was written.
    pub at: Timestamp,
    /// What its sender notes of one of the workspace's.
    pub notes: SenderNotes,
    /// The file that it has.
    pub media: Option<WrittenMedia>,
    /// What it has beside its text.
    pub content: Option<Box<WrittenContent>>,
}

/// A page of messages.
#[derive(Clone, PartialEq, Eq)]
pub struct MessagesPage {
    /// Those of the page, newest first.
    pub messages: Vec<ConversationMessage>,
    /// How many there are on all pages.
    pub total: usize,
}

impl Workspace {
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
        let found = self.scan(move |store, workspace| {
            let is_there = view(store, workspace, id)?.is_some();
            is_there.then(|| messages(store, workspace, id, skip, limit)).transpose()
        });
        found.await?.ok_or(ReadConversationError::NotFound)
    }
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
    let Written { direction, kind, text, at, media, content, .. } = codec::decode(json)?;
    let (status, error, notes) = match direction {
        Direction::In => ("received", None, SenderNotes::default()),
        Direction::Out => {
            let found = match MessageState::read(store, workspace, id)? {
                Some(state) => Some((state.status, state.error, state.notes)),
                None => email::outcome_of(store, workspace, id)?,
            };
            found.map_or(("unknown", None, SenderNotes::default()), |(status, error, notes)| {
                (status.as_str(), error, notes)
            })
        }
    };
    Ok(ConversationMessage { id, direction, kind, text, status, error, at, notes, media, content })
}
