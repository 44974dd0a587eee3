//! Pure: the rows of portfolios after the clock of the data was ahead.
//!
//! Recipients that were counted after a moment count since that moment. A step of the future counts
//! as the present whenever rows are read. Left as it is, it would do so with each start until its
//! time has come.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use postrider_domain::Timestamp;
use postrider_store::{Direction, StoreError, Table, View};

use super::recipients::step_of;
use super::rows::{ENTRY_BYTES, RowChange, VERSION, step_of_row};

/// The bytes after the step in a key: a sequence, or a hash.
const NUMBER_BYTES: usize = size_of::<u64>();

/// Returns the changes that move the rows of all portfolios later than `to` to that moment.
///
/// A row that cannot be read stays as it is.
pub(crate) fn rebased(view: &dyn View, to: Timestamp) -> Result<Vec<RowChange>, StoreError> {
    let latest = step_of(to);
    // Moved rows may get the same key, or that of an existing row.
    let (mut later, mut moved) = (Vec::new(), BTreeMap::<Vec<u8>, Vec<u8>>::new());
    view.scan(Table::Portfolios, &[], None, Direction::Forward, &mut |key, value| {
        let begin = key.iter().position(|byte| *byte == 0).map_or(key.len(), |end| end + 1);
        let step = step_of_row(&key[begin..]).filter(|step| *step >= latest);
        let rest = value.strip_prefix(&[VERSION]);
        let kind = key.get(begin).copied().unwrap_or_default();
        let row = rest.and_then(|rest| row_at(kind, rest, latest));
        let Some((step, row)) = step.zip(row) else { return ControlFlow::Continue(()) };
        if step > latest {
            later.push((key.to_vec(), None));
        }
        let (head, number) = key.split_at(key.len() - NUMBER_BYTES);
        let (head, _) = head.split_at(head.len() - size_of::<u32>());
        let to = [head, &latest.to_be_bytes(), number].concat();
        match moved.get_mut(&to) {
            Some(known) => merge(kind, known, &row),
            None => drop(moved.insert(to, row)),
        }
        ControlFlow::Continue(())
    })?;
    if later.is_empty() {
        return Ok(Vec::new());
    }
    let rows = moved.into_iter().map(|(key, rest)| (key, Some([&[VERSION], &*rest].concat())));
    Ok(later.into_iter().chain(rows).collect())
}

/// Returns the body of a row of a kind after its version, with no later step than this one.
fn row_at(kind: u8, rest: &[u8], latest: u32) -> Option<Vec<u8>> {
    match kind {
        b'c' => {
            let (entries, []) = rest.as_chunks::<ENTRY_BYTES>() else { return None };
            let mut value = Vec::with_capacity(rest.len());
            for [hash @ .., a, b, c, d] in entries {
                let step = u32::from_be_bytes([*a, *b, *c, *d]).min(latest);
                value.extend_from_slice(hash);
                value.extend_from_slice(&step.to_be_bytes());
            }
            Some(value)
        }
        b'g' => (rest.len() == 8).then(|| rest.to_vec()),
        _ => None,
    }
}

/// Merges a row of a kind into another one with its key.
///
/// The rows are recipients that were counted under one sequence, or the sequence up to which one
/// was given back.
fn merge(kind: u8, known: &mut Vec<u8>, other: &[u8]) {
    match kind {
        b'c' => known.extend_from_slice(other),
        // Big endian: the greater sequence is the greater text.
        _ if known.as_slice() < other => *known = other.to_vec(),
        _ => {}
    }
}
