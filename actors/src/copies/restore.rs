//! Makes a data directory from an archive, or from a backup as of a position.

use std::path::Path;

use postrider_domain::MasterKeys;
use postrider_runtime::random;
use postrider_store::copies::{
    CopiedContents, CopyError, Import, Loaded, RestorePlan, ShardList, Sieve, archive_bytes,
    contents_bytes, frame_of,
};
use postrider_store::directory::MEDIA;
use postrider_store::{
    ArchiveCounts, Commit, DirectorySpace, FreeSpace, LoadedSnapshot, LogId, Mark, Position, rebase,
};
use postrider_workspace::snapshots::{self, Rebases, States};

use super::sharding::single_node_form;
use super::unite;
use crate::engine::{StartError, master_keys};

/// The destination of a copy.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The data directory. The caller has locked it.
    pub dir: &'a Path,
    /// The data directory's master keys, if there are any.
    pub keys: Option<&'a MasterKeys>,
    /// The length of a file of the log.
    pub segment_bytes: u64,
    /// Set if a server sends nothing from the data until it is released.
    pub held: bool,
    /// A directory with the contents of files, if there are any.
    pub contents: Option<&'a Path>,
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The position of the data.
    pub position: Position,
    /// The number of records.
    pub counts: ArchiveCounts,
    /// The identity of the new log.
    pub log: LogId,
    /// The contents of files in it.
    pub contents: CopiedContents,
}

/// Makes a data directory from an archive. Blocks.
///
/// # Errors
/// [`CopyError`]; nothing is made then.
pub fn import_archive(archive: &Path, target: Target<'_>) -> Result<Made, CopyError> {
    check_room(archive_bytes(archive)?, &target)?;
    let import = Import::begin(target.dir)?;
    let Loaded { header, counts, states, .. } = import.load(archive)?;
    finish(import, header.at, counts, states, target)
}

/// Makes a data directory from a backup of a single node or a cluster. It uses all of the backup,
/// or its part up to a position. Blocks.
///
/// # Errors
/// [`CopyError`]; nothing is made then.
pub fn restore_backup(
    from: &Path,
    position: Option<Position>,
    target: Target<'_>,
) -> Result<Made, CopyError> {
    if ShardList::is_of_cluster(from) {
        let what = "each shard of a cluster has positions of its own: leave the position out, or \
                    restore one shard alone";
        return match position {
            Some(_) => Err(CopyError::NoSuchPosition(what.to_owned())),
            None => unite::restore_cluster(from, target),
        };
    }
    let contents = from.join(MEDIA);
    let target = Target { contents: Some(&contents), ..target };
    // Only the first shard of a cluster has the records that wait for a single node.
    restore_plan(
        &RestorePlan::new(from, position)?,
        &mut |it| Ok(Some(single_node_form(it))),
        target,
    )
}

/// Makes a data directory from the backup of one shard, for a shard again. Blocks.
///
/// # Errors
/// [`CopyError`]; nothing is made then.
pub fn restore_shard(from: &Path, target: Target<'_>) -> Result<Made, CopyError> {
    restore_plan(&RestorePlan::new(from, None)?, &mut |it| Ok(Some(it)), target)
}

fn restore_plan(
    plan: &RestorePlan,
    sieve: Sieve<'_>,
    target: Target<'_>,
) -> Result<Made, CopyError> {
    check_room(plan.bytes(), &target)?;
    let import = Import::begin(target.dir)?;
    let loaded = import.load_through(&plan.archive(), sieve)?;
    plan.check_archive(&loaded.header, &loaded.written)?;
    roll_forward(import, loaded, &|at, visit| plan.commits(at, visit), sieve, target)
}

/// Visits the commits after a mark, and returns the mark of the last one.
pub type Commits<'a> =
    &'a dyn Fn(Mark, &mut dyn FnMut(Commit) -> Result<(), CopyError>) -> Result<Mark, CopyError>;

/// Makes a data directory from an archive and the commits that follow it. Blocks.
///
/// # Errors
/// [`CopyError`], also of the commits; nothing is made then.
pub fn restore_followed(
    archive: &Path,
    commits: Commits<'_>,
    target: Target<'_>,
) -> Result<Made, CopyError> {
    check_room(archive_bytes(archive)?, &target)?;
    let import = Import::begin(target.dir)?;
    let loaded = import.load(archive)?;
    roll_forward(import, loaded, commits, &mut |it| Ok(Some(it)), target)
}

fn roll_forward(
    import: Import,
    loaded: Loaded,
    commits: Commits<'_>,
    sieve: Sieve<'_>,
    target: Target<'_>,
) -> Result<Made, CopyError> {
    let Loaded { header, states, .. } = loaded;
    let at = commits(header.at, &mut |commit| import.apply_through(&commit, sieve))?;
    let base =
        LoadedSnapshot { position: header.at.position, entries: states, warnings: Vec::new() };
    // The rebases of the whole time, which the records have by now.
    let rebases = Rebases::from(rebase::all(import.view()?)?);
    let folded = snapshots::fold::<CopyError>(&base, rebases, &|visit| {
        commits(header.at, &mut |commit| {
            frame_of(&commit)?.iter().for_each(&mut *visit);
            Ok(())
        })?;
        Ok(at.position)
    })?;
    let counts = import.counts()?;
    finish(import, at, counts, folded.encode(), target)
}

pub(super) fn finish(
    import: Import,
    at: Mark,
    counts: ArchiveCounts,
    states: States,
    target: Target<'_>,
) -> Result<Made, CopyError> {
    if let Some(keys) = target.keys {
        master_keys::check(import.view()?, keys).map_err(|error| match error {
            StartError::Store(error) => error.into(),
            error => CopyError::KeyMismatch(error.to_string()),
        })?;
    }
    let counts = ArchiveCounts { states: states.len() as u64, ..counts };
    let contents = target.contents.filter(|from| from.exists());
    let contents = contents
        .map_or_else(|| Ok(CopiedContents::default()), |from| import.take_contents(from))?;
    let log = LogId(random::bytes());
    import.finish(&at, states, log, target.segment_bytes, target.held)?;
    Ok(Made { position: at.position, counts, log, contents })
}

/// Checks that there is room for so many bytes of copies, before any of them is written.
///
/// It adds the contents of files and the log's first file.
pub(super) fn check_room(bytes: u64, target: &Target<'_>) -> Result<(), CopyError> {
    let contents = target.contents.map_or(Ok(0), contents_bytes)?;
    check_space(target.dir, bytes.saturating_add(target.segment_bytes).saturating_add(contents))
}

/// Fails unless the disk of a directory has so many free bytes. Blocks.
///
/// A copy checks it before anything of it is written.
///
/// # Errors
/// [`CopyError::NoSpace`]; [`CopyError::Io`] if the free space is unknown.
pub fn check_space(dir: &Path, needed: u64) -> Result<(), CopyError> {
    let shown = dir.display();
    let free = DirectorySpace(dir.to_owned()).free_bytes();
    let free = free.map_err(|error| CopyError::Io(format!("{shown}: {error}")))?;
    if free >= needed {
        return Ok(());
    }
    let what = format!("{shown}: {needed} bytes are needed on its disk, and {free} are free");
    Err(CopyError::NoSpace(what))
}

#[cfg(test)]
mod tests {
    use postrider_store::copies::BackupDir;
    use postrider_store::{ArchiveHeader, ArchiveWriter, Change, Table, View as _};

    use super::*;
    use crate::copies::DataSource;

    #[test]
    fn the_first_shard_alone_brings_back_what_waited_in_it() {
        let place = tempfile::tempdir().unwrap();
        let backup = place.path().join("shard-000");
        let header = ArchiveHeader {
            log: LogId([3; 16]),
            shard: 0,
            at: Mark { position: Position(7), ..Mark::default() },
            time_ms: 1,
            keys: Vec::new(),
            program: "1".to_owned(),
        };
        let key = |text: &str| text.as_bytes().to_vec();
        let mut made = BackupDir::open(&backup).unwrap();
        let written = made.add_archive(|out| {
            let mut writer = ArchiveWriter::new(out, &header).unwrap();
            writer.record(Table::Meta, b"single/person/1", b"Ada").unwrap();
            writer.finish().unwrap();
            Ok(())
        });
        written.unwrap();
        drop(made);
        let get = |dir: &Path, name: &str| {
            let source = DataSource::stopped(dir).unwrap();
            source.store().get(Table::Meta, name.as_bytes()).unwrap()
        };
        let target =
            |dir| Target { dir, keys: None, segment_bytes: 4_096, held: false, contents: None };
        let [alone, again] = ["alone", "again"].map(|name| place.path().join(name));
        [&alone, &again].iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        restore_backup(&backup, None, target(&alone)).unwrap();
        assert_eq!(get(&alone, "person/1"), Some(b"Ada".to_vec()));
        assert_eq!(get(&alone, "single/person/1"), None);
        restore_shard(&backup, target(&again)).unwrap();
        assert_eq!(get(&again, "single/person/1"), Some(b"Ada".to_vec()));
        let other = Change::put(Table::Meta, key("people/name"), key("x"));
        assert_eq!(single_node_form(other.clone()), other);
    }
}
