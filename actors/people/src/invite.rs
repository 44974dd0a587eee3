//! Invites: whoever has one becomes a member of a workspace, once and soon.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use postrider_domain::{InviteId, PersonId, Timestamp, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{Change, Table};

use crate::person::Login;
use crate::role::Role;
use crate::token::TokenHash;

/// What an invite's row begins with in [`Table::Meta`]. The id follows.
pub(crate) const ROW: &[u8] = b"invite/";
/// How long an invite works, in real time.
pub(crate) const WORKS_FOR: Duration = Duration::from_secs(72 * 3600);

/// An invite in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// Names the invite.
    pub id: InviteId,
    /// Where it makes somebody a member.
    pub workspace: WorkspaceId,
    /// What they are there.
    pub role: Role,
    /// Whom it is for.
    pub email: Login,
    /// When it stops working, in real time.
    pub ends_at: Timestamp,
    pub(crate) hash: TokenHash,
    /// Whoever made it, if that was a person: it works while they may invite to such a role.
    #[serde(default)]
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
