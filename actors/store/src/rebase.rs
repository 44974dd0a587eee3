//! Rebases of the clock: moments of a clock that was ahead count as one right moment.
//!
//! [`Table::Meta`] has all of them in one record: a version byte, then 24 bytes for each. These are
//! the position of the journal, the moment in milliseconds and the sequence of the first audit
//! record behind it, as u64, big endian.
//!
//! The clock that was ahead wrote the journal up to the position. A replay that passes it, or
//! starts at it, applies the rebase; a snapshot from behind it includes it. So the journal and the
//! snapshots need not be rewritten, and a rebase is one commit.

use postrider_domain::Timestamp;

use crate::audit_chain::{self, AuditMark};
use crate::{Change, Group, Position, Store, StoreError, Table, View, usage, writer};

/// The key of the record.
pub const KEY: &[u8] = b"clock_rebases";
const VERSION: u8 = 1;

/// One rebase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebase {
    /// The last frame of the clock that was ahead.
    pub position: Position,
    /// The moment as which later moments count.
    pub to: Timestamp,
    /// The sequence of the first audit record behind it, which may be earlier than the one before.
    pub audit_from: u64,
}

/// Returns every rebase of the data, the first one first.
///
/// # Errors
/// Those of [`View::get`]; [`StoreError::Damaged`] when the record is not of this version.
pub fn all(store: &dyn View) -> Result<Vec<Rebase>, StoreError> {
    let Some(bytes) = store.get(Table::Meta, KEY)? else { return Ok(Vec::new()) };
    decode(&bytes)
}

/// Returns the record of these rebases for data whose log starts again.
///
/// No replay passes their positions any more, so they apply from the start.
///
/// # Errors
/// [`StoreError::Damaged`] when the record is not of this version.
pub fn behind(record: &[u8]) -> Result<Vec<u8>, StoreError> {
    let rebases = decode(record)?.into_iter();
    let rebases: Vec<_> = rebases.map(|it| Rebase { position: Position::START, ..it }).collect();
    Ok(encode(&rebases))
}

fn decode(bytes: &[u8]) -> Result<Vec<Rebase>, StoreError> {
    let damaged = |what: String| StoreError::Damaged(format!("the rebases of the clock: {what}"));
    let (&version, rebases) = bytes.split_first().unwrap_or((&0, &[]));
    if version > VERSION {
        return Err(damaged(format!(
            "they have version {version}; this Postrider reads up to {VERSION}"
        )));
    }
    let (numbers, rest) = rebases.as_chunks();
    let (rebases, more) = numbers.as_chunks();
    if version != VERSION || !rest.is_empty() || !more.is_empty() {
        return Err(damaged("they are not what was written".into()));
    }
    let number = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
    let rebase = |[position, to, audit_from]: &[[u8; 8]; 3]| Rebase {
        position: Position(number(position)),
        to: Timestamp::from_millis(number(to)),
        audit_from: number(audit_from),
    };
    Ok(rebases.iter().map(rebase).collect())
}

/// Rebases the clock of data that no writer uses: moments later than `to` count as `to`.
///
/// The commit includes its audit `record`, and `changes` of records with such moments. Returns the
/// position that the journal has reached.
///
/// # Errors
/// Those of [`Store::commit`] and of reading; then nothing is rebased.
pub fn commit(
    store: &dyn Store,
    to: Timestamp,
    record: Change,
    mut changes: Vec<Change>,
) -> Result<Position, StoreError> {
    let mut rebases = all(store)?;
    let (_, position) = store.begin_epoch()?;
    let head = audit_chain::head(store)?;
    rebases.push(Rebase { position, to, audit_from: head.sequence + 1 });
    changes.push(record);
    // Records behind the rebase have the right moments: these do not decrease among themselves.
    let newest = audit_chain::link_staged(&mut changes, &AuditMark { at: head.at.min(to), ..head });
    changes.extend(newest.map(|end| Change::put(Table::Meta, audit_chain::HEAD_KEY, end.encode())));
    changes.push(Change::put(Table::Meta, KEY, encode(&rebases)));
    changes.push(writer::last_moment_change(to));
    let counts = usage::changed_counts(store, &changes)?.into_iter();
    changes.extend(counts.map(|(key, value)| Change { table: Table::Meta, key, value }));
    store.commit(Group::new(None, &changes))?;
    Ok(position)
}

fn encode(rebases: &[Rebase]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    for Rebase { position, to, audit_from } in rebases {
        for number in [position.0, to.as_millis(), *audit_from] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use postrider_domain::golden::Sheet;
    use postrider_domain::{AuditContext, AuditEntry, AuditId};

    use super::*;
    use crate::{Direction, MemoryStore};
    use expect_test::expect;

    fn record(at: u64) -> Change {
        let at = Timestamp::from_millis(at);
        let id = AuditId::from_parts(at, at.as_millis().into());
        let entry = AuditEntry::new("key.create").record(id, &AuditContext::system());
        audit_chain::record_change(at, &entry)
    }

    fn append(store: &MemoryStore, at: u64) {
        let mut changes = vec![record(at)];
        let end =
            audit_chain::link_staged(&mut changes, &audit_chain::head(store).unwrap()).unwrap();
        changes.push(Change::put(Table::Meta, audit_chain::HEAD_KEY, end.encode()));
        store.commit(Group::new(None, &changes)).unwrap();
    }

    #[test]
    fn rebases_are_stored_as_ever_and_a_later_version_is_refused() {
        let store = MemoryStore::new();
        assert_eq!(all(&store), Ok(Vec::new()));
        let rebase = |at| Rebase {
            position: Position(at),
            to: Timestamp::from_millis(0x0102_0304_0506),
            audit_from: 7,
        };
        let both = [rebase(0x0a0b), rebase(0x0a0c)];
        let mut sheet = Sheet::default();
        sheet.bytes("rebases", &encode(&both));
        sheet.is(expect![[r#"
            rebases:
                010000000000000a0b000001020304050600000000000000070000000000000a0c00000102030405
                060000000000000007
        "#]]);
        let put = |bytes: Vec<u8>| {
            store.commit(Group::new(None, &[Change::put(Table::Meta, KEY, bytes)])).unwrap();
        };
        put(encode(&both));
        assert_eq!(all(&store).unwrap(), both);
        put(behind(&encode(&both)).unwrap());
        let behind = both.map(|it| Rebase { position: Position::START, ..it });
        assert_eq!(all(&store).unwrap(), behind, "of a log that begins anew");
        put(vec![2, 0]);
        let refused = all(&store).unwrap_err().to_string();
        assert!(refused.contains("version 2; this Postrider reads up to 1"), "{refused}");
        for bytes in [vec![], vec![0], vec![1, 0]] {
            put(bytes);
            assert!(all(&store).is_err());
        }
    }

    #[test]
    fn one_commit_has_the_rebase_its_record_and_the_moment() {
        let store = MemoryStore::new();
        [1_000, 9_000, 9_500].into_iter().for_each(|at| append(&store, at));
        let to = Timestamp::from_millis(2_000);
        let change = Change::put(Table::Windows, *b"acme\0w", *b"x");
        let position = commit(&store, to, record(2_000), vec![change]).unwrap();
        assert_eq!(all(&store).unwrap(), [Rebase { position, to, audit_from: 4 }]);
        assert_eq!(writer::last_moment(&store), Ok(Some(to)));
        assert!(store.get(Table::Windows, b"acme\0w").unwrap().is_some());
        assert!(usage::Usage::of(&store, &"acme".parse().unwrap()).unwrap().bytes > 0);
        append(&store, 3_000);
        // The chain is intact, and the records are found by their moments on both sides of it.
        assert_eq!(audit_chain::verify(&store, None, 100).unwrap().fault, None);
        let moment = |at: Option<u64>| at.map(Timestamp::from_millis);
        let found = |since, until, direction| {
            let (since, until) = (moment(since), moment(until));
            let filter = audit_chain::AuditFilter { since, until, ..Default::default() };
            let page = audit_chain::page(&store, &filter, direction, None, 9).unwrap();
            page.rows.iter().map(|row| row.mark.sequence).collect::<Vec<_>>()
        };
        use Direction::{Backward, Forward};
        assert_eq!(found(None, None, Forward), [1, 2, 3, 4, 5]);
        assert_eq!(found(Some(2_000), None, Forward), [2, 3, 4, 5]);
        assert_eq!(found(Some(9_200), None, Forward), [3]);
        assert_eq!(found(Some(2_500), Some(4_000), Forward), [5]);
        assert_eq!(found(None, Some(2_500), Backward), [4, 1]);
        assert_eq!(found(None, Some(1_000), Forward), [0; 0]);
        assert_eq!(found(Some(3_500), Some(9_000), Backward), [0; 0]);
    }
}
