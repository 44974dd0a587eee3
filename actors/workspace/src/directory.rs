//! The directory of workspaces: those that exist, and the placement of each actor.

use postrider_domain::WorkspaceId;
use postrider_runtime::directory::Directory;

use crate::mailbox::message::WorkspaceMessage;
use crate::mailbox::slot::WorkspaceEntry;

/// The workspaces.
pub type Workspaces = Directory<WorkspaceId, WorkspaceMessage, WorkspaceEntry>;
