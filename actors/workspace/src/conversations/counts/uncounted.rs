//! Counts what an earlier version has left uncounted, a few conversations at a time.
//!
//! The start notes up to which conversation there is something to count, and begins to serve. Then
//! a task reads a few conversations beside the actor, and a command counts them as they stand in
//! its turn, with how far it is, in one commit. A change of a conversation that is not counted yet
//! changes no counts. So a crash costs nothing, and nothing is counted twice.

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{ConversationId, WorkspaceId};
use postrider_store::{Change, Direction, StoreError, Table, View, Writer};

use super::{CountError, TABLE, VERSION, add, kept_key, nobodys_prefix, number, unread_key};
use crate::Workspace;
use crate::conversations::record::{self, Counted, conversation_key, prefix};
use crate::core::command::{Command, Context};
use crate::core::read_ahead::{ReadAhead, Reader, Reading};
use crate::core::view::unreadable;
use crate::services::Services;

/// Conversations that one command counts. It reads each, and a count of its status and its agent,
/// should all have changed since they were read for it.
const SLICE: usize = 24;
/// Changes that one commit makes.
const CHANGES_AT_ONCE: usize = 1000;
/// How often the records themselves may refuse a step.
const FAILURES_MAX: usize = 5;
/// The shortest wait before a step that was refused is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// Between these, conversations are not counted: those after `from`, up to `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uncounted {
    from: ConversationId,
    to: ConversationId,
}

impl Uncounted {
    /// Of a workspace in which something is still to be counted.
    pub(super) fn decode(value: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("up to where conversations are counted".into());
        let (&version, ids) = value.split_first().ok_or_else(damaged)?;
        let (from, to) = ids.split_first_chunk().ok_or_else(damaged)?;
        match to.try_into() {
            Ok(to) if u64::from(version) == VERSION => {
                let from = ConversationId::from_bytes(*from);
                Ok(Self { from, to: ConversationId::from_bytes(to) })
            }
            _ => Err(damaged()),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        [&[VERSION as u8], self.from.as_bytes().as_slice(), self.to.as_bytes()].concat()
    }

    /// Whether the conversation is one of those that are not counted.
    pub(super) fn has(&self, id: ConversationId) -> bool {
        self.from < id && id <= self.to
    }

    pub(super) fn read(
        store: &dyn View,
        workspace: &WorkspaceId,
    ) -> Result<Option<Self>, StoreError> {
        store.get(TABLE, &key(workspace))?.map(|value| Self::decode(&value)).transpose()
    }

    /// The same, as commands before have left it.
    pub(super) fn of(context: &Context<'_>) -> Result<Option<Self>, Unavailable> {
        let value = context.get(TABLE, &key(&context.core.id))?;
        value.map(|value| Self::decode(&value).map_err(unreadable)).transpose()
    }
}

pub(super) fn key(workspace: &WorkspaceId) -> Vec<u8> {
    prefix(workspace, b'p')
}

/// Notes of each workspace where no counts are kept yet what there is to count. It must come before
/// the workspaces' actors. Returns those of which [`count_beside`] has something to count.
///
/// # Errors
/// [`CountError`]: the store cannot be used.
pub async fn see_to_counts(
    store: &Arc<dyn View>,
    writer: &Writer,
    workspaces: &[WorkspaceId],
) -> Result<Vec<WorkspaceId>, CountError> {
    let mut uncounted = Vec::new();
    for workspace in workspaces {
        if number(store.get(TABLE, &kept_key(workspace))?)? == VERSION {
            continue;
        }
        if store.get(TABLE, &key(workspace))?.is_some() {
            uncounted.push(workspace.clone());
            continue;
        }
        let (view, of) = (Arc::clone(store), workspace.clone());
        let looking = tokio::task::spawn_blocking(move || begin(view.as_ref(), &of));
        let changes = looking.await.map_err(|_| CountError::Interrupted)??;
        for some in changes.chunks(CHANGES_AT_ONCE) {
            writer.commit(some.to_vec()).await?;
        }
        uncounted.extend((!changes.is_empty()).then(|| workspace.clone()));
    }
    Ok(uncounted)
}

/// The changes that begin to count a workspace's conversations, the one that says so last: what
/// another version has counted is deleted. None where there is no conversation.
fn begin(store: &dyn View, workspace: &WorkspaceId) -> Result<Vec<Change>, StoreError> {
    let mut last = None;
    let all = prefix(workspace, b'c');
    store.scan(TABLE, &all, None, Direction::Backward, &mut |key, _| {
        last = id_of(key, &all);
        ControlFlow::Break(())
    })?;
    let Some(to) = last else { return Ok(Vec::new()) };
    let mut changes = Vec::new();
    for counts in [kept_key(workspace), nobodys_prefix(workspace), unread_key(workspace)] {
        store.scan(TABLE, &counts, None, Direction::Forward, &mut |key, _| {
            changes.push(Change::delete(TABLE, key));
            ControlFlow::Continue(())
        })?;
    }
    let from = ConversationId::from_bytes([0; 16]);
    changes.push(Change::put(TABLE, key(workspace), Uncounted { from, to }.encode()));
    Ok(changes)
}

fn id_of(key: &[u8], prefix: &[u8]) -> Option<ConversationId> {
    let id = key.strip_prefix(prefix)?.try_into().ok()?;
    Some(ConversationId::from_bytes(id))
}

/// Counts, one workspace after the other, what [`see_to_counts`] has found. It returns at once.
pub fn count_beside(shared: &Arc<Services>, workspaces: Vec<WorkspaceId>) {
    let shared = Arc::downgrade(shared);
    drop(tokio::spawn(async move {
        for workspace in workspaces {
            if count_all(&shared, &workspace).await.is_err() {
                return;
            }
        }
    }));
}

/// The engine has stopped, or is stopping.
struct Stopped;

async fn count_all(shared: &Weak<Services>, id: &WorkspaceId) -> Result<(), Stopped> {
    let (mut counted, mut failures) = (0, 0);
    loop {
        let of = {
            let shared = shared.upgrade().ok_or(Stopped)?;
            let Some(slot) = shared.workspaces.slot(id) else { return Ok(()) };
            Workspace::new(shared, slot)
        };
        match of.count_some().await {
            Ok(0) => break,
            Ok(some) => (counted, failures) = (counted + some, 0),
            Err(why) if why.reason == UnavailableReason::Draining => return Err(Stopped),
            Err(why) => {
                // A store that is being opened again is no reason to give up.
                let is_open = shared.upgrade().is_some_and(|it| it.writer.is_healthy());
                let lasts =
                    matches!(why.reason, UnavailableReason::Storage | UnavailableReason::Parked(_));
                failures += usize::from(lasts && is_open);
                if failures == FAILURES_MAX {
                    // The next start goes on with it.
                    tracing::warn!(workspace = %id, %why, "conversations are not counted");
                    return Ok(());
                }
                tokio::time::sleep(why.retry_after.max(PAUSE)).await;
            }
        }
    }
    if counted > 0 {
        tracing::info!(workspace = %id, counted, "its conversations were counted");
    }
    Ok(())
}

impl Workspace {
    /// Counts some conversations; gives how many, and none at the end.
    async fn count_some(&self) -> Result<usize, Unavailable> {
        let reading = self.slot.reading_ahead.begin();
        let slice = self.read(move |store, workspace| read_slice(store, workspace, reading));
        match slice.await? {
            Some(slice) => self.perform(slice).await,
            None => Ok(0),
        }
    }
}

/// Conversations that are counted next.
struct Slice {
    ids: Vec<ConversationId>,
    /// Those that it was read of, and those that are left.
    of: Uncounted,
    left: Uncounted,
    ahead: ReadAhead,
}

fn read_slice(
    store: &dyn View,
    workspace: &WorkspaceId,
    reading: Reading,
) -> Result<Option<Slice>, StoreError> {
    let Some(of) = Uncounted::read(store, workspace)? else { return Ok(None) };
    let mut ids = Vec::new();
    let (all, from) = (prefix(workspace, b'c'), conversation_key(workspace, of.from));
    store.scan(TABLE, &all, Some(&from), Direction::Forward, &mut |key, _| {
        match id_of(key, &all) {
            Some(id) if id > of.to => return ControlFlow::Break(()),
            id => ids.extend(id.filter(|id| of.has(*id))),
        }
        if ids.len() < SLICE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    // With less than a whole slice there is nothing behind it.
    let last = ids.last().filter(|_| ids.len() == SLICE).copied().unwrap_or(of.to);
    let mut reader = Reader::new(store, reading);
    for id in &ids {
        reader.get(TABLE, conversation_key(workspace, *id))?;
    }
    let left = Uncounted { from: last, ..of };
    Ok(Some(Slice { ids, of, left, ahead: reader.done() }))
}

impl Command for Slice {
    type Answer = usize;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<usize, Unavailable> {
        let Self { ids, of, left, ahead } = self;
        // Another has counted them.
        if Uncounted::of(context)? != Some(of) {
            return Ok(0);
        }
        context.ahead = Some(ahead);
        let mut counts = Counted::default();
        for id in &ids {
            // It may be removed.
            if let Some(conversation) = record::find(context, *id)? {
                add(context, &mut counts, &conversation, 1)?;
            }
        }
        let (kept, key) = (kept_key(&context.core.id), key(&context.core.id));
        if left.from == left.to {
            context.delete(Table::Conversations, key);
            counts.0.insert(kept, VERSION);
        } else {
            context.put(Table::Conversations, key, left.encode());
        }
        counts.write(context);
        // The last slice may be empty, because those that it was to count were removed.
        Ok(ids.len().max(1))
    }
}
