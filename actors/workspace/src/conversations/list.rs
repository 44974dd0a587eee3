//! Reads conversations and their messages.

use postrider_store::view::codec;
use std::ops::ControlFlow;

use crate::Workspace;
use crate::contacts::{Contact, contact_has, read_contact};
use postrider_domain::fold::fold;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ConversationId, WorkspaceId};
use postrider_store::{Direction as ScanDirection, StoreError, Table, View};

use crate::conversations::counts;
use crate::conversations::record::{Conversation, ConversationStatus, conversation_key, prefix};

/// The number of conversations that a search looks at: each is two records, some 10 µs.
const SEARCHED_MAX: usize = 5_000;

/// The filter of conversations; the default matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConversationFilter {
    /// The status of the conversations.
    pub status: Option<ConversationStatus>,
    /// The assigned agent; no conversation matches an empty name.
    pub assigned_to: Option<String>,
    /// Set for unassigned conversations only.
    pub unassigned: bool,
    /// A text of the contact or the last message, in any case.
    pub search: Option<String>,
}

/// A conversation and its contact.
pub type ConversationView = (Conversation, Contact);

/// A page of conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationsPage {
    /// The conversations of the page, the most recently active first.
    pub conversations: Vec<ConversationView>,
    /// The number of conversations on all pages.
    pub total: usize,
}

/// The reason why a conversation cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadConversationError {
    /// The workspace has no such conversation.
    #[error("no such conversation")]
    NotFound,
    /// The conversation is not known now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Returns one conversation.
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

    /// Returns the conversations that match a filter, the most recently active first.
    ///
    /// They are `limit` of them after the first `skip`.
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
            if let Some(text) = &filter.search {
                return search(store, workspace, &filter, text, skip, limit);
            }
            let (ids, total) = find(store, workspace, &filter, skip, limit)?;
            let found = ids.into_iter().map(|id| view(store, workspace, id));
            // A conversation that was deleted meanwhile is left out.
            let conversations = found.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            Ok(ConversationsPage { conversations, total })
        })
        .await
    }
}

/// Returns a conversation and its contact, if both exist.
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

/// Returns the ids of a page of conversations, and the number of all.
fn find(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &ConversationFilter,
    skip: usize,
    limit: usize,
) -> Result<(Vec<ConversationId>, usize), StoreError> {
    let (mut ids, mut seen) = (Vec::new(), 0);
    let total = match filter.assigned_to.as_deref() {
        Some("") => return Ok((ids, seen)),
        // No conversation is both an agent's and nobody's.
        Some(_) if filter.unassigned => return Ok((ids, seen)),
        None if filter.unassigned => counts::unassigned(store, workspace, filter.status)?,
        agent => counts::total(store, workspace, filter.status, agent)?,
    };
    walk(store, workspace, filter, &mut |id| {
        seen += 1;
        if seen > skip && ids.len() < limit {
            ids.push(id);
        }
        // The total is known, so the rest need not be looked at.
        match ids.len() == limit || seen >= total {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    Ok((ids, total))
}

/// Visits the conversations of a status and an agent, the most recently active first.
fn walk(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &ConversationFilter,
    visit: &mut dyn FnMut(ConversationId) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let prefix = prefix(workspace, b'a');
    let status = filter.status.map(ConversationStatus::as_byte);
    let nobody = filter.unassigned.then_some(&b""[..]);
    let assigned_to = filter.assigned_to.as_deref().map(str::as_bytes).or(nobody);
    let direction = ScanDirection::Backward;
    store.scan(Table::Conversations, &prefix, None, direction, &mut |key, value| {
        let Some((of, to)) = value.split_first() else { return ControlFlow::Continue(()) };
        let fits = status.is_none_or(|it| it == *of) && assigned_to.is_none_or(|it| it == to);
        match key.last_chunk().filter(|_| fits) {
            Some(id) => visit(ConversationId::from_bytes(*id)),
            None => ControlFlow::Continue(()),
        }
    })
}

/// Returns the page of those whose contact or last message has a text, of the last
/// [`SEARCHED_MAX`].
fn search(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &ConversationFilter,
    text: &str,
    skip: usize,
    limit: usize,
) -> Result<ConversationsPage, StoreError> {
    let mut ids = Vec::new();
    walk(store, workspace, filter, &mut |id| {
        ids.push(id);
        if ids.len() < SEARCHED_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let needle = fold(text);
    let (mut conversations, mut total) = (Vec::new(), 0);
    for id in ids {
        let Some(found) = view(store, workspace, id)? else { continue };
        if contact_has(&found.1, &needle) || fold(&found.0.last_message).contains(&needle) {
            total += 1;
            if total > skip && conversations.len() < limit {
                conversations.push(found);
            }
        }
    }
    Ok(ConversationsPage { conversations, total })
}
