//! Pure: the data that a snapshot keeps of a workspace whose state cannot be read.
//!
//! It is the state of the last snapshot that had one, and every section of the journal behind it,
//! with its position. So the journal may be trimmed, and a version that can read the data restores
//! the workspace.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | [`MARK`], which begins no hot state |
//! | 8 | the position of the state |
//! | 4 + n | the state; nothing if there was none |
//! | 8, 4 + n | of each section: its position and its events |

use postrider_store::Position;

use super::Rebases;
use crate::core::hot_state::HotState;

/// The first byte.
const MARK: u8 = 0xfe;

/// Starts to keep the data of a workspace: `before` is its entry in the snapshot at `position`.
///
/// An entry that is already kept data is continued.
pub(super) fn begin(before: &[u8], position: Position) -> Vec<u8> {
    if before.first() == Some(&MARK) {
        return before.to_vec();
    }
    let mut kept = vec![MARK];
    put(&mut kept, position, before);
    kept
}

/// Adds a section.
pub(super) fn add(kept: &mut Vec<u8>, position: Position, events: &[u8]) {
    put(kept, position, events);
}

fn put(kept: &mut Vec<u8>, position: Position, bytes: &[u8]) {
    kept.extend_from_slice(&position.0.to_be_bytes());
    kept.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    kept.extend_from_slice(bytes);
}

/// Splits off a position and its bytes.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(Position, &'a [u8])> {
    let (position, tail) = rest.split_first_chunk()?;
    let (length, tail) = tail.split_first_chunk()?;
    let length = u32::from_be_bytes(*length) as usize;
    let bytes = tail.get(..length)?;
    *rest = &tail[length..];
    Some((Position(u64::from_be_bytes(*position)), bytes))
}

/// Returns the state of an entry of a snapshot right before `at`.
///
/// Kept data is replayed.
pub(super) fn state_of(entry: &[u8], at: Position, rebases: &Rebases) -> Result<HotState, String> {
    let of_snapshot = |error: &dyn std::fmt::Display| format!("its snapshot: {error}");
    let Some((&MARK, mut rest)) = entry.split_first() else {
        return HotState::decode(entry).map_err(|error| of_snapshot(&error));
    };
    let cut = || of_snapshot(&"what was kept of it is not whole");
    let (position, before) = next(&mut rest).ok_or_else(cut)?;
    let mut state = match before {
        [] => HotState::default(),
        before => HotState::decode(before).map_err(|error| of_snapshot(&error))?,
    };
    // A snapshot may have been taken right before the clock was rebased.
    let mut reached = position.previous();
    while !rest.is_empty() {
        let (position, events) = next(&mut rest).ok_or_else(cut)?;
        rebases.apply(reached, position.previous(), &mut state);
        state.replay(events).map_err(|error| format!("frame {}: {error}", position.0))?;
        rebases.apply(position.previous(), position, &mut state);
        reached = position;
    }
    rebases.apply(reached, at, &mut state);
    Ok(state)
}
