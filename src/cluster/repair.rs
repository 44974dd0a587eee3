//! Rebuilds a broken shard from its intact parts: a checkpoint or a backup, and its log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use postrider_actors::copies::{
    CopyError, DataSource, RestorePlan, ShardList, Target, archive_bytes, check_space,
    restore_followed, restore_shard, write_file,
};
use postrider_actors::random;
use postrider_actors::store::postrider_log::{Commit, LogId, Mark};
use postrider_cluster::Access;
use postrider_cluster::repair::{
    Base, Finding, NodeEntries, RepairClaim, RepairError, ShardRepair,
};

use super::error::ClusterError;
use super::kept::{self, KeptFiles, Place};
use super::made::{access, master_keys, token};
use super::peers::Peers;
use super::work::Work;
use crate::settings::Settings;

/// The number of copies of the shard, one for each step of a repair.
const COPIES: u64 = 3;
/// The tries to fetch a page of a node's retained entries, and the wait between two tries.
const ASKED_TIMES: u32 = 3;
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The findings of a repair of a shard, and whether it has acted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardRepaired {
    /// The shard.
    pub shard: u16,
    /// The outcome.
    pub state: RepairState,
    /// The last position up to which everything is preserved.
    pub last: u64,
    /// The range of lost positions that are given up.
    pub given_up: Option<(u64, u64)>,
    /// The position behind which more entries may be lost than any node reports.
    pub unknown_behind: Option<u64>,
    /// The range of positions in which retained entries of nodes replace entries lost from the log.
    pub from_nodes: Option<(u64, u64)>,
    /// The running nodes that did not return their retained entries, with the reasons.
    pub not_heard: Vec<(String, String)>,
    /// Descriptions of the problems; for an intact shard the way to treat nodes that have stopped.
    pub problems: Vec<String>,
}

/// The outcome of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairState {
    /// There is nothing to repair.
    Whole,
    /// Nothing was changed, because data would be lost or may be.
    ///
    /// The loss was not accepted, or a node that did not answer may have the data.
    Damaged,
    /// Nodes continue with the shard.
    Repaired,
}

/// The order to repair a shard.
#[derive(Debug, Clone)]
pub struct RepairOrder {
    /// The shard.
    pub shard: u16,
    /// Set if lost data is given up.
    pub accept_loss: bool,
    /// A backup of the cluster or of the shard.
    pub from: Option<PathBuf>,
    /// Data directories of stopped nodes.
    pub nodes: Vec<PathBuf>,
}

/// Repairs a shard of the cluster of the settings. Nodes may run; none serves the shard.
///
/// # Errors
/// [`ClusterError`]; the same repair may be run again.
pub async fn repair_shard(
    settings: &Settings,
    order: RepairOrder,
) -> Result<ShardRepaired, ClusterError> {
    let keys = master_keys(settings).ok_or(ClusterError::NoServers)?;
    let access = access(settings, &keys)?;
    let peers = Peers::new(token(&keys), &settings.cluster)?;
    let name = format!("repair-{:03}", order.shard);
    let work = settings.server.data_dir.join(name);
    let data_dir = settings.server.data_dir.clone();
    let segment_bytes = settings.storage.segment_bytes;
    let repaired = tokio::task::spawn_blocking(move || {
        let work = Work::at(&work)?;
        Repair { work, order, data_dir, segment_bytes }.run(&access, &peers)
    });
    repaired.await?
}

/// The retained entries of nodes, and the nodes that did not return theirs, with the reasons.
type Heard = (Vec<Arc<dyn NodeEntries>>, Vec<(String, String)>);

/// Repeats a question that fails: a node may be busy, or out of reach for a moment.
fn asked<T>(mut ask: impl FnMut() -> Result<T, String>, pause: impl Fn()) -> Result<T, String> {
    for _ in 1..ASKED_TIMES {
        if let Ok(answer) = ask() {
            return Ok(answer);
        }
        pause();
    }
    ask()
}

fn shown(
    shard: u16,
    finding: &Finding,
    not_heard: &[(String, String)],
    state: RepairState,
) -> ShardRepaired {
    ShardRepaired {
        shard,
        state,
        last: finding.end.0,
        given_up: finding.given_up().map(|(from, to)| (from.0, to.0)),
        unknown_behind: finding.unknown_behind().map(|it| it.0),
        from_nodes: finding.from_nodes.map(|(from, to)| (from.0, to.0)),
        not_heard: not_heard.to_vec(),
        problems: finding.problems.clone(),
    }
}

struct Repair {
    work: Work,
    order: RepairOrder,
    /// The data directory of the settings, which may be a node's.
    data_dir: PathBuf,
    segment_bytes: u64,
}

impl Repair {
    /// Collects the retained entries of the log, and the nodes that did not return theirs.
    ///
    /// Running nodes are asked, and directories are read.
    fn nodes(&self, repair: &ShardRepair, peers: &Peers) -> Result<Heard, ClusterError> {
        let shard = self.order.shard;
        let dirs = self.order.nodes.iter().chain([&self.data_dir]);
        let mut places: Vec<_> = dirs.map(|data| kept::directory(data, shard)).collect();
        let mut not_heard = Vec::new();
        for (node, address) in repair.running_nodes()? {
            let file = self.work.file(&format!("entries-{node}"));
            let ask = |from: &Place| {
                let page = asked(
                    || peers.entries(&address, shard, from),
                    || {
                        std::thread::sleep(ASKED_AGAIN_AFTER);
                    },
                );
                page.map_err(std::io::Error::other)
            };
            match kept::write_all(&file, ask) {
                Ok(()) => places.push(file),
                Err(error) => {
                    tracing::warn!(%node, %error, "what the node has kept is not known");
                    not_heard.push((node.to_string(), error.to_string()));
                }
            }
        }
        let open = |path: PathBuf| -> Result<Arc<dyn NodeEntries>, ClusterError> {
            let kept = KeptFiles::open(&path).map_err(|error| CopyError::io(&path, &error))?;
            Ok(Arc::new(kept))
        };
        Ok((places.into_iter().map(open).collect::<Result<_, _>>()?, not_heard))
    }

    fn run(&self, access: &Access, peers: &Peers) -> Result<ShardRepaired, ClusterError> {
        let shard = self.order.shard;
        let repair = ShardRepair::open(access, peers, shard, random::bytes())?;
        let (nodes, not_heard) = self.nodes(&repair, peers)?;
        let mut repair = repair.with_nodes(nodes);
        let backup = self.backup(repair.id())?;
        let base = self.work.file("base.archive");
        let finding = repair.find(&base, backup.as_ref().map(|(_, end)| *end))?;
        let repaired = |state| shown(shard, &finding, &not_heard, state);
        if !finding.needs_repair() {
            let problems = finding.advice();
            return Ok(ShardRepaired { problems, ..repaired(RepairState::Whole) });
        }
        // An accepted loss does not cover entries that a node may have.
        if finding.loses() && !(self.order.accept_loss && not_heard.is_empty()) {
            return Ok(repaired(RepairState::Damaged));
        }
        if let (Base::Backup(end), Some((dir, _))) = (&finding.base, &backup) {
            self.restore(&base, (repair.id(), *end), dir)?;
        }
        let source = self.roll_forward(&base, &repair, &finding)?;
        let claimed = repair.claim(&finding, finding.time_ms)?;
        let file = self.write(&source, &claimed)?;
        repair.finish(claimed, &file)?;
        Ok(repaired(RepairState::Repaired))
    }

    /// Returns the directory of the shard's backup, and the end of the backup.
    fn backup(&self, id: LogId) -> Result<Option<(PathBuf, Mark)>, CopyError> {
        let Some(from) = &self.order.from else { return Ok(None) };
        let dir = if ShardList::is_of_cluster(from) {
            ShardList::directory(from, self.order.shard)
        } else {
            from.clone()
        };
        let (log, end) = RestorePlan::new(&dir, None)?.end();
        if log == id {
            return Ok(Some((dir, end)));
        }
        let what = format!("{} is the backup of another shard or cluster", dir.display());
        Err(CopyError::Io(what))
    }

    fn target<'a>(&self, dir: &'a Path) -> Target<'a> {
        Target { dir, keys: None, segment_bytes: self.segment_bytes, held: false, contents: None }
    }

    /// Makes an archive of a backup.
    fn restore(&self, to: &Path, (log, end): (LogId, Mark), from: &Path) -> Result<(), CopyError> {
        let dir = self.made("backup")?;
        restore_shard(from, self.target(&dir))?;
        self.archive(&DataSource::stopped(&dir)?, (log, end), to)
    }

    fn made(&self, name: &str) -> Result<PathBuf, CopyError> {
        let dir = self.work.file(name);
        std::fs::create_dir(&dir).map_err(|error| CopyError::io(&dir, &error))?;
        Ok(dir)
    }

    /// Returns all intact data, in the form of a stopped server's data.
    fn roll_forward(
        &self,
        base: &Path,
        repair: &ShardRepair,
        finding: &Finding,
    ) -> Result<DataSource, ClusterError> {
        if finding.base == Base::Nothing {
            super::backup::nothing(repair.id(), self.order.shard, base)?;
        }
        check_space(self.work.path(), archive_bytes(base)?.saturating_mul(COPIES))?;
        let dir = self.made("data")?;
        let commits = |at: Mark, visit: &mut dyn FnMut(Commit) -> Result<(), CopyError>| {
            let mut last = None;
            let done = repair.commits::<Stopped>(finding, &mut |commit| {
                last = Some(commit.clone());
                visit(commit).map_err(Stopped)
            });
            done.map(|()| last.as_ref().map_or(at, Mark::of)).map_err(|Stopped(error)| error)
        };
        restore_followed(base, &commits, self.target(&dir))?;
        Ok(DataSource::stopped(&dir)?)
    }

    fn write(&self, source: &DataSource, claimed: &RepairClaim) -> Result<PathBuf, CopyError> {
        let file = self.work.file("new.archive");
        self.archive(source, (claimed.id, claimed.at), &file)?;
        Ok(file)
    }

    fn archive(
        &self,
        source: &DataSource,
        (log, at): (LogId, Mark),
        to: &Path,
    ) -> Result<(), CopyError> {
        let shard = (log, self.order.shard, at);
        write_file(to, |out| source.write_shard(shard, out).map(drop), |_| Ok(())).map(drop)
    }
}

/// The reason why commits were not read to the end.
struct Stopped(CopyError);

impl From<RepairError> for Stopped {
    fn from(error: RepairError) -> Self {
        Self(CopyError::Lost(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn who_does_not_answer_is_asked_again_before_that_counts() {
        for (fails, expected) in [(0, Ok(1)), (2, Ok(3)), (3, Err("busy 3".to_owned()))] {
            let (asks, pauses) = (Cell::new(0), Cell::new(0));
            let ask = || {
                asks.set(asks.get() + 1);
                if asks.get() > fails {
                    Ok(asks.get())
                } else {
                    Err(format!("busy {}", asks.get()))
                }
            };
            assert_eq!(asked(ask, || pauses.set(pauses.get() + 1)), expected);
            assert_eq!(pauses.get(), asks.get() - 1, "{fails}");
        }
    }
}
