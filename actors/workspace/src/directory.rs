//! The directory of workspaces: those that exist, and where each actor is.

use postrider_domain::WorkspaceId;
use postrider_runtime::directory::Directory;

use crate::mailbox::message::WorkspaceMessage;
use crate::mailbox::slot::WorkspaceEntry;

/// The workspaces.
pub type Workspaces = Directory<WorkspaceId, WorkspaceMessage, WorkspaceEntry>;
