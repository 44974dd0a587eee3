//! Links that each sign a person in once, within a limited time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use postrider_domain::{PersonId, Timestamp};
use postrider_store::view::codec;
use postrider_store::{Change, Table};

use crate::token::TokenHash;

/// The prefix of a link's row in [`Table::Meta`]. The person's id follows, so a new link replaces
/// the earlier one.
pub(crate) const ROW: &[u8] = b"sign_in_link/";
/// The time for which a link works, in real time.
pub(crate) const WORKS_FOR: Duration = Duration::from_secs(15 * 60);

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
        [ROW, self.person.as_bytes()].concat()
    }
}
