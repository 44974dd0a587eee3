//! Makes the data of a single node from the backup of a cluster: from all its shards.
//!
//! The audit records of the shards wait in the table itself until they are linked into one chain.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use postrider_domain::Timestamp;
use postrider_store::audit_chain;
use postrider_store::copies::{
    CopiedContents, CopyError, Import, Loaded, RestorePlan, ShardList, contents_bytes, frame_of,
};
use postrider_store::directory::MEDIA;
use postrider_store::{Change, LoadedSnapshot, Mark, Table, ViewSnapshot, writer};
use postrider_workspace::snapshots::{self, Rebases, States};

use super::restore::{Made, Target, check_room, finish};
use super::sharding::{ASIDE, Home, home, single_node_form};
use crate::engine::stored_clock::CLOCK_OFFSET_KEY;

/// The prefix of the keys of waiting audit records: no record has such a number.
const WAITING: u8 = u8::MAX;
/// The number of bytes of the prefix and the shard's number.
const PREFIX_BYTES: usize = 3;
/// The number of changes that are put at a time.
const PUT_AT_ONCE: usize = 1_000;

/// Makes a data directory from the backup of a whole cluster. Blocks.
///
/// # Errors
/// [`CopyError`]; nothing is made then.
pub(super) fn restore_cluster(from: &Path, target: Target<'_>) -> Result<Made, CopyError> {
    let shards = ShardList::read(from)?.shards;
    let plan = |shard| RestorePlan::new(&ShardList::directory(from, shard), None);
    let plans: Vec<_> = (0..shards).map(plan).collect::<Result<_, _>>()?;
    // Each shard has the contents of its files beside its records.
    let beside: Vec<_> =
        (0..shards).map(|shard| ShardList::directory(from, shard).join(MEDIA)).collect();
    let mut bytes = plans.iter().map(RestorePlan::bytes).fold(0, u64::saturating_add);
    for dir in &beside {
        bytes = bytes.saturating_add(contents_bytes(dir)?);
    }
    check_room(bytes, &target)?;
    let import = Import::begin(target.dir)?;
    let (mut at, mut states, mut united) = (Mark::default(), States::new(), United::default());
    for (shard, plan) in (0..).zip(&plans) {
        let (end, some) = united.take(&import, shard, plan)?;
        states.extend(some);
        at.position = at.position.max(end.position);
        at.epoch = at.epoch.max(end.epoch);
    }
    states.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
    united.finish(&import)?;
    let counts = import.counts()?;
    let mut contents = CopiedContents::default();
    for dir in beside.iter().filter(|dir| dir.exists()) {
        contents.add(import.take_contents(dir)?);
    }
    let made = finish(import, at, counts, states, target)?;
    Ok(Made { contents, ..made })
}

/// The values of each shard that concern the whole.
#[derive(Default)]
struct United {
    shard: u16,
    /// By shard, the offset of its clock, and the time of its last commit.
    clocks: BTreeMap<(u16, Vec<u8>), Vec<u8>>,
    /// The buckets of addresses.
    addresses: BTreeMap<(u16, Vec<u8>), Vec<u8>>,
}

impl United {
    /// Takes a shard's records. Returns its end, and its actors' state in memory.
    fn take(
        &mut self,
        import: &Import,
        shard: u16,
        plan: &RestorePlan,
    ) -> Result<(Mark, States), CopyError> {
        self.shard = shard;
        let Loaded { header, written, states, .. } =
            import.load_through(&plan.archive(), &mut |change| self.sieve(change))?;
        plan.check_archive(&header, &written)?;
        let at = plan.commits(header.at, &mut |commit| {
            import.apply_through(&commit, &mut |change| self.sieve(change))
        })?;
        let (position, warnings) = (header.at.position, Vec::new());
        let base = LoadedSnapshot { position, entries: states, warnings };
        // The clock of a shard is never rebased.
        let folded = snapshots::fold::<CopyError>(&base, Rebases::default(), &|visit| {
            plan.commits(header.at, &mut |commit| {
                frame_of(&commit)?.iter().for_each(&mut *visit);
                Ok(())
            })?;
            Ok(at.position)
        })?;
        Ok((at, folded.encode()))
    }

    /// Returns the change if it belongs into the records at once. The rest waits for all shards.
    fn sieve(&mut self, change: Change) -> Result<Option<Change>, CopyError> {
        let (shard, is_first) = (self.shard, self.shard == 0);
        if change.table == Table::Meta && change.key.starts_with(ASIDE) {
            return Ok(is_first.then(|| single_node_form(change)));
        }
        let Change { table, key, value } = change;
        let to = match (table, key.as_slice()) {
            (Table::Audit, _) if !is_first => {
                return Ok(Some(Change { table, key: waiting_key(shard, &key), value }));
            }
            (Table::Meta, key) if key == CLOCK_OFFSET_KEY || key == writer::LAST_MOMENT => {
                &mut self.clocks
            }
            (Table::Buckets, key) if key.starts_with(b"a") => &mut self.addresses,
            (table, key) => {
                let home = match &value {
                    Some(value) => home(table, key, value)?,
                    // A deleted record existed, or the deletion has no effect.
                    None => Home::Every,
                };
                let is_taken = match home {
                    Home::First => is_first || table == Table::Keys,
                    Home::Aside => false,
                    Home::Workspace(_) | Home::Key(_) | Home::Every => true,
                };
                let key = key.to_vec();
                return Ok(is_taken.then_some(Change { table, key, value }));
            }
        };
        match value {
            Some(value) => to.insert((shard, key), value),
            None => to.remove(&(shard, key)),
        };
        Ok(None)
    }

    /// Adds the changes that follow from all shards together.
    fn finish(self, import: &Import) -> Result<(), CopyError> {
        let mut changes = Vec::new();
        // Big-endian numbers of one length: the greatest is the furthest ahead.
        let all = self.clocks.into_iter().chain(self.addresses);
        let mut greatest = BTreeMap::<Vec<u8>, Vec<u8>>::new();
        for ((_, key), value) in all {
            let kept = greatest.entry(key).or_default();
            *kept = std::mem::take(kept).max(value);
        }
        for (key, value) in greatest {
            let is_bucket = key.starts_with(b"a");
            let table = if is_bucket { Table::Buckets } else { Table::Meta };
            changes.push(Change::put(table, key, value));
        }
        import.put(&changes)?;
        link_waiting(import)
    }
}

/// Links all waiting audit records to the chain, by their time.
fn link_waiting(import: &Import) -> Result<(), CopyError> {
    let view = import.snapshot()?;
    let (mut shards, mut after) = (Vec::new(), vec![WAITING]);
    while let Some(shard) = WaitingRecords::behind(&*view, &after)? {
        // Numbers of records are shorter than this.
        after = [&shard.prefix[..], &[u8::MAX; 16]].concat();
        shards.push(shard);
    }
    let mut head = audit_chain::head(import.view()?)?;
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
        let (change, end) = audit_chain::relinked(&head, &value).ok_or_else(damaged_record)?;
        changes.extend([Change::delete(Table::Audit, key), change]);
        head = end;
        if changes.len() >= PUT_AT_ONCE {
            import.put(&std::mem::take(&mut changes))?;
        }
    }
    if head.sequence > 0 {
        changes.push(audit_chain::head_change(&head));
    }
    import.put(&changes)
}

/// Returns the key under which a record of a shard waits.
fn waiting_key(shard: u16, key: &[u8]) -> Vec<u8> {
    let [high, low] = shard.to_be_bytes();
    [&[WAITING, high, low], key].concat()
}

/// The waiting records of one shard, oldest first.
///
/// They may be larger than memory, so only a page of each shard is in memory at a time.
struct WaitingRecords {
    page: VecDeque<(Vec<u8>, Vec<u8>)>,
    prefix: Vec<u8>,
    after: Vec<u8>,
    is_read: bool,
}

impl WaitingRecords {
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
        self.page
            .front()
            .map(|(_, value)| audit_chain::moment_of(value).ok_or_else(damaged_record))
            .transpose()
    }
}

fn damaged_record() -> CopyError {
    CopyError::Damaged("a record of the audit log is none".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use postrider_store::audit_chain::AuditMark;
    use postrider_store::{Direction, View};

    use super::*;

    /// Returns committed records of a chain of its own, at these times.
    fn chain(moments: impl Iterator<Item = u64>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut head = AuditMark::default();
        let mut linked = |at: u64| {
            let staged = [&[1][..], &[0; 32], &at.to_be_bytes(), b"{}"].concat();
            let (change, end) = audit_chain::relinked(&head, &staged).unwrap();
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
            audit_chain::relinked(&head, value).unwrap().1
        });
        import.put(&[audit_chain::head_change(&end)]).unwrap();
        // More than a page of each, and a shard with only one.
        for (shard, from, count) in [(1, 100, 3_000), (2, 101, 2_500), (300, 50, 1)] {
            let records = chain((0..count).map(|at| from + at * 2));
            let change = |(number, value): (Vec<u8>, Vec<u8>)| {
                Change::put(Table::Audit, waiting_key(shard, &number), value)
            };
            import.put(&records.into_iter().map(change).collect::<Vec<_>>()).unwrap();
        }
        link_waiting(&import).unwrap();
        let view = import.view().unwrap();
        let found = all(view);
        assert_eq!(found.len(), 3 + 3_000 + 2_500 + 1);
        let mut head = AuditMark::default();
        let mut moments = Vec::new();
        for (key, value) in &found {
            let (change, end) = audit_chain::relinked(&head, value).unwrap();
            assert_eq!(
                (&change.key, change.value.as_ref()),
                (key, Some(value)),
                "not in the chain"
            );
            moments.push(audit_chain::moment_of(value).unwrap().as_millis());
            head = end;
        }
        assert_eq!(audit_chain::head(view).unwrap(), head);
        assert!(moments.is_sorted());
        assert_eq!(moments.iter().collect::<BTreeSet<_>>().len(), moments.len(), "each once");
    }

    #[test]
    fn a_cluster_without_audit_records_has_no_chain() {
        let dir = tempfile::tempdir().unwrap();
        let import = Import::begin(dir.path()).unwrap();
        link_waiting(&import).unwrap();
        assert!(all(import.view().unwrap()).is_empty());
        assert_eq!(audit_chain::head(import.view().unwrap()).unwrap(), AuditMark::default());
    }
}
