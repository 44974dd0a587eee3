//! The sweep of messages past their retention time.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_domain::MessageId;
use postrider_store::{StoreError, Table};

use crate::core::message_status::MessageStatus;
use crate::messages::index;
use crate::messages::record::MessageState;
use crate::sweep::{Look, NEVER, RecordKeys, SLICE_MAX, SweepCursor};

/// The interval of the search for them.
const ROUND: Duration = Duration::from_secs(3600);

/// Reads some of the messages past their retention time.
///
/// A message that may still be sent, or settled by a report, stays until that is over.
pub(crate) fn too_old(look: &Look<'_>, cursor: &mut SweepCursor) -> Result<RecordKeys, StoreError> {
    let Some(kept_for) = look.kept.messages.kept_for else {
        cursor.rest_until(NEVER);
        return Ok(Vec::new());
    };
    let prefix = MessageState::prefix(look.workspace);
    let from = cursor.from.clone();
    let (mut keys, mut next) = (Vec::new(), look.now.plus(ROUND));
    let mut goes = None;
    look.scan(Table::Messages, &prefix, &from, &mut |key, value| {
        let Some((id, part)) = key[prefix.len()..].split_first_chunk() else {
            return ControlFlow::Continue(());
        };
        let id = MessageId::from_bytes(*id);
        if id.timestamp().plus(kept_for) > look.now {
            return ControlFlow::Break(());
        }
        // The parts of a message are deleted together.
        if part.is_empty() && keys.len() >= SLICE_MAX {
            next = look.now;
            return ControlFlow::Break(());
        }
        if part.is_empty() {
            // A message whose record cannot be read stays; its readers get the error.
            let state = MessageState::decode(id, value).ok();
            let settled = state.filter(|state| is_settled(state, look));
            goes = settled.is_some().then_some(id);
            let entries = settled.iter().flat_map(|state| index::keys(look.workspace, state));
            keys.extend(entries.map(|key| (Table::MessageIndex, key)));
        }
        if goes == Some(id) {
            cursor.pass(key);
            keys.push((Table::Messages, key.to_vec()));
        } else {
            cursor.pass_over(key);
        }
        ControlFlow::Continue(())
    })?;
    cursor.rest_until(next);
    Ok(keys)
}

/// Returns whether no later report can change the cost of a message.
fn is_settled(state: &MessageState, look: &Look<'_>) -> bool {
    match state.status {
        MessageStatus::Queued => false,
        MessageStatus::Unknown => {
            state.last_moment().plus(look.kept.messages.unknown_after) <= look.now
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use postrider_domain::{Timestamp, WorkspaceId};
    use postrider_store::{Change, Direction, Group, MemoryStore, Store, View};

    use super::*;
    use crate::core::settings::MessageOptions;
    use crate::sweep::Kept;

    /// Returns all keys of a table.
    fn keys_of(store: &MemoryStore, table: Table) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let visit = &mut |key: &[u8], _: &[u8]| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        };
        store.scan(table, &[], None, Direction::Forward, visit).unwrap();
        keys
    }

    #[test]
    fn all_parts_of_a_message_go_wherever_a_slice_ends() {
        let (store, workspace) = (MemoryStore::new(), "acme".parse::<WorkspaceId>().unwrap());
        for number in 0..400 {
            let mut state = index::tests::state(Timestamp::from_millis(1_000 + number));
            state.notes.reference = None;
            let key = MessageState::key(&workspace, state.message_id);
            let content = [&*key, b"c"].concat();
            let mut changes = vec![
                Change::put(Table::Messages, key, state.encode()),
                Change::put(Table::Messages, content, *b"{}"),
            ];
            let entries = index::keys(&workspace, &state);
            changes.extend(entries.map(|key| Change::put(Table::MessageIndex, key, [])));
            store.commit(Group::new(None, &changes)).unwrap();
        }
        let day = Duration::from_secs(24 * 3_600);
        let messages = MessageOptions { kept_for: Some(day), ..MessageOptions::default() };
        let kept = Kept { broadcasts: day, messages, otps: day };
        let now = Timestamp::from_millis(1_400).plus(2 * day);
        let look = Look { store: &store, workspace: &workspace, now, kept, age_rests: false };
        let mut cursor = SweepCursor::default();
        while cursor.is_due(now) {
            let keys = too_old(&look, &mut cursor).unwrap();
            let removed = keys.into_iter().map(|(table, key)| Change::delete(table, key));
            store.commit(Group::new(None, &removed.collect::<Vec<_>>())).unwrap();
        }
        assert!(keys_of(&store, Table::Messages).is_empty());
        assert!(keys_of(&store, Table::MessageIndex).is_empty());
    }
}
