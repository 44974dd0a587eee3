//! Reading conversations and what was written in them.

use postrider_store::view::codec;
use std::ops::ControlFlow;

use crate::Workspace;
use crate::contacts::{Contact, read_contact};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ConversationId, WorkspaceId};
use postrider_store::{Direction as ScanDirection, StoreError, Table, View};

use crate::conversations::counts;
use crate::conversations::record::{Conversation, ConversationStatus, conversation_key, prefix};

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
        self.scan(move |store, workspace| {
            let (ids, total) = find(store, workspace, &filter, skip, limit)?;
            let found = ids.into_iter().map(|id| view(store, workspace, id));
            // One that was deleted meanwhile is left out.
            let conversations = found.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            Ok(ConversationsPage { conversations, total })
        })
        .await
    }
}

/// A conversation and its contact, if both are there.
pub(crate) fn view(
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
    let total = counts::total(store, workspace, filter.status, filter.assigned_to.as_deref())?;
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
