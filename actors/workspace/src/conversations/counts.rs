//! Counts the conversations of each status and of each agent, and those with something unread.
//!
//! The counts change in the commit that changes a conversation. Where an earlier version kept none,
//! or fewer, the start counts, so that no command has to.
//!
//! [`Table::Conversations`] has, under `workspace ‖ 0`, `n` with the version once they are kept,
//! `n ‖ status` for all of a status, `n ‖ status ‖ agent` for those of one agent, `u ‖ status` for
//! those of nobody, and `r` for those with something unread. Version 1 had neither of the last two,
//! and no conversation of its time has anything unread.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::Workspace;
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{Change, CommitError, Direction, StoreError, Table, View, Writer};

use crate::conversations::record::{Conversation, ConversationStatus, Counted, prefix};

const TABLE: Table = Table::Conversations;
/// The version of the counts, as a number like theirs.
const VERSION: u64 = 2;
/// Counts that one commit writes.
const COUNTS_AT_ONCE: usize = 1000;

/// Why the conversations could not be counted at the start.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The counts cannot be written.
    #[error("the conversations could not be counted: {0}")]
    Commit(#[from] CommitError),
    /// The thread that counts has died.
    #[error("the conversations could not be counted")]
    Interrupted,
}

/// Counts the conversations of the workspaces where no counts are kept yet. It must come before
/// their actors. What a crash interrupts is done again, as the mark that they are kept comes last.
///
/// # Errors
/// [`CountError`]: the store cannot be used.
pub async fn see_to_counts(
    store: &Arc<dyn View>,
    writer: &Writer,
    workspaces: &[WorkspaceId],
) -> Result<(), CountError> {
    for workspace in workspaces {
        if number(store.get(TABLE, &kept_key(workspace))?)? == VERSION {
            continue;
        }
        let (view, of) = (Arc::clone(store), workspace.clone());
        // It reads a short record of each conversation, which takes a second or two of a million.
        let counting = tokio::task::spawn_blocking(move || count_all(view.as_ref(), &of));
        let counts = counting.await.map_err(|_| CountError::Interrupted)??;
        if counts.is_empty() {
            continue;
        }
        let mark = (kept_key(workspace), VERSION);
        let all: Vec<_> = counts.into_iter().chain([mark]).collect();
        for some in all.chunks(COUNTS_AT_ONCE) {
            let change = |(key, count): &(Vec<u8>, u64)| {
                Change::put(TABLE, key.clone(), count.to_be_bytes())
            };
            writer.commit(some.iter().map(change).collect()).await?;
        }
        tracing::info!(%workspace, "its conversations were counted");
    }
    Ok(())
}

fn kept_key(workspace: &WorkspaceId) -> Vec<u8> {
    prefix(workspace, b'n')
}

fn key(workspace: &WorkspaceId, status: u8, agent: &[u8]) -> Vec<u8> {
    [kept_key(workspace).as_slice(), &[status], agent].concat()
}

fn nobodys_key(workspace: &WorkspaceId, status: u8) -> Vec<u8> {
    [prefix(workspace, b'u').as_slice(), &[status]].concat()
}

fn unread_key(workspace: &WorkspaceId) -> Vec<u8> {
    prefix(workspace, b'r')
}

/// What counts conversations of a status and an agent's, or nobody's.
fn keys(workspace: &WorkspaceId, status: u8, agent: &[u8]) -> [Vec<u8>; 2] {
    let of_agent = match agent {
        [] => nobodys_key(workspace, status),
        agent => key(workspace, status, agent),
    };
    [key(workspace, status, &[]), of_agent]
}

/// The counts once these conversations are not what they were but what they are to be. Where none
/// are kept there has been no conversation: the start has counted what an earlier version left.
pub(crate) fn moved(
    context: &Context<'_>,
    from: &[&Conversation],
    to: &[&Conversation],
) -> Result<Counted, Unavailable> {
    let standing = |of: &&Conversation| (of.status, of.assigned_to.clone(), of.unread > 0);
    if from.iter().map(standing).eq(to.iter().map(standing)) {
        return Ok(Counted::default());
    }
    let workspace = &context.core.id;
    let mut counts = match context.get(TABLE, &kept_key(workspace))? {
        Some(_) => BTreeMap::new(),
        None => BTreeMap::from([(kept_key(workspace), VERSION)]),
    };
    let changes = from.iter().map(|it| (it, -1)).chain(to.iter().map(|it| (it, 1)));
    for (conversation, change) in changes {
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
    }
    Ok(Counted(counts))
}

/// All counts, by key; none where there is no conversation.
fn count_all(
    store: &dyn View,
    workspace: &WorkspaceId,
) -> Result<BTreeMap<Vec<u8>, u64>, StoreError> {
    let mut counts = BTreeMap::new();
    let all = prefix(workspace, b'a');
    store.scan(TABLE, &all, None, Direction::Forward, &mut |_, value| {
        if let Some((status, agent)) = value.split_first() {
            for key in keys(workspace, *status, agent) {
                *counts.entry(key).or_default() += 1;
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(counts)
}

/// How many conversations have a status and an agent; without an agent those of all agents count.
/// `None` where the counts are not kept yet.
pub(crate) fn total(
    store: &dyn View,
    workspace: &WorkspaceId,
    wanted: Option<ConversationStatus>,
    agent: Option<&str>,
) -> Result<Option<usize>, StoreError> {
    if store.get(TABLE, &kept_key(workspace))?.is_none() {
        return Ok(None);
    }
    let agent = agent.unwrap_or_default().as_bytes();
    let mut total = 0;
    for status in ConversationStatus::ALL {
        if wanted.is_none_or(|wanted| wanted == status) {
            total += number(store.get(TABLE, &key(workspace, status.as_byte(), agent))?)?;
        }
    }
    Ok(Some(total as usize))
}

/// How many conversations are nobody's and stand so; without a status of all.
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

/// How many conversations there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConversationCounts {
    /// Those whose contact waits for an answer.
    pub open: usize,
    /// Those that are answered.
    pub pending: usize,
    /// Those that are done.
    pub resolved: usize,
    /// Those of one agent that are not done.
    pub mine: usize,
    /// Those of nobody that are not done.
    pub unassigned: usize,
    /// Those with something unread.
    pub unread: usize,
}

impl Workspace {
    /// How many conversations there are, and how many of them are this agent's.
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
    let of = |status, agent| {
        Ok::<_, StoreError>(total(store, workspace, Some(status), agent)?.unwrap_or(0))
    };
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
