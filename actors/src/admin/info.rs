//! The results and errors of administration.

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Limits, Timestamp, WorkspaceId};
use postrider_number::record::NumberChangeError;
use postrider_store::Usage;
use postrider_workspace::core::settings::ChangeError;

/// A workspace, as an administrator sees it.
#[derive(Debug, Clone)]
pub struct WorkspaceInfo {
    /// Its id.
    pub id: WorkspaceId,
    /// The name for people.
    pub name: String,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// Its balance.
    pub credits: u64,
    /// The limits in force.
    pub limits: Limits,
    /// The number of API keys that are not revoked.
    pub keys: usize,
    /// The number of connected numbers.
    pub numbers: usize,
    /// The number of requests for one-time passwords in memory.
    pub otps: usize,
    /// The bytes and broadcasts that it uses.
    pub usage: Usage,
    /// The state of its actor.
    pub state: WorkspaceState,
}

/// The state of a workspace's actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceState {
    /// It does not run, because it has nothing to do; it starts when it is needed.
    Idle,
    /// It runs.
    Live,
    /// It died and restarts in a moment.
    Restarting,
    /// It cannot start, for this reason.
    Parked(String),
}

/// The reason for which a workspace was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateWorkspaceError {
    /// Another workspace has that id.
    #[error("there is a workspace of that id already")]
    Exists,
    /// A workspace of that id was deleted, and rows of it are left.
    #[error("the deleted workspace of that id is still being removed; try again soon")]
    BeingRemoved,
    /// It cannot be made now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The reason for which an administrative call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// There is no such workspace.
    #[error("no such workspace")]
    NoSuchWorkspace,
    /// The workspace has no such key.
    #[error("no such key")]
    NoSuchKey,
    /// The channel knows the number, and it is connected already, in this workspace or another.
    #[error("a number of that phone_number_id is connected already")]
    NumberConnected,
    /// The number did not change.
    #[error(transparent)]
    Number(#[from] NumberChangeError),
    /// The workspace did not change.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The call cannot run now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
