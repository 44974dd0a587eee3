//! The view of a repair: the reports of the nodes, the stored copies, and the log behind each.

use std::path::Path;

use postrider_log::{Mark, Position};

use super::finding::{StoppedNode, walk};
use super::mark::{is_under_way, last_epoch, was_missing};
use super::{Base, Finding, RepairError, ShardRepair};
use crate::checkpoints::{CheckpointRecord, CheckpointsError};
use crate::coordination::{Standing, read_nodes};
use crate::name::NodeName;

/// The maximum number of looks while the owner stores other checkpoints meanwhile.
const LOOKS: usize = 3;

/// The known facts of a shard beside its log.
#[derive(Debug, Default)]
struct Seen {
    known: Position,
    epoch: u64,
    owner: Option<NodeName>,
    stopped: Vec<StoppedNode>,
    is_unfinished: bool,
    is_missing: bool,
}

/// The possible bases, each with the entries that follow it, and the problems of the others.
#[derive(Default)]
struct Bases {
    found: Vec<Finding>,
    /// The checkpoint that was fetched into the file.
    fetched: Option<CheckpointRecord>,
    slow: Option<CheckpointsError>,
    problems: Vec<String>,
}

impl ShardRepair {
    /// Finds out which part of the shard is whole.
    ///
    /// A whole checkpoint is left in the file `into`, unless a backup that ends at `backup` is a
    /// better base. Nothing is written to the cluster.
    ///
    /// # Errors
    /// See [`RepairError`].
    pub fn find(&self, into: &Path, backup: Option<Mark>) -> Result<Finding, RepairError> {
        let mut listed = self.listed()?;
        for _ in 1..LOOKS {
            let finding = self.look(&listed, into, backup);
            if finding.as_ref().is_ok_and(|it| !it.needs_repair()) {
                return finding;
            }
            // The owner removes unlisted checkpoints, and trims the log.
            let now = self.listed()?;
            if now == listed {
                return finding;
            }
            listed = now;
        }
        self.look(&listed, into, backup)
    }

    fn listed(&self) -> Result<Vec<CheckpointRecord>, RepairError> {
        self.checkpoints.list().map_err(|error| self.not_stored(&error))
    }

    fn look(
        &self,
        listed: &[CheckpointRecord],
        into: &Path,
        backup: Option<Mark>,
    ) -> Result<Finding, RepairError> {
        let mut seen = self.seen_by_nodes()?;
        for record in listed {
            seen.known = seen.known.max(Position(record.position));
            seen.epoch = seen.epoch.max(record.epoch);
        }
        let mut bases = self.fetched(listed, into, &seen)?;
        if !bases.found.iter().any(Finding::leads_on) {
            bases.found.push(self.walked(Base::Nothing, &seen)?);
        }
        // A backup that has more than the log shows that the log lost entries.
        if let Some(end) = backup {
            bases.found.push(self.walked(Base::Backup(end), &seen)?);
        }
        let Bases { found, fetched, slow, mut problems } = bases;
        let first = found.first().map_or(Position::START, |it| it.first);
        // Copies of a branch that the log has left are of no use.
        let others = found.iter().filter(|it| matches!(it.base, Base::Checkpoint(_)));
        let forked: Vec<_> =
            others.filter(|it| it.fork.is_some()).map(|it| it.base.mark()).collect();
        let better = |best: Finding, other: Finding| {
            if other.rank() > best.rank() { other } else { best }
        };
        let Some(mut best) = found.into_iter().filter(Finding::has_base).reduce(better) else {
            let left = RepairError::NothingLeft { shard: self.shard, first };
            return Err(slow.map_or(left, |error| self.not_stored(&error)));
        };
        if let Base::Checkpoint(record) = &best.base
            && fetched.as_ref() != Some(record)
        {
            self.checkpoints
                .fetch(record, into, &|| false)
                .map_err(|error| self.not_stored(&error))?;
        }
        best.has_bad_copy = slow.is_some() || !forked.is_empty();
        for mark in forked.iter().filter(|mark| **mark != best.base.mark()) {
            best.is_loss_unknown = true;
            problems.push(format!("the copy of {} is of another branch of the log", mark.position));
        }
        best.set_problems(problems, self.missing.is_some());
        Ok(best)
    }

    /// Fetches the newest checkpoint that leads on, or all whole ones, and follows each.
    fn fetched(
        &self,
        listed: &[CheckpointRecord],
        into: &Path,
        seen: &Seen,
    ) -> Result<Bases, RepairError> {
        let mut bases = Bases::default();
        for record in listed {
            match self.checkpoints.fetch(record, into, &|| false) {
                Ok(()) => {
                    bases.fetched = Some(record.clone());
                    let found = self.walked(Base::Checkpoint(record.clone()), seen)?;
                    let leads_on = found.leads_on();
                    bases.found.push(found);
                    if leads_on {
                        break;
                    }
                }
                Err(error @ CheckpointsError::Damaged { .. }) => {
                    bases.problems.push(error.to_string());
                }
                Err(error @ CheckpointsError::Slow(_)) => {
                    bases.problems.push(error.to_string());
                    bases.slow = Some(error);
                }
                Err(error) => return Err(self.not_stored(&error)),
            }
        }
        Ok(bases)
    }

    fn walked(&self, base: Base, seen: &Seen) -> Result<Finding, RepairError> {
        // The owner is writing meanwhile, and itself reports entries that the log lacks.
        let mut beside = self.beside(seen.is_unfinished);
        if seen.owner.is_some() {
            beside.nodes = &[];
        }
        let log = (self.id, self.shard);
        let found = walk(&*self.stream, beside, log, base, seen.is_missing)?;
        Ok(Finding {
            known: found.known.max(seen.known),
            epoch: found.epoch.max(seen.epoch),
            owner: seen.owner.clone(),
            stopped: seen.stopped.clone(),
            is_unfinished: seen.is_unfinished,
            ..found
        })
    }

    /// Returns the reports of the live nodes about the shard since its last repair.
    fn seen_by_nodes(&self) -> Result<Seen, RepairError> {
        let bucket = &*self.bucket;
        let repaired = last_epoch(bucket, self.shard)?;
        let mut seen = Seen {
            epoch: repaired,
            is_unfinished: is_under_way(bucket, self.shard)?,
            is_missing: self.missing.is_some() || was_missing(bucket, self.shard)?,
            ..Seen::default()
        };
        for (node, record) in read_nodes(bucket)? {
            // Nodes that have applied nothing since then have nothing that a repair gave up.
            let counts = |epoch| epoch >= repaired || epoch == 0;
            let mut reports = record.shards.iter().filter(|it| counts(it.epoch));
            let Some(report) = reports.find(|it| it.shard == self.shard) else { continue };
            seen.known = seen.known.max(Position(report.position));
            seen.epoch = seen.epoch.max(report.epoch);
            match report.state {
                Standing::Owned => seen.owner = Some(node),
                Standing::Stopped => {
                    let reason = report.reason.clone().unwrap_or_default();
                    seen.stopped.push(StoppedNode { node, epoch: report.epoch, reason });
                }
                Standing::Claiming | Standing::Following => {}
            }
        }
        Ok(seen)
    }
}

impl Finding {
    /// Puts the problems beside the log before those of the log.
    fn set_problems(&mut self, copies: Vec<String>, is_missing: bool) {
        let mut problems = Vec::new();
        for StoppedNode { node, epoch, reason } in &self.stopped {
            problems.push(format!("{node} has stopped: {reason}"));
            if *epoch > 0 && *epoch < self.whole.epoch {
                problems.push(format!(
                    "the log goes on with epoch {}: what {node} alone has of epoch {epoch} is lost",
                    self.whole.epoch
                ));
            }
        }
        problems.extend(copies);
        if is_missing {
            problems.push("the log is missing".to_owned());
        }
        if self.is_unfinished {
            problems.push("a repair did not come to its end".to_owned());
        }
        if let Some(behind) = self.unknown_behind() {
            problems.push(format!("what followed {behind} is not known, so it may be lost"));
        }
        self.problems.splice(0..0, problems);
    }
}
