//! Links that sign a person in, and invites to a workspace: each works once, for a limited time.

use std::time::Duration;

use postrider_domain::{InviteId, PersonId, Timestamp, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{Change, Table};
use serde::{Deserialize, Serialize};

use crate::permission::Role;
use crate::person::Login;
use crate::token::TokenHash;

/// The prefix of a link's row in [`Table::Meta`]. The person's id follows, so a new link replaces
/// the earlier one.
pub(crate) const LINK_ROW: &[u8] = b"sign_in_link/";
/// The time for which a link works, in real time.
pub(crate) const LINK_WORKS_FOR: Duration = Duration::from_secs(15 * 60);

/// A link in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) person: PersonId,
    pub(crate) hash: TokenHash,
    pub(crate) ends_at: Timestamp,
}

impl Link {
    pub(crate) fn put(&self) -> Change {
        Change::put(Table::Meta, self.row(), codec::encode(self))
    }

    pub(crate) fn delete(&self) -> Change {
        Change::delete(Table::Meta, self.row())
    }

    fn row(&self) -> Vec<u8> {
        [LINK_ROW, self.person.as_bytes()].concat()
    }
}

/// The prefix of an invite's row in [`Table::Meta`]. The id follows.
pub(crate) const INVITE_ROW: &[u8] = b"invite/";
/// The time for which an invite works, in real time.
pub(crate) const INVITE_WORKS_FOR: Duration = Duration::from_secs(72 * 3600);

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
    /// The person who made the invite, if any. It works only while that person may invite to its
    /// role.
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
        [INVITE_ROW, self.id.as_bytes()].concat()
    }
}
