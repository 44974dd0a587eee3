//! The audit records of shards wait in the table itself until they are linked into one chain.
//!
//! They may be larger than memory, so only a page of each shard is in memory at a time.

use std::collections::VecDeque;

use postrider_domain::Timestamp;
use postrider_store::copies::{CopyError, Import};
use postrider_store::view::audit;
use postrider_store::{Change, Table, ViewSnapshot};

/// The prefix of the keys of waiting records: no record has such a number.
const WAITING: u8 = u8::MAX;
/// The number of bytes of the prefix and the shard's number.
const PREFIX_BYTES: usize = 3;
/// The number of changes that are put at a time.
const PUT_AT_ONCE: usize = 1_000;

/// Returns the key under which a record of a shard waits.
pub(super) fn key(shard: u16, key: &[u8]) -> Vec<u8> {
    let [high, low] = shard.to_be_bytes();
    [&[WAITING, high, low], key].concat()
}

/// The waiting records of one shard, oldest first.
struct Shard {
    page: VecDeque<(Vec<u8>, Vec<u8>)>,
    prefix: Vec<u8>,
    after: Vec<u8>,
    is_read: bool,
}

impl Shard {
    /// Returns the next shard that has records, after this key.
    fn behind(view: &dyn ViewSnapshot, after: &[u8]) -> Result<Option<Self>, CopyError> {
        let page = view.page(Table::Audit, Some(after))?;
        let Some((first, _)) = page.first() else { return Ok(None) };
        let prefix = first.get(..PREFIX_BYTES).unwrap_or_default().to_vec();
        let after = after.to_vec();
        let mut shard = Self { page: VecDeque::new(), prefix, after, is_read: false };
        shard.take(page);
        Ok(Some(shard))
    }

    fn take(&mut self, page: Vec<(Vec<u8>, Vec<u8>)>) {
        let found = page.len();
        self.page.extend(page.into_iter().filter(|(key, _)| key.starts_with(&self.prefix)));
        self.is_read = self.page.len() < found || found == 0;
        if let Some((key, _)) = self.page.back() {
            self.after.clone_from(key);
        }
    }

    /// Returns the time of the next record, or `None` if there is none left.
    fn next(&mut self, view: &dyn ViewSnapshot) -> Result<Option<Timestamp>, CopyError> {
        if self.page.is_empty() && !self.is_read {
            self.take(view.page(Table::Audit, Some(&self.after))?);
        }
        self.page.front().map(|(_, value)| audit::moment_of(value).ok_or_else(damaged)).transpose()
    }
}

fn damaged() -> CopyError {
    CopyError::Damaged("a record of the audit log is none".to_owned())
}

/// Links all waiting records to the chain, by their time.
pub(super) fn unite(import: &Import) -> Result<(), CopyError> {
    let view = import.snapshot()?;
    let (mut shards, mut after) = (Vec::new(), vec![WAITING]);
    while let Some(shard) = Shard::behind(&*view, &after)? {
        // Numbers of records are shorter than this.
        after = [&shard.prefix[..], &[u8::MAX; 16]].concat();
        shards.push(shard);
    }
    let mut head = audit::head(import.view()?)?;
    let mut changes = Vec::new();
    loop {
        let mut oldest: Option<(Timestamp, usize)> = None;
        for (number, shard) in shards.iter_mut().enumerate() {
            let next = shard.next(&*view)?;
            oldest = match (oldest, next) {
                (Some(oldest), Some(next)) if next >= oldest.0 => Some(oldest),
                (oldest, None) => oldest,
                (_, Some(next)) => Some((next, number)),
            };
        }
        let shard = oldest.and_then(|(_, number)| shards.get_mut(number));
        let Some((key, value)) = shard.and_then(|shard| shard.page.pop_front()) else { break };
        let (change, end) = audit::relinked(&head, &value).ok_or_else(damaged)?;
        changes.extend([Change::delete(Table::Audit, key), change]);
        head = end;
        if changes.len() >= PUT_AT_ONCE {
            import.put(&std::mem::take(&mut changes))?;
        }
    }
    if head.sequence > 0 {
        changes.push(audit::head_change(&head));
    }
    import.put(&changes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use postrider_store::view::audit::AuditMark;
    use postrider_store::{Direction, View};

    use super::*;

    /// Returns committed records of a chain of its own, at these times.
    fn chain(moments: impl Iterator<Item = u64>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut head = AuditMark::default();
        let mut linked = |at: u64| {
            let staged = [&[1][..], &[0; 32], &at.to_be_bytes(), b"{}"].concat();
            let (change, end) = audit::relinked(&head, &staged).unwrap();
            head = end;
            (change.key, change.value.unwrap())
        };
        moments.map(&mut linked).collect()
    }

    fn all(view: &dyn View) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            found.push((key.to_vec(), value.to_vec()));
            std::ops::ControlFlow::Continue(())
        };
        view.scan(Table::Audit, b"", None, Direction::Forward, &mut visit).unwrap();
        found
    }

    #[test]
    fn records_of_shards_are_one_chain_by_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let import = Import::begin(dir.path()).unwrap();
        let first = chain((0..3).map(|at| at * 2));
        let puts =
            first.iter().map(|(key, value)| Change::put(Table::Audit, key.clone(), value.clone()));
        import.put(&puts.collect::<Vec<_>>()).unwrap();
        let end = first.iter().fold(AuditMark::default(), |head, (_, value)| {
            audit::relinked(&head, value).unwrap().1
        });
        import.put(&[audit::head_change(&end)]).unwrap();
        // More than a page of each, and a shard with only one.
        for (shard, from, count) in [(1, 100, 3_000), (2, 101, 2_500), (300, 50, 1)] {
            let records = chain((0..count).map(|at| from + at * 2));
            let change = |(number, value): (Vec<u8>, Vec<u8>)| {
                Change::put(Table::Audit, key(shard, &number), value)
            };
            import.put(&records.into_iter().map(change).collect::<Vec<_>>()).unwrap();
        }
        unite(&import).unwrap();
        let view = import.view().unwrap();
        let found = all(view);
        assert_eq!(found.len(), 3 + 3_000 + 2_500 + 1);
        let mut head = AuditMark::default();
        let mut moments = Vec::new();
        for (key, value) in &found {
            let (change, end) = audit::relinked(&head, value).unwrap();
            assert_eq!(
                (&change.key, change.value.as_ref()),
                (key, Some(value)),
                "not in the chain"
            );
            moments.push(audit::moment_of(value).unwrap().as_millis());
            head = end;
        }
        assert_eq!(audit::head(view).unwrap(), head);
        assert!(moments.is_sorted());
        assert_eq!(moments.iter().collect::<BTreeSet<_>>().len(), moments.len(), "each once");
    }

    #[test]
    fn a_cluster_without_audit_records_has_no_chain() {
        let dir = tempfile::tempdir().unwrap();
        let import = Import::begin(dir.path()).unwrap();
        unite(&import).unwrap();
        assert!(all(import.view().unwrap()).is_empty());
        assert_eq!(audit::head(import.view().unwrap()).unwrap(), AuditMark::default());
    }
}
