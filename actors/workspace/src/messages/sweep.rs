//! Which messages are older than messages are kept.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_domain::MessageId;
use postrider_store::view::codec;
use postrider_store::{StoreError, Table};

use crate::core::message_status::MessageStatus;
use crate::messages::index;
use crate::messages::record::MessageState;
use crate::sweep::{Look, NEVER, RecordKeys, SLICE_MAX, SweepCursor};

/// How often it is looked for them.
const ROUND: Duration = Duration::from_secs(3600);

/// Reads some of the messages that are older than they are kept. One that may still be sent, or
/// settled by a report, stays until that is over.
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
        if keys.len() >= SLICE_MAX {
            next = look.now;
            return ControlFlow::Break(());
        }
        if part.is_empty() {
            // One whose record cannot be read stays as it is; its readers get the error.
            let state = codec::decode::<MessageState>(value).ok();
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

/// Whether nothing more is to be learned of a message that changes what it cost.
fn is_settled(state: &MessageState, look: &Look<'_>) -> bool {
    match state.status {
        MessageStatus::Queued => false,
        MessageStatus::Unknown => {
            state.last_moment().plus(look.kept.messages.unknown_after) <= look.now
        }
        _ => true,
    }
}
