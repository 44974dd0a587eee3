//! A conversation's messages, with the status of each.

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

/// The most scans of a page for which messages that came meanwhile get their records.
const TRIES_MAX: usize = 3;

/// A message of a conversation.
#[derive(Clone, PartialEq, Eq)]
pub struct ConversationMessage {
    /// The message.
    pub id: MessageId,
    /// The direction, by its writer.
    pub direction: Direction,
    /// The type of the content.
    ///
    /// It is the word of its [`MessageKind`](crate::messages::MessageKind), `email`, or the type of
    /// other content of the contact.
    pub kind: String,
    /// The text.
    pub text: String,
    /// The status; `received` for a message of the contact.
    pub status: &'static str,
    /// The reason for the failure, if it failed.
    pub error: Option<MessageError>,
    /// The time of writing.
    pub at: Timestamp,
    /// The sender's notes on a message of the workspace.
    pub notes: SenderNotes,
    /// The attached file.
    pub media: Option<WrittenMedia>,
    /// The content besides the text.
    pub content: Option<Box<WrittenContent>>,
}

/// A page of messages.
#[derive(Clone, PartialEq, Eq)]
pub struct MessagesPage {
    /// The messages of the page, newest first.
    pub messages: Vec<ConversationMessage>,
    /// The number of messages on all pages.
    pub total: usize,
}

impl Workspace {
    /// Returns the messages of a conversation, newest first: `limit` of them after the first
    /// `skip`.
    ///
    /// # Errors
    /// [`ReadConversationError`]: there is no such conversation, or the workspace is unavailable.
    pub async fn conversation_messages(
        &self,
        id: ConversationId,
        skip: usize,
        limit: usize,
    ) -> Result<MessagesPage, ReadConversationError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let hides = self.may_hide_messages();
            let found = self.scan(move |store, workspace| {
                let is_there = view(store, workspace, id)?.is_some();
                is_there.then(|| messages(store, workspace, id, skip, limit)).transpose()
            });
            let (page, is_whole) = found.await?.ok_or(ReadConversationError::NotFound)?;
            if is_whole || !hides || tries == TRIES_MAX {
                return Ok(page);
            }
            self.write_messages().await?;
        }
    }
}

/// Reads a page, and returns whether all of its messages have records.
fn messages(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: ConversationId,
    skip: usize,
    limit: usize,
) -> Result<(MessagesPage, bool), StoreError> {
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
    let (mut page, mut is_whole) = (Vec::with_capacity(found.len()), true);
    for (id, json) in found {
        let (message, has_record) = message(store, workspace, id, &json)?;
        is_whole &= has_record;
        page.push(message);
    }
    Ok((MessagesPage { messages: page, total }, is_whole))
}

/// Reads a message, and returns whether it has a record: an old one has none any more, and a new
/// one may have none yet.
fn message(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: MessageId,
    json: &[u8],
) -> Result<(ConversationMessage, bool), StoreError> {
    let Written { direction, kind, text, at, media, content, .. } = codec::decode(json)?;
    let found = match direction {
        Direction::In => Some(("received", None, SenderNotes::default())),
        Direction::Out => {
            let found = match MessageState::read(store, workspace, id)? {
                Some(state) => Some((state.status, state.error, state.notes)),
                None => email::outcome_of(store, workspace, id)?,
            };
            found.map(|(status, error, notes)| (status.as_str(), error, notes))
        }
    };
    let has_record = found.is_some();
    let (status, error, notes) = found.unwrap_or(("unknown", None, SenderNotes::default()));
    let message =
        ConversationMessage { id, direction, kind, text, status, error, at, notes, media, content };
    Ok((message, has_record))
}
