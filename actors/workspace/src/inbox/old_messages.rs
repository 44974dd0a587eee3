//! Messages of conversations that are older than their retention. The conversations stay.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_domain::{MessageId, Timestamp};
use postrider_store::view::codec;
use postrider_store::{StoreError, Table};

use crate::conversations::record::{Direction, Written, prefix};
use crate::email;
use crate::sweep::{Look, NEVER, RecordKeys, SweepCursor};

/// The time between two rounds.
const ROUND: Duration = Duration::from_secs(24 * 3600);
/// The maximum number of messages that one slice deletes: one by e-mail has four records.
const SLICE_MAX: usize = 250;
/// The maximum number of conversations whose younger messages one slice passes over.
const LOOKS_MAX: usize = 500;
/// The bytes of a conversation's id, after which keys have the moment of the message.
const ID_BYTES: usize = 16;
/// The bytes of that moment.
const MOMENT_BYTES: usize = 6;

/// Finds some of the messages of conversations that are older than their retention.
///
/// In each conversation the oldest come first, so it passes over the rest of it with one seek.
pub(crate) fn too_old(look: &Look<'_>, cursor: &mut SweepCursor) -> Result<RecordKeys, StoreError> {
    let Some(kept_for) = look.kept.messages.written_kept_for else {
        cursor.rest_until(NEVER);
        return Ok(Vec::new());
    };
    let all = prefix(look.workspace, b'm');
    let first_kept = look.now.minus(kept_for);
    let mut rows = Vec::new();
    for _ in 0..LOOKS_MAX {
        let from = cursor.from.clone();
        let mut is_end = true;
        look.scan(Table::Conversations, &all, &from, &mut |key, row| {
            is_end = false;
            if rows.len() == SLICE_MAX {
                return ControlFlow::Break(());
            }
            if !is_before(&key[all.len()..], first_kept) {
                // This is behind all messages of its conversation.
                let conversation = &key[..key.len().min(all.len() + ID_BYTES)];
                cursor.pass(&[conversation, &[0xff; MOMENT_BYTES + 1]].concat());
                return ControlFlow::Break(());
            }
            cursor.pass(key);
            rows.push((key.to_vec(), row.to_vec()));
            is_end = true;
            ControlFlow::Continue(())
        })?;
        if rows.len() == SLICE_MAX {
            break;
        }
        if is_end {
            // The next round starts with the first conversation.
            cursor.from.clear();
            cursor.rest_until(look.now.plus(ROUND));
            break;
        }
    }
    records(look, rows)
}

/// Returns whether a message was written before this moment, by its key within the workspace's.
fn is_before(key: &[u8], first_kept: Timestamp) -> bool {
    let Some(at) = key.get(ID_BYTES..ID_BYTES + MOMENT_BYTES) else { return false };
    let [_, _, first_kept @ ..] = first_kept.as_millis().to_be_bytes();
    at < first_kept.as_slice()
}

/// Returns the records of these messages. A mail that has not left stays until the next round.
fn records(look: &Look<'_>, rows: Vec<(Vec<u8>, Vec<u8>)>) -> Result<RecordKeys, StoreError> {
    let mut keys = Vec::new();
    for (key, row) in rows {
        let Some(id) = key.last_chunk().map(|id| MessageId::from_bytes(*id)) else { continue };
        // An unreadable message stays as it is; its readers get the error.
        let Ok(written) = codec::decode::<Written>(&row) else { continue };
        if written.direction == Direction::Out && email::is_waiting(look, id)? {
            continue;
        }
        keys.extend(email::records_with_message(look, id, &written)?);
        keys.push((Table::Conversations, key));
    }
    Ok(keys)
}
