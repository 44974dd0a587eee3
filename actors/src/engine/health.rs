//! The health of an engine.

use std::collections::BTreeSet;

use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;
use postrider_runtime::clock::ClockHealth;
use postrider_workspace::media::{may_stage, stage};
use ractor::ActorStatus;

use super::Engine;
use crate::StagedMedia;

/// The number of damaged workspaces that a warning names; it counts the others.
const NAMED_MAX: usize = 5;

/// The health of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Set if it accepts work.
    pub ready: bool,
    /// The reasons why it does not, for an operator.
    pub reasons: Vec<String>,
    /// The first reason for a program: `draining` or `storage_failed`.
    pub reason: &'static str,
    /// The warnings for an operator although the engine accepts work, each as `subject: what`.
    pub warnings: Vec<String>,
    /// Set if nothing leaves it until [`Admin::release`](crate::Admin::release).
    pub held: bool,
    /// The last position of the log.
    pub log_position: u64,
    /// The position of the records.
    pub view_position: u64,
    /// The position up to which the records certainly survive a power failure.
    pub view_synced: u64,
}

impl Engine {
    /// Starts the content of a file, which `Workspace::add_media` then adds. Its writes block.
    ///
    /// # Errors
    /// [`Unavailable`]: it cannot be written, or this engine stores none.
    pub async fn stage_media(&self) -> Result<StagedMedia, Unavailable> {
        stage(&self.inner.shared).await
    }

    /// Checks whether more of a content may be written now.
    ///
    /// # Errors
    /// [`Unavailable`]: the disk is almost full.
    pub fn may_stage_media(&self) -> Result<(), Unavailable> {
        may_stage(&self.inner.shared)
    }

    /// Returns the health of the engine.
    #[must_use]
    pub fn health(&self) -> Health {
        let shared = &self.inner.shared;
        let mut reasons = Vec::new();
        if !shared.admission.is_open() {
            reasons.push("shutting down".to_owned());
        }
        if !shared.writer.is_healthy() {
            reasons.push("storage is failing".to_owned());
        }
        let figures = shared.recovered.log().figures();
        if let Some(problem) = figures.as_ref().and_then(|it| it.problem.as_ref()) {
            reasons.push(format!("the log will soon be full: {problem}"));
        }
        // A start may return before its loop has started, which is no reason.
        if self.inner.root.get_status() > ActorStatus::Upgrading {
            reasons.push("the engine's supervisor has stopped".to_owned());
        }
        let mut warnings = clock_warnings(shared.clock.health());
        warnings.extend(shared.disk.warning());
        warnings.extend(damage_warning(&shared.damaged()));
        // A store in memory has no log of its own: each commit is in all of it.
        let last = shared.writer.last_position();
        let positions = figures.map_or([last; 3], |it| [it.last, it.applied, it.synced]);
        let [log_position, view_position, view_synced] = positions.map(|position| position.0);
        let reason = if shared.admission.is_open() { "storage_failed" } else { "draining" };
        let (ready, held) = (reasons.is_empty(), shared.hold.is_held());
        Health { ready, reasons, reason, warnings, held, log_position, view_position, view_synced }
    }

    /// Returns whether the engine can write now. The call costs nothing.
    #[must_use]
    pub fn can_write(&self) -> bool {
        let shared = &self.inner.shared;
        shared.writer.is_healthy() && shared.disk.warning().is_none()
    }

    /// Waits until the engine has ended. It ends by [`Engine::shutdown`], or because one of its
    /// supervisors died, which is a defect. From then on it answers nothing, so its process must be
    /// restarted.
    pub async fn ended(&self) {
        // Without a timeout there is no other result.
        self.inner.root.wait(None).await.ok();
    }
}

/// Returns a line that names the damaged workspaces, or the first of them.
fn damage_warning(damaged: &BTreeSet<WorkspaceId>) -> Option<String> {
    let first: Vec<_> = damaged.iter().take(NAMED_MAX).map(WorkspaceId::as_str).collect();
    let (named, more) = (first.join(", "), damaged.len() - first.len());
    match (damaged.len(), more) {
        (0, _) => None,
        (1, _) => Some(format!("damaged: the data of workspace {named} cannot be read")),
        (_, 0) => Some(format!("damaged: the data of workspaces {named} cannot be read")),
        _ => {
            Some(format!("damaged: the data of workspaces {named} and {more} more cannot be read"))
        }
    }
}

fn clock_warnings(clock: ClockHealth) -> Vec<String> {
    let mut warnings = Vec::new();
    if clock.in_step {
        let seconds = clock.difference_ms / 1000;
        warnings.push(format!(
            "clock: the machine's clock differs by {seconds} s from the time that the engine keeps"
        ));
    }
    if clock.is_ahead {
        let seconds = clock.lead.as_secs();
        warnings.push(format!(
            "clock: the data is {seconds} s ahead of the machine's clock, so engine time is too"
        ));
    }
    warnings
}
