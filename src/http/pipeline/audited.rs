//! Lets handlers make changes that the audit log records as the caller's.

use std::sync::Arc;

use axum::http::Method;
use postrider_actors::domain::{AuditContext, SessionId};
use postrider_actors::{Admin, Manager, Permission, Permissions, Recent, Session, Workspace};

use super::error::ApiError;
use super::principal::{Principal, check_recent};
use super::stage::Call;
use crate::http::readings::Reading;

impl<C> Call<C> {
    /// Returns the caller's context, for a change that is recorded.
    pub(crate) fn audit_context(&self) -> Arc<AuditContext> {
        self.origin.audit_context()
    }

    /// Returns the caller as a manager, to change the members of a workspace.
    pub(crate) fn manager(&self, permissions: Permissions) -> Manager {
        Manager {
            context: self.audit_context(),
            owners: permissions.contains(Permission::OwnersManage),
            operates: self.origin.identity.operates(),
            person: self.origin.identity.person(),
            session: self.session(),
        }
    }

    /// Returns the id of the caller's session, if they have one.
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.origin.identity.session().map(Session::id)
    }

    /// Returns the administration, for changes that are recorded as this caller's.
    pub(crate) fn admin(&self) -> Admin {
        self.edge.engine.admin().by(self.origin.audit_context())
    }

    /// Returns the workspace, for changes that are recorded as this caller's.
    pub(crate) fn audited(&self, workspace: &Workspace) -> Workspace {
        workspace.by(self.origin.audit_context())
    }
}

impl Call<Principal> {
    /// Checks and records a reading of all rows of a kind in one answer. A person must have signed
    /// in recently. The reading is added to the audit log.
    pub(crate) async fn reads_all(&self, reading: Reading) -> Result<(), ApiError> {
        let caller = &self.caller;
        if let Principal::Person(member) = caller {
            check_recent(&self.edge, &Method::GET, &member.signed_in, Recent::Always)?;
        }
        let (engine, by) = (&self.edge.engine, self.audit_context());
        let workspace = Some(caller.workspace().id());
        Ok(self.edge.readings.record(engine, &by, reading, workspace).await?)
    }
}
