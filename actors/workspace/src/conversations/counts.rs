//! Counts the conversations of each status and of each agent, and those with something unread.
//!
//! The counts change in the commit that changes a conversation.
//!
//! [`Table::Conversations`] has, under `workspace ‖ 0`, `n ‖ status` for all of a status,
//! `n ‖ status ‖ agent` for those of one agent, `u ‖ status` for those of nobody, and `r` for those
//! with something unread.

use crate::Workspace;
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{StoreError, Table, View};

use crate::conversations::record::{ChangedCounts, Conversation, ConversationStatus, prefix};

const TABLE: Table = Table::Conversations;

fn key(workspace: &WorkspaceId, status: u8, agent: &[u8]) -> Vec<u8> {
    [prefix(workspace, b'n').as_slice(), &[status], agent].concat()
}

fn nobodys_key(workspace: &WorkspaceId, status: u8) -> Vec<u8> {
    [prefix(workspace, b'u').as_slice(), &[status]].concat()
}

fn unread_key(workspace: &WorkspaceId) -> Vec<u8> {
    prefix(workspace, b'r')
}

/// Returns the keys of the counts of a status, and of its agent or of nobody.
fn keys(workspace: &WorkspaceId, status: u8, agent: &[u8]) -> [Vec<u8>; 2] {
    let of_agent = match agent {
        [] => nobodys_key(workspace, status),
        agent => key(workspace, status, agent),
    };
    [key(workspace, status, &[]), of_agent]
}

/// The counts once these conversations are not what they were but what they are to be.
pub(crate) fn moved_counts(
    context: &Context<'_>,
    from: &[&Conversation],
    to: &[&Conversation],
) -> Result<ChangedCounts, Unavailable> {
    let standing = |of: &&Conversation| (of.status, of.assigned_to.clone(), of.unread > 0);
    if from.iter().map(standing).eq(to.iter().map(standing)) {
        return Ok(ChangedCounts::default());
    }
    let mut counts = ChangedCounts::default();
    let changes = from.iter().map(|it| (it, -1)).chain(to.iter().map(|it| (it, 1)));
    for (conversation, change) in changes {
        add(context, &mut counts, conversation, change)?;
    }
    Ok(counts)
}

/// Adds a conversation to the counts, or removes it.
fn add(
    context: &Context<'_>,
    ChangedCounts(counts): &mut ChangedCounts,
    conversation: &Conversation,
    change: i64,
) -> Result<(), Unavailable> {
    let workspace = &context.core.id;
    let agent = conversation.assigned_to.as_deref().unwrap_or_default().as_bytes();
    let unread = (conversation.unread > 0).then(|| unread_key(workspace));
    let of = keys(workspace, conversation.status.as_byte(), agent);
    for key in of.into_iter().chain(unread) {
        let count = match counts.get(&key) {
            Some(count) => *count,
            None => number(context.get(TABLE, &key)?).map_err(unreadable)?,
        };
        counts.insert(key, count.saturating_add_signed(change));
    }
    Ok(())
}

/// Returns the number of conversations of a status and an agent; without an agent, of all agents.
pub(crate) fn total(
    store: &dyn View,
    workspace: &WorkspaceId,
    wanted: Option<ConversationStatus>,
    agent: Option<&str>,
) -> Result<usize, StoreError> {
    let agent = agent.unwrap_or_default().as_bytes();
    let mut total = 0;
    for status in ConversationStatus::ALL {
        if wanted.is_none_or(|wanted| wanted == status) {
            total += number(store.get(TABLE, &key(workspace, status.as_byte(), agent))?)?;
        }
    }
    Ok(total as usize)
}

/// Returns the number of unassigned conversations of a status; without a status, of all.
pub(crate) fn unassigned(
    store: &dyn View,
    workspace: &WorkspaceId,
    wanted: Option<ConversationStatus>,
) -> Result<usize, StoreError> {
    let mut total = 0;
    for status in ConversationStatus::ALL {
        if wanted.is_none_or(|wanted| wanted == status) {
            total += number(store.get(TABLE, &nobodys_key(workspace, status.as_byte()))?)?;
        }
    }
    Ok(total as usize)
}

/// The numbers of conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConversationCounts {
    /// The number of those whose contact waits for an answer.
    pub open: usize,
    /// The number of answered ones.
    pub pending: usize,
    /// The number of resolved ones.
    pub resolved: usize,
    /// The number of one agent's that are not resolved.
    pub mine: usize,
    /// The number of unassigned ones that are not resolved.
    pub unassigned: usize,
    /// The number of those with unread messages.
    pub unread: usize,
}

impl Workspace {
    /// Returns the numbers of conversations, and of this agent's.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn conversation_counts(
        &self,
        agent: Option<String>,
    ) -> Result<ConversationCounts, Unavailable> {
        self.read(move |store, workspace| count(store, workspace, agent.as_deref())).await
    }
}

fn count(
    store: &dyn View,
    workspace: &WorkspaceId,
    agent: Option<&str>,
) -> Result<ConversationCounts, StoreError> {
    use ConversationStatus::{Open, Pending, Resolved};
    let of = |status, agent| total(store, workspace, Some(status), agent);
    let mine = match agent.filter(|agent| !agent.is_empty()) {
        Some(_) => of(Open, agent)? + of(Pending, agent)?,
        None => 0,
    };
    let nobodys = |status| unassigned(store, workspace, Some(status));
    Ok(ConversationCounts {
        open: of(Open, None)?,
        pending: of(Pending, None)?,
        resolved: of(Resolved, None)?,
        mine,
        unassigned: nobodys(Open)? + nobodys(Pending)?,
        unread: number(store.get(TABLE, &unread_key(workspace))?)? as usize,
    })
}

fn number(value: Option<Vec<u8>>) -> Result<u64, StoreError> {
    let Some(value) = value else { return Ok(0) };
    let number = value.try_into().map(u64::from_be_bytes);
    number.map_err(|_| StoreError::Damaged("a count of conversations".into()))
}

#[cfg(test)]
mod golden;
