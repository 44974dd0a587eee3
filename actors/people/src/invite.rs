//! Invites: each makes one person a member of a workspace, within a limited time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use postrider_domain::{InviteId, PersonId, Timestamp, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{Change, Table};

use crate::person::Login;
use crate::role::Role;
use crate::token::TokenHash;

/// The prefix of an invite's row in [`Table::Meta`]. The id follows.
pub(crate) const ROW: &[u8] = b"invite/";
/// The time for which an invite works, in real time.
pub(crate) const WORKS_FOR: Duration = Duration::from_secs(72 * 3600);

/// An invite in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// The invite's id.
    pub id: InviteId,
    /// The workspace to which it invites.
    pub workspace: WorkspaceId,
    /// The role that it gives in the workspace.
    pub role: Role,
    /// The address of the invited person.
    pub email: Login,
    /// The time at which it expires, in real time.
    pub ends_at: Timestamp,
    pub(crate) hash: TokenHash,
    /// The person who made the invite, if any. It works while they may invite to such a role.
    pub(crate) by: Option<PersonId>,
}

impl Invite {
    pub(crate) fn put(&self) -> Change {
        Change::put(Table::Meta, self.row(), codec::encode(self))
    }

    pub(crate) fn delete(&self) -> Change {
        Change::delete(Table::Meta, self.row())
    }

    fn row(&self) -> Vec<u8> {
        [ROW, self.id.as_bytes()].concat()
    }
}
