//! The port through which fan-outs use their workspaces.

use postrider_domain::template::TemplateName;
use postrider_domain::template::TemplateStatus;
use postrider_domain::{BroadcastId, NumberId, Phone, Timestamp, WorkspaceId};
use postrider_runtime::task::BoxFuture;
use postrider_store::{Change, StoreError};

use crate::budget::Budget;
use crate::control::{Control, ControlError};
use crate::record::Record;

/// Recipients that were counted, as far as there was room.
#[derive(Debug, Default)]
pub struct CountedRecipients {
    /// Whether each may be written to.
    pub may_go: Vec<bool>,
    /// What must be committed before anything is handed over.
    pub changes: Vec<Change>,
}

/// The workspaces, as their broadcasts see them. The workspace crate implements it.
///
/// The methods that return no future read committed records. They may block for the length of a
/// read.
pub trait BroadcastHost: Send + Sync + 'static {
    /// Changes the status of a broadcast. Resolves to its record once the change is durable.
    fn control<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        id: BroadcastId,
        control: Control,
    ) -> BoxFuture<'a, Result<Record, ControlError>>;

    /// The status of a template with the account of each of these numbers, in their order; `None`
    /// where the account has no template of that name and language.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be read.
    fn template_statuses(
        &self,
        workspace: &WorkspaceId,
        template: &TemplateName,
        numbers: &[NumberId],
    ) -> Result<Vec<Option<TemplateStatus>>, StoreError>;

    /// Whether the number is still connected to the workspace.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be read.
    fn is_connected(&self, workspace: &WorkspaceId, number: NumberId) -> Result<bool, StoreError>;

    /// Which number was last used with each of these phones, in their order; `None` where that is
    /// none that is connected.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be read.
    fn last_used(
        &self,
        workspace: &WorkspaceId,
        phones: &[Phone],
    ) -> Result<Vec<Option<NumberId>>, StoreError>;

    /// The changes that note which number is used with these phones from now on.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be read.
    fn note_used(
        &self,
        workspace: &WorkspaceId,
        used: &[(Phone, NumberId)],
        at: Timestamp,
    ) -> Result<Vec<Change>, StoreError>;

    /// How many recipients that do not count already may be written to through these numbers.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be read.
    fn budget(&self, workspace: &WorkspaceId, numbers: &[NumberId]) -> Result<Budget, StoreError>;

    /// Counts recipients of a broadcast towards the budgets of the numbers that they are placed
    /// with, in their order, as far as there is room.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be read.
    fn count(
        &self,
        of: (&WorkspaceId, BroadcastId),
        placed: &[(Phone, NumberId)],
    ) -> Result<CountedRecipients, StoreError>;

    /// Gives back what was counted for a broadcast of recipients whose messages were surely not
    /// sent. Returns what must be committed.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be read.
    fn give_back(
        &self,
        of: (&WorkspaceId, BroadcastId),
        placed: &[(Phone, NumberId)],
    ) -> Result<Vec<Change>, StoreError>;

    /// Whether any phone has opted out. If not, callers need not ask for phones one by one.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be read.
    fn any_opted_out(&self, workspace: &WorkspaceId) -> Result<bool, StoreError>;

    /// Whether each of these phones has opted out, in their order.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be read.
    fn opted_out(&self, workspace: &WorkspaceId, phones: &[Phone])
    -> Result<Vec<bool>, StoreError>;
}
