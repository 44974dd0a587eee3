//! Reports which recipients have opted out, beside the actors: for audiences and fan-outs.

use std::ops::ControlFlow;

use hashbrown::HashSet;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{PartyId, Phone, WorkspaceId};
use postrider_store::{Direction, StoreError, View};

use super::record::{party_of, suppression};
use super::{Suppression, TABLE, count_key, key, number, phones_prefix};
use crate::Workspace;

/// The ratio of opt-outs to requested phones up to which all opt-outs are scanned.
const SCANNED_PER_PHONE: u64 = 8;

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
