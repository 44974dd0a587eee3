//! Imports the data of a single node, or an archive of it, into an empty cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use postrider_actors::copies::{
    ClusterArchive, CopiedContents, CopyError, ShardPart, check_space, write_file,
};
use postrider_actors::store::directory::MEDIA;
use postrider_actors::{MasterKeys, random};
use postrider_cluster::import::{ClusterImport, ShardClaim};
use postrider_cluster::nats::FilesOf;
use postrider_cluster::{Access, open_files};

use super::contents::ShardContents;
use super::error::ClusterError;
use super::made::{access, master_keys, token};
use super::peers::Peers;
use super::work::Work;
use crate::boot::StoppedData;
use crate::settings::Settings;

/// The suffix of the name of the directory in which an import works.
const WORK: &str = ".import";

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterImported {
    /// The cluster's name.
    pub cluster: String,
    /// The number of its shards.
    pub shards: u16,
    /// The number of imported records.
    pub records: u64,
    /// The number of imported workspaces.
    pub workspaces: u64,
    /// The contents of files that the cluster has of the imported records.
    pub contents: CopiedContents,
    /// The number of contents that the records name and the source lacks.
    pub left_out: u64,
}

/// Imports an archive, or the data directory of a stopped server, into the cluster of the settings.
///
/// The cluster must be empty. The contents of files come from `media`, or from the data directory.
/// An import that did not finish may be run again.
///
/// # Errors
/// [`ClusterError`]; no node starts on an incomplete import, unless nothing was written.
pub async fn import_into_cluster(
    settings: &Settings,
    from: &Path,
    media: Option<&Path>,
) -> Result<ClusterImported, ClusterError> {
    let keys = master_keys(settings).ok_or(ClusterError::NoServers)?;
    let access = access(settings, &keys)?;
    let (peers, from) = (Peers::new(token(&keys), &settings.cluster)?, from.to_owned());
    let own = || from.is_dir().then(|| from.join(MEDIA));
    let media = media.map(Path::to_owned).or_else(own);
    let importing = move || import(&access, &peers, &keys, (&from, media.as_deref()));
    tokio::task::spawn_blocking(importing).await?
}

fn import(
    access: &Access,
    peers: &Peers,
    keys: &MasterKeys,
    (from, media): (&Path, Option<&Path>),
) -> Result<ClusterImported, ClusterError> {
    let work = work_beside(from)?;
    // A server that starts meanwhile would change the files.
    let stopped = from.is_dir().then(|| StoppedData::open(from)).transpose()?;
    let archive = ClusterArchive::open(&archive_of(from, stopped.as_ref(), &work)?, keys)?;
    let stored = Arc::new(open_files(access)?);
    let (mut contents, mut left_out) = (CopiedContents::default(), 0);
    let mut import = ClusterImport::begin(access, peers, random::bytes())?;
    let shards = import.cluster().shards;
    let archive = archive.for_shards(shards);
    import.keep_homes(archive.homes())?;
    let all: Vec<u16> = (0..shards).collect();
    for some in all.chunks(ClusterArchive::SHARDS_AT_ONCE) {
        let claim = |shard: &u16| import.claim(*shard, archive.time().as_millis());
        let claims: Vec<_> = some.iter().map(claim).collect::<Result<_, _>>()?;
        let parts: Vec<_> = claims.iter().map(|claim| part_of(claim, &work)).collect();
        archive.split(&parts)?;
        for (claim, part) in claims.iter().zip(&parts) {
            let of = FilesOf { shard: claim.shard, epoch: claim.at.epoch };
            let through = work.file("content");
            let taken = ShardContents { stored: stored.clone(), of, through }
                .take(archive.contents(claim.shard), media)?;
            contents.add(taken.0);
            left_out += taken.1;
            import.keep(claim, &part.path)?;
            let removed = fs::remove_file(&part.path);
            removed.map_err(|error| CopyError::io(&part.path, &error))?;
        }
    }
    import.finish()?;
    let counts = archive.counts();
    let cluster = access.cluster.to_string();
    let (records, workspaces) = (counts.records, counts.workspaces);
    Ok(ClusterImported { cluster, shards, records, workspaces, contents, left_out })
}

/// Returns the directory beside the source for the parts of an import.
fn work_beside(from: &Path) -> Result<Work, CopyError> {
    let none = || CopyError::Io(format!("{} is no archive and no directory", from.display()));
    let mut name = from.file_name().ok_or_else(none)?.to_owned();
    name.push(WORK);
    Work::at(&from.with_file_name(name))
}

/// Returns the archive: the named one, or one that is made of the data in a directory.
fn archive_of(
    from: &Path,
    stopped: Option<&StoppedData>,
    work: &Work,
) -> Result<PathBuf, CopyError> {
    let Some(data) = stopped else { return Ok(from.to_owned()) };
    let path = work.file("whole.archive");
    check_space(work.path(), data.source().archive_bytes()?)?;
    write_file(&path, |out| data.source().write_archive(None, out).map(drop), |_| Ok(()))?;
    Ok(path)
}

fn part_of(claim: &ShardClaim, work: &Work) -> ShardPart {
    let ShardClaim { shard, id: log, at, .. } = *claim;
    ShardPart { shard, log, at, path: work.file(&format!("{shard:03}.archive")) }
}
