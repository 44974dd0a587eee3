//! Pure: the rows of portfolios in the store, in a table of their own.
//!
//! [`Table::Portfolios`] has, under `workspace ‖ 0`: `s ‖ portfolio` the setting as JSON; `t ‖
//! portfolio` while its limit is reported as reached; `c ‖ portfolio ‖ 0 ‖ step ‖ sequence` the
//! recipients that one commit counted, as a version byte and then a hash and the step since which
//! it counts for each; and `g ‖ portfolio ‖ 0 ‖ step ‖ hash` the sequence up to which what is
//! counted of a hash was given back. All numbers are big endian.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use hashbrown::HashMap;
use postrider_domain::{Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use super::recipients::{UniqueRecipients, is_over, oldest_step, step_of};

/// A key of [`Table::Portfolios`], and its value; `None` deletes it.
pub(crate) type RowChange = (Vec<u8>, Option<Vec<u8>>);

pub(super) const VERSION: u8 = 1;
/// The bytes of a recipient in a row.
pub(super) const ENTRY_BYTES: usize = 12;

fn key(workspace: &WorkspaceId, kind: u8, portfolio: &str) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, kind], portfolio.as_bytes()].concat()
}

/// Returns the key of an administrator's setting.
pub(crate) fn setting_key(workspace: &WorkspaceId, portfolio: &str) -> Vec<u8> {
    key(workspace, b's', portfolio)
}

/// Returns the key of the mark that the limit is reported as reached.
pub(crate) fn reported_key(workspace: &WorkspaceId, portfolio: &str) -> Vec<u8> {
    key(workspace, b't', portfolio)
}

/// Returns the number of a workspace's portfolios that have a setting.
pub(crate) fn settings(view: &dyn View, workspace: &WorkspaceId) -> Result<usize, StoreError> {
    Ok(portfolios(view, workspace, b's')?.len())
}

/// Returns the portfolios whose limit is reported as reached.
pub(super) fn reported(
    view: &dyn View,
    workspace: &WorkspaceId,
) -> Result<Vec<Box<str>>, StoreError> {
    portfolios(view, workspace, b't')
}

/// Returns the portfolios that have a row of one of these two kinds.
fn portfolios(
    view: &dyn View,
    workspace: &WorkspaceId,
    kind: u8,
) -> Result<Vec<Box<str>>, StoreError> {
    let (prefix, mut found) = (key(workspace, kind, ""), Vec::new());
    view.scan(Table::Portfolios, &prefix, None, Direction::Forward, &mut |key, _| {
        found.push(String::from_utf8_lossy(&key[prefix.len()..]).into());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn prefix(workspace: &WorkspaceId, kind: u8, portfolio: &str) -> Vec<u8> {
    [&*key(workspace, kind, portfolio), &[0]].concat()
}

/// Returns the row of recipients that are counted together at this step.
pub(super) fn counted(
    (workspace, portfolio): (&WorkspaceId, &str),
    (step, sequence): (u32, u64),
    recipients: &[(u64, u32)],
) -> RowChange {
    let prefix = prefix(workspace, b'c', portfolio);
    let key = [&*prefix, &step.to_be_bytes(), &sequence.to_be_bytes()].concat();
    let mut value = Vec::with_capacity(1 + ENTRY_BYTES * recipients.len());
    value.push(VERSION);
    for (hash, since) in recipients {
        value.extend_from_slice(&hash.to_be_bytes());
        value.extend_from_slice(&since.to_be_bytes());
    }
    (key, Some(value))
}

/// Returns the row of a recipient given back at this step, as counted up to `sequence`.
pub(super) fn given_back(
    (workspace, portfolio): (&WorkspaceId, &str),
    (step, sequence): (u32, u64),
    hash: u64,
) -> RowChange {
    let prefix = prefix(workspace, b'g', portfolio);
    let key = [&*prefix, &step.to_be_bytes(), &hash.to_be_bytes()].concat();
    (key, Some([&[VERSION], &sequence.to_be_bytes()[..]].concat()))
}

/// Returns the step of a row of one of the two kinds; `None` for another row.
///
/// `own` is the part of its key after the workspace.
pub(super) fn step_of_row(own: &[u8]) -> Option<u32> {
    let (head, _) = own.split_last_chunk::<8>()?;
    let (head, step) = head.split_last_chunk()?;
    matches!(head, [b'c' | b'g', .., 0]).then(|| u32::from_be_bytes(*step))
}

/// Returns the key prefix of a workspace's rows.
pub(crate) fn of_workspace(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0]].concat()
}

/// Returns whether a row counts no more; `None` for a row that does not end.
///
/// `own` is the part of its key after the workspace.
pub(crate) fn is_past(own: &[u8], now: Timestamp) -> Option<bool> {
    step_of_row(own).map(|step| is_over(step, now))
}

/// Returns the key part after the workspace that follows all rows of this kind and portfolio.
pub(crate) fn behind_portfolio(own: &[u8]) -> Vec<u8> {
    // The zero after the portfolio, the step and the number.
    [&own[..own.len().saturating_sub(1 + 4 + 8)], &[1]].concat()
}

/// Splits the end of a row's key into its step and the number after it.
fn split(rest: &[u8]) -> Option<(u32, u64)> {
    let (step, number) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*step), u64::from_be_bytes(number.try_into().ok()?)))
}

/// The contents of the rows.
pub(super) struct LoadedRows {
    /// The recipients that count.
    pub(super) recipients: UniqueRecipients,
    /// The last sequence that was used.
    pub(super) sequence: u64,
    /// The number of rows that could not be read.
    pub(super) damaged: u32,
}

/// Loads the recipients that count, without rows of the day before and unreadable ones.
pub(super) fn load(
    view: &dyn View,
    workspace: &WorkspaceId,
    portfolio: &str,
    now: Timestamp,
) -> Result<LoadedRows, StoreError> {
    let (mut given_back, mut sequence, mut damaged) = (HashMap::<u64, u64>::new(), 0, 0);
    each(view, (workspace, b'g', portfolio), now, |found, value| {
        let until = value.strip_prefix(&[VERSION]).and_then(|it| it.try_into().ok());
        let Some(((_, hash), until)) = found.zip(until.map(u64::from_be_bytes)) else {
            damaged += 1;
            return;
        };
        let known = given_back.entry(hash).or_default();
        *known = until.max(*known);
        sequence = sequence.max(until);
    })?;
    let mut all = Vec::new();
    each(view, (workspace, b'c', portfolio), now, |found, value| {
        let entries = value.strip_prefix(&[VERSION]).map(<[u8]>::as_chunks);
        let Some(((_, of), (entries, []))) = found.zip(entries) else {
            damaged += 1;
            return;
        };
        sequence = sequence.max(of);
        for entry in entries {
            let [a, b, c, d, e, f, g, h, step @ ..]: [u8; ENTRY_BYTES] = *entry;
            let hash = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            if given_back.get(&hash).is_none_or(|until| *until < of) {
                all.push((hash, u32::from_be_bytes(step)));
            }
        }
    })?;
    let recipients = UniqueRecipients::of(all.into_iter(), now);
    Ok(LoadedRows { recipients, sequence, damaged })
}

/// Visits the rows of a kind that may still count, oldest first.
fn each(
    view: &dyn View,
    (workspace, kind, portfolio): (&WorkspaceId, u8, &str),
    now: Timestamp,
    mut visit: impl FnMut(Option<(u32, u64)>, &[u8]),
) -> Result<(), StoreError> {
    let prefix = prefix(workspace, kind, portfolio);
    let from = [&*prefix, &oldest_step(now).to_be_bytes()].concat();
    let forward = Direction::Forward;
    view.scan(Table::Portfolios, &prefix, Some(&from), forward, &mut |key, value| {
        visit(split(&key[prefix.len()..]), value);
        ControlFlow::Continue(())
    })
}

/// The bytes after the step in a key: a sequence, or a hash.
const NUMBER_BYTES: usize = size_of::<u64>();

/// Returns the changes that move the rows of all portfolios later than `to` to that moment.
///
/// Recipients that were counted after the moment count since that moment: the clock was ahead. A
/// step of the future counts as the present whenever rows are read. Left as it is, it would do so
/// with each start until its time has come.
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

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use postrider_channel::number_facts::DailyLimit;
    use postrider_domain::golden::Sheet;

    use super::*;
    use crate::core::portfolio::PortfolioSetting;

    #[test]
    fn what_is_counted_of_a_portfolio_is_stored_as_ever() {
        let workspace = "acme".parse().unwrap();
        let place = (&workspace, "107");
        let mut sheet = Sheet::default();
        let (key, value) = counted(place, (0x0102_0304, 5), &[(0x1112_1314_1516_1718, 7)]);
        sheet.text("counted", &key);
        sheet.text("recipients", &value.unwrap());
        let (key, value) = given_back(place, (0x0102_0304, 5), 0x1112_1314_1516_1718);
        sheet.text("given back", &key);
        sheet.text("until", &value.unwrap());
        sheet.text("reported", &reported_key(&workspace, "107"));
        sheet.text("setting", &setting_key(&workspace, "107"));
        let setting = PortfolioSetting {
            daily_recipients: Some(DailyLimit::People(250)),
            ..PortfolioSetting::default()
        };
        sheet.text("limit", &postrider_store::view::codec::encode(&setting));
        sheet.is(expect![[r#"
            counted: acme\x00c107\x00\x01\x02\x03\x04\x00\x00\x00\x00\x00\x00\x00\x05
            recipients: \x01\x11\x12\x13\x14\x15\x16\x17\x18\x00\x00\x00\x07
            given back: acme\x00g107\x00\x01\x02\x03\x04\x11\x12\x13\x14\x15\x16\x17\x18
            until: \x01\x00\x00\x00\x00\x00\x00\x00\x05
            reported: acme\x00t107
            setting: acme\x00s107
            limit: {\"daily_recipients\":{\"people\":250},\"reserve_percent\":10}
        "#]]);
    }
}
