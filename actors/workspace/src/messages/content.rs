//! The content of a message is kept in a record of its own.
//!
//! It is written once, read to hand the message over again, and deleted when the outcome of the
//! message is known.

use postrider_store::view::codec;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use postrider_channel::{Content, Origin, Outbound, TemplateContent, TemplateName};
use postrider_domain::{MessageId, WorkspaceId};
use postrider_store::{StoreError, Table, View};

use crate::core::message_status::MessageStatus;
use crate::messages::record::MessageState;

/// The content's record, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredContent {
    Text(Box<str>),
    Template { template: TemplateName, components: Box<str>, text: Box<str> },
}

impl From<&Content> for StoredContent {
    fn from(content: &Content) -> Self {
        match content {
            Content::Template(content) => {
                let TemplateContent { template, components, text } = (**content).clone();
                Self::Template { template, components, text }
            }
            Content::Text(text) => Self::Text((**text).into()),
            // A code is derived, never stored; no single message has one.
            Content::Otp { .. } => Self::Text(Box::default()),
        }
    }
}

impl StoredContent {
    /// The key of the content's record: that of the message, and one letter.
    pub(crate) fn key(workspace: &WorkspaceId, id: MessageId) -> Vec<u8> {
        let mut key = MessageState::key(workspace, id);
        key.push(b'c');
        key
    }

    fn into_content(self) -> Content {
        match self {
            Self::Text(text) => Content::Text(text.into()),
            Self::Template { template, components, text } => {
                Content::Template(Arc::new(TemplateContent { template, components, text }))
            }
        }
    }
}

/// The message as its number gets it.
pub(crate) fn outbound(
    workspace: &WorkspaceId,
    state: &MessageState,
    content: Content,
) -> Outbound {
    Outbound {
        message_id: state.message_id,
        origin: Origin::Message(state.message_id),
        number: state.number,
        workspace: workspace.clone(),
        to: state.to,
        give_up_at: state.give_up_at,
        content,
    }
}

/// Reads messages from their records, to hand them over again.
///
/// # Errors
/// [`StoreError`] when the store cannot be read. A message without its records is left out and
/// logged: there is nothing to hand over.
pub(crate) fn unsent(
    store: &dyn View,
    workspace: &WorkspaceId,
    ids: &[MessageId],
) -> Result<Vec<Outbound>, StoreError> {
    let mut messages = Vec::with_capacity(ids.len());
    for id in ids {
        let content = store.get(Table::Messages, &StoredContent::key(workspace, *id))?;
        let state = store.get(Table::Messages, &MessageState::key(workspace, *id))?;
        let state = state.and_then(|state| codec::decode::<MessageState>(&state).ok());
        if state.as_ref().is_some_and(|state| state.status != MessageStatus::Queued) {
            // Its answer came meanwhile.
            continue;
        }
        let content = content.and_then(|content| codec::decode::<StoredContent>(&content).ok());
        match state.zip(content) {
            Some((state, content)) => {
                messages.push(outbound(workspace, &state, content.into_content()));
            }
            None => tracing::error!(%workspace, message = %id, "an unsent message cannot be read"),
        }
    }
    Ok(messages)
}
