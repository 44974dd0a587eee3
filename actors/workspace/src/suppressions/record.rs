//! The records of opt-outs, and reads of them beside the actors.

use std::ops::ControlFlow;

use postrider_domain::opt_out::OptOutSource;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{PartyId, Phone, Timestamp, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{StoreError, View};
use serde::{Deserialize, Serialize};

use super::broadcast_exclusion::excluded_from_broadcasts;
use super::{Suppression, TABLE, key};
use crate::Workspace;
use crate::contacts::{ContactFilter, list};

/// The number of contacts that match a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContactsCount {
    /// The number of all matching contacts.
    pub contacts: usize,
    /// The number of those with a phone.
    pub with_phone: usize,
    /// The number of those whose phone has opted out.
    pub suppressed: usize,
}

/// The value under the key of a phone or a person.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) reason: Option<String>,
    pub(super) created_at: Timestamp,
    /// The source of the opt-out.
    pub(super) source: OptOutSource,
    /// The phone as it was written, where the key has another form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) phone: Option<Phone>,
}

impl Record {
    pub(super) fn of(suppression: &Suppression) -> Self {
        let Suppression { party, reason, source, created_at } = suppression;
        let is_another = |phone: &Phone| phone.as_u64() != phone.canonical().as_u64();
        Self {
            reason: reason.clone(),
            created_at: *created_at,
            source: *source,
            phone: party.phone().filter(is_another),
        }
    }
}

impl Workspace {
    /// Returns the opt-out of a party; `None`: it has not opted out.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn suppression_of(
        &self,
        party: impl Into<PartyId>,
    ) -> Result<Option<Suppression>, Unavailable> {
        let party = party.into();
        self.scan(move |store, workspace| {
            let key = key(workspace, &party);
            let value = store.get(TABLE, &key)?;
            // The name follows the workspace and its terminator in the key.
            let name = &key[workspace.as_str().len() + 1..];
            value.map(|value| suppression(name, &value)).transpose()
        })
        .await
    }

    /// Returns the current number of matching contacts.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn count_contacts(
        &self,
        filter: ContactFilter,
    ) -> Result<ContactsCount, Unavailable> {
        self.scan(move |store, workspace| count_matching(store, workspace, &filter)).await
    }
}

/// Returns the party of a key, which is given without the workspace.
pub(super) fn party_of(key: &[u8]) -> Result<PartyId, StoreError> {
    let text = std::str::from_utf8(key).ok();
    let party = text.and_then(|text| match text.strip_prefix('@') {
        Some(id) => id.parse().ok().map(PartyId::User),
        None => text.parse().ok().map(PartyId::Phone),
    });
    party.ok_or_else(|| StoreError::Damaged("the key of an opt-out".into()))
}

/// Returns an opt-out by its key and its record.
pub(super) fn suppression(party: &[u8], value: &[u8]) -> Result<Suppression, StoreError> {
    let party = party_of(party)?;
    let record: Record = codec::decode(value)?;
    let Record { reason, created_at, source, phone } = record;
    let party = phone.map_or(party, PartyId::from);
    Ok(Suppression { party, reason, source, created_at })
}

/// Counts the contacts of a filter, and those that a broadcast would reach.
fn count_matching(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &ContactFilter,
) -> Result<ContactsCount, StoreError> {
    let contacts = list::page(store, workspace, filter, 0, 0)?.total;
    let mut phones = Vec::new();
    list::phones(store, workspace, filter, &mut |phone| {
        phones.push(phone);
        ControlFlow::Continue(())
    })?;
    let excluded = excluded_from_broadcasts(store, workspace, Some(&phones))?;
    let suppressed = phones.iter().filter(|phone| excluded.contains(*phone)).count();
    Ok(ContactsCount { contacts, with_phone: phones.len(), suppressed })
}
