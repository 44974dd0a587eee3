//! The workspaces that the newest snapshot keeps unchanged, because they cannot be read.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use postrider_domain::WorkspaceId;

/// The unreadable workspaces of the newest snapshot that this process took.
///
/// Clones share one set. An actor may still run for one of them: it would not start again.
#[derive(Debug, Clone, Default)]
pub struct KeptAside(Arc<Mutex<BTreeSet<WorkspaceId>>>);

impl KeptAside {
    pub(super) fn set(&self, all: BTreeSet<WorkspaceId>) {
        *self.0.lock() = all;
    }

    /// Returns the workspaces.
    #[must_use]
    pub fn all(&self) -> BTreeSet<WorkspaceId> {
        self.0.lock().clone()
    }
}
