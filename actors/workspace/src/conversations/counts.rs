//! Counts the conversations of each status and of each agent.
//!
//! The counts change in the commit that changes a conversation. Where an earlier version kept none,
//! the start counts, so that no command has to.
//!
//! [`Table::Conversations`] has, under `workspace ‖ 0`, `n` once they are kept, `n ‖ status` for
//! all of a status and `n ‖ status ‖ agent` for those of one agent.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{Change, CommitError, Direction, StoreError, Table, View, Writer};

use crate::conversations::record::{Conversation, ConversationStatus, Counted, prefix};

const TABLE: Table = Table::Conversations;
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
        if store.get(TABLE, &kept_key(workspace))?.is_some() {
            continue;
        }
        let (view, of) = (Arc::clone(store), workspace.clone());
        // It reads a short record of each conversation, which takes a second or two of a million.
        let counting = tokio::task::spawn_blocking(move || count_all(view.as_ref(), &of));
        let counts = counting.await.map_err(|_| CountError::Interrupted)??;
        if counts.is_empty() {
            continue;
        }
        let mark = (kept_key(workspace), 1);
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

/// What counts conversations of a status and an agent's: without an agent there is one count.
fn keys(workspace: &WorkspaceId, status: u8, agent: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let of_agent = (!agent.is_empty()).then(|| key(workspace, status, agent));
    [key(workspace, status, &[])].into_iter().chain(of_agent)
}

/// The counts once these conversations are not what they were but what they are to be. Where none
/// are kept there has been no conversation: the start has counted what an earlier version left.
pub(crate) fn moved(
    context: &Context<'_>,
    from: &[&Conversation],
    to: &[&Conversation],
) -> Result<Counted, Unavailable> {
    let standing = |of: &&Conversation| (of.status, of.assigned_to.clone());
    if from.iter().map(standing).eq(to.iter().map(standing)) {
        return Ok(Counted::default());
    }
    let workspace = &context.core.id;
    let mut counts = match context.get(TABLE, &kept_key(workspace))? {
        Some(_) => BTreeMap::new(),
        None => BTreeMap::from([(kept_key(workspace), 1)]),
    };
    let changes = from.iter().map(|it| (it, -1)).chain(to.iter().map(|it| (it, 1)));
    for (conversation, change) in changes {
        let agent = conversation.assigned_to.as_deref().unwrap_or_default().as_bytes();
        for key in keys(workspace, conversation.status.as_byte(), agent) {
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
            keys(workspace, *status, agent).for_each(|key| *counts.entry(key).or_default() += 1);
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

fn number(value: Option<Vec<u8>>) -> Result<u64, StoreError> {
    let Some(value) = value else { return Ok(0) };
    let number = value.try_into().map(u64::from_be_bytes);
    number.map_err(|_| StoreError::Damaged("a count of conversations".into()))
}

#[cfg(test)]
mod golden;
