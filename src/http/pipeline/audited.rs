//! Lets handlers make changes that the audit log records as the caller's.

use std::sync::Arc;

use postrider_actors::domain::{AuditContext, SessionId};
use postrider_actors::{Admin, Manager, Permission, Permissions, Session, Workspace};

use super::stage::Call;

impl<C> Call<C> {
    /// Who calls, for a change that is recorded.
    pub(crate) fn audit_context(&self) -> Arc<AuditContext> {
        self.origin.audit_context()
    }

    /// Who calls, to change the members of a workspace.
    pub(crate) fn manager(&self, permissions: Permissions) -> Manager {
        Manager {
            context: self.audit_context(),
            owners: permissions.contains(Permission::OwnersManage),
            session: self.session(),
        }
    }

    /// The session of who calls, if they have one.
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.origin.identity.session().map(Session::id)
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
