//! Lets handlers make changes that the audit log records as the caller's.

use std::sync::Arc;

use postrider_actors::domain::AuditContext;
use postrider_actors::{Admin, Workspace};

use super::stage::Call;

impl<C> Call<C> {
    /// Who calls, for a change that is recorded.
    pub(crate) fn audit_context(&self) -> Arc<AuditContext> {
        self.origin.audit_context()
    }

    /// The administration, for changes that are recorded as this caller's.
    pub(crate) fn admin(&self) -> Admin {
        self.edge.engine.admin().by(self.origin.audit_context())
    }

    /// The workspace, for changes that are recorded as this caller's.
    pub(crate) fn audited(&self, workspace: &Workspace) -> Workspace {
        workspace.by(self.origin.audit_context())
    }
}
