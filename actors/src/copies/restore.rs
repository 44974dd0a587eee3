//! Makes a data directory of an archive, or of a backup as of a position.

use std::path::Path;

use postrider_domain::MasterKeys;
use postrider_runtime::random;
use postrider_store::copies::{
    CopiedContents, CopyError, Import, Loaded, RestorePlan, ShardList, archive_bytes,
    contents_bytes, frame_of,
};
use postrider_store::directory::MEDIA;
use postrider_store::{ArchiveCounts, LoadedSnapshot, LogId, Mark, Position, rebase};
use postrider_workspace::snapshots::{self, Rebases, States};

use super::space::check_space;
use super::unite;
use crate::engine::{StartError, key_check};

/// Where a copy becomes data.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The data directory. Whoever calls has locked it.
    pub dir: &'a Path,
    /// The master keys that it has, if it has any.
    pub keys: Option<&'a MasterKeys>,
    /// The length of a file of the log.
    pub segment_bytes: u64,
    /// Whether a server holds the data back from the world until it is released.
    pub held: bool,
    /// A directory with the contents of files, if there are any.
    pub contents: Option<&'a Path>,
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The position that the data stands at.
    pub position: Position,
    /// How much there is.
    pub counts: ArchiveCounts,
    /// The identity of the new log.
    pub log: LogId,
    /// The contents of files that it has.
    pub contents: CopiedContents,
}

/// Makes a data directory of an archive. Blocks.
///
/// # Errors
/// [`CopyError`]; nothing is made then.
pub fn import_archive(archive: &Path, target: Target<'_>) -> Result<Made, CopyError> {
    check_room(archive_bytes(archive)?, &target)?;
    let import = Import::begin(target.dir)?;
    let Loaded { header, counts, states, .. } = import.load(archive)?;
    finish(import, header.at, counts, states, target)
}

/// Makes a data directory of a backup, of a single node or a cluster: of all of it, or up to a
/// position. Blocks.
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
    let plan = RestorePlan::new(from, position)?;
    check_room(plan.bytes(), &target)?;
    let import = Import::begin(target.dir)?;
    let Loaded { header, written, states, .. } = import.load(&plan.archive())?;
    plan.check_archive(&header, &written)?;
    let at = plan.commits(header.at, &mut |commit| import.apply(&commit))?;
    let base =
        LoadedSnapshot { position: header.at.position, entries: states, warnings: Vec::new() };
    // Those of the whole time, which the records have by now.
    let rebases = Rebases::from(rebase::all(import.view()?)?);
    let folded = snapshots::fold::<CopyError>(&base, rebases, &|visit| {
        plan.commits(header.at, &mut |commit| {
            frame_of(&commit)?.iter().for_each(&mut *visit);
            Ok(())
        })?;
        Ok(at.position)
    })?;
    let counts = import.counts()?;
    finish(import, at, counts, folded.encode(), target)
}

/// Fails unless there is room for so many bytes of copies, for the contents of files and for the
/// log's first file.
pub(super) fn check_room(bytes: u64, target: &Target<'_>) -> Result<(), CopyError> {
    let contents = target.contents.map_or(Ok(0), contents_bytes)?;
    check_space(target.dir, bytes.saturating_add(target.segment_bytes).saturating_add(contents))
}

pub(super) fn finish(
    import: Import,
    at: Mark,
    counts: ArchiveCounts,
    states: States,
    target: Target<'_>,
) -> Result<Made, CopyError> {
    if let Some(keys) = target.keys {
        key_check::check(import.view()?, keys).map_err(|error| match error {
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
