//! Counts the conversations of each status and of each agent.
//!
//! The counts change in the commit that changes a conversation.
//!
//! [`Table::Conversations`] has, under `workspace ‖ 0`, `n` once they are kept, `n ‖ status` for
//! all of a status and `n ‖ status ‖ agent` for those of one agent.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{Direction, StoreError, Table, View};

use crate::conversations::record::{Conversation, ConversationStatus, Counted, prefix};

const TABLE: Table = Table::Conversations;

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
/// are kept yet, as in data of an earlier version, all are counted.
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
        None => count_all(context.store(), workspace).map_err(unreadable)?,
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

fn count_all(
    store: &dyn View,
    workspace: &WorkspaceId,
) -> Result<BTreeMap<Vec<u8>, u64>, StoreError> {
    let mut counts = BTreeMap::from([(kept_key(workspace), 1)]);
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
