//! The records of opt-outs, and reads of them beside the actors: for audiences and fan-outs.

use std::ops::ControlFlow;

use hashbrown::HashSet;
use postrider_domain::opt_out::OptOutSource;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{PartyId, Phone, Timestamp, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, View};
use serde::{Deserialize, Serialize};

use super::{Suppression, TABLE, count_key, key, number, phones_prefix};
use crate::Workspace;
use crate::contacts::{ContactFilter, list};

/// The ratio of opt-outs to requested phones up to which all opt-outs are scanned.
const SCANNED_PER_PHONE: u64 = 8;

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

/// Returns whether a phone has opted out, as far as it is committed.
pub fn is_opted_out(
    store: &dyn View,
    workspace: &WorkspaceId,
    phone: Phone,
) -> Result<bool, StoreError> {
    Ok(store.get(TABLE, &key(workspace, &phone.into()))?.is_some())
}

/// Returns whether each of these phones has opted out, in their order, as far as it is committed.
///
/// While few phones have opted out, one scan over theirs costs less than a read for each requested
/// one.
pub(crate) fn opted_out(
    store: &dyn View,
    workspace: &WorkspaceId,
    phones: &[Phone],
) -> Result<Vec<bool>, StoreError> {
    let kept = store.get(TABLE, &count_key(workspace))?;
    let count = kept.map(|kept| number(&kept)).transpose()?;
    if count.is_some_and(|count| count <= SCANNED_PER_PHONE * phones.len() as u64) {
        let out: HashSet<Phone> = all(store, workspace)?.into_iter().collect();
        return Ok(phones.iter().map(|phone| out.contains(phone)).collect());
    }
    phones.iter().map(|phone| is_opted_out(store, workspace, *phone)).collect()
}

/// Returns whether any phone has opted out, as far as it is committed.
pub fn any(store: &dyn View, workspace: &WorkspaceId) -> Result<bool, StoreError> {
    let (mut any, prefix) = (false, phones_prefix(workspace));
    store.scan(TABLE, &prefix, None, Direction::Forward, &mut |_, _| {
        any = true;
        ControlFlow::Break(())
    })?;
    Ok(any)
}

/// Returns the phones that have opted out, as far as it is committed.
pub(crate) fn all(store: &dyn View, workspace: &WorkspaceId) -> Result<Vec<Phone>, StoreError> {
    let (mut phones, prefix) = (Vec::new(), phones_prefix(workspace));
    store.scan(TABLE, &prefix, None, Direction::Forward, &mut |key, _| {
        phones.push(party_of(&key[prefix.len() - 1..]));
        ControlFlow::Continue(())
    })?;
    phones.into_iter().filter_map(|it| it.map(|it| it.phone()).transpose()).collect()
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
    let out = opted_out(store, workspace, &phones)?;
    let suppressed = out.into_iter().filter(|is_out| *is_out).count();
    Ok(ContactsCount { contacts, with_phone: phones.len(), suppressed })
}
