//! Makes the data of a single node from the backup of a cluster: from all its shards.

use std::collections::BTreeMap;
use std::path::Path;

use postrider_store::copies::{
    CopiedContents, CopyError, Import, Loaded, RestorePlan, ShardList, contents_bytes, frame_of,
};
use postrider_store::directory::MEDIA;
use postrider_store::{Change, LoadedSnapshot, Mark, Table, writer};
use postrider_workspace::snapshots::{self, Rebases, States};

use super::homes::{ASIDE, Home, brought_back, home};
use super::restore::{Made, Target, check_room, finish};
use super::waiting;
use crate::engine::clock_offset;

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
            return Ok(is_first.then(|| brought_back(change)));
        }
        let Change { table, key, value } = change;
        let to = match (table, key.as_slice()) {
            (Table::Audit, _) if !is_first => {
                return Ok(Some(Change { table, key: waiting::key(shard, &key), value }));
            }
            (Table::Meta, key) if key == clock_offset::KEY || key == writer::LAST_MOMENT => {
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
        waiting::unite(import)
    }
}
