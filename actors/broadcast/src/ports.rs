//! The surroundings of a fan-out: the port to its workspace, and the services that all use.

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::template::{TemplateName, TemplateStatus};
use postrider_domain::{BroadcastId, NumberId, Phone, Timestamp, WorkspaceId};
use postrider_number::Numbers;
use postrider_runtime::clock::Clock;
use postrider_runtime::task::BoxFuture;
use postrider_store::{Change, StoreError, View, Writer};

use crate::control::{Control, ControlError};
use crate::placement::Budget;
use crate::record::Record;

/// The recipients that were counted, within the available room.
#[derive(Debug, Default)]
pub struct CountedRecipients {
    /// For each recipient in order: `true` if the message may be sent.
    pub may_go: Vec<bool>,
    /// The changes that must be committed before any message is dispatched.
    pub changes: Vec<Change>,
}

/// The workspaces, as their broadcasts use them. The workspace crate implements it.
///
/// The methods that return no future read committed records. They may block for the length of a
/// read, and fail if it fails.
pub trait BroadcastHost: Send + Sync + 'static {
    /// Changes the status of a broadcast. Resolves to its record once the change is durable.
    fn control<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        id: BroadcastId,
        control: Control,
    ) -> BoxFuture<'a, Result<Record, ControlError>>;

    /// Returns the template's status in the account of each of these numbers, in their order. A
    /// status is `None` if the account has no template of that name and language.
    fn template_statuses(
        &self,
        workspace: &WorkspaceId,
        template: &TemplateName,
        numbers: &[NumberId],
    ) -> Result<Vec<Option<TemplateStatus>>, StoreError>;

    /// Returns whether the number is still connected to the workspace.
    fn is_connected(&self, workspace: &WorkspaceId, number: NumberId) -> Result<bool, StoreError>;

    /// Returns the number that was last used with each of these phones, in their order. It is
    /// `None` if there is none or it is not connected.
    fn last_used(
        &self,
        workspace: &WorkspaceId,
        phones: &[Phone],
    ) -> Result<Vec<Option<NumberId>>, StoreError>;

    /// Returns the changes that note which number is used with these phones from now on.
    fn note_used(
        &self,
        workspace: &WorkspaceId,
        used: &[(Phone, NumberId)],
        at: Timestamp,
    ) -> Result<Vec<Change>, StoreError>;

    /// Returns the room for recipients who do not count already, through these numbers.
    fn budget(&self, workspace: &WorkspaceId, numbers: &[NumberId]) -> Result<Budget, StoreError>;

    /// Counts recipients of a broadcast towards the budgets of their numbers, in order, within the
    /// room.
    fn count(
        &self,
        of: (&WorkspaceId, BroadcastId),
        placed: &[(Phone, NumberId)],
    ) -> Result<CountedRecipients, StoreError>;

    /// Returns the places in the budgets of recipients whose messages were certainly not sent.
    /// Returns the changes that must be committed.
    fn give_back(
        &self,
        of: (&WorkspaceId, BroadcastId),
        placed: &[(Phone, NumberId)],
    ) -> Result<Vec<Change>, StoreError>;

    /// Returns whether any phone has opted out. If not, callers need not ask for each phone.
    fn any_opted_out(&self, workspace: &WorkspaceId) -> Result<bool, StoreError>;

    /// Returns whether each of these phones has opted out, in their order.
    fn opted_out(&self, workspace: &WorkspaceId, phones: &[Phone])
    -> Result<Vec<bool>, StoreError>;
}

/// The services that every fan-out uses.
pub struct Services {
    /// The committed records.
    pub view: Arc<dyn View>,
    /// The group commit, which makes claims and outcomes durable.
    pub writer: Writer,
    /// The engine's clock.
    pub clock: Clock,
    /// The numbers to which messages are dispatched.
    pub numbers: Arc<Numbers>,
    /// The time after its claim during which a message may be sent.
    pub give_up: Duration,
    /// The time after which another number takes over the recipients of a number that is down.
    pub reassign_after: Duration,
}
