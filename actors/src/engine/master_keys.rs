//! The master keys at a start: those of the data must be given, and secrets move to the newest one.
//!
//! With other keys, right codes would be refused, and no stored secret could be read. Secrets are
//! encrypted again under the current key, so that earlier ones can be dropped.

use std::collections::BTreeMap;

use postrider_domain::WorkspaceId;
use postrider_domain::keys::MasterKeys;
use postrider_number::record::Stored;
use postrider_store::view::codec;
use postrider_store::{Change, StoreError, Table, View};
use postrider_webhook::records::{endpoints, endpoints_key};
use postrider_workspace::core::records;
use postrider_workspace::email;
use postrider_workspace::otp::{sms, test_phones};

use super::StartError;

/// The key of the fingerprints by version of the master key, in [`Table::Meta`].
const KEY: &[u8] = b"master_keys";
/// The purpose of a fingerprint: it reveals nothing of the keys derived for other purposes.
const PURPOSE: &[u8] = b"fingerprint of a master key";

type Fingerprint = [u8; 16];

/// Compares the keys with the earlier ones, and returns the changes that store new fingerprints.
///
/// The newest version must always be given: nothing says that its secrets were encrypted again.
///
/// # Errors
/// [`StartError::MasterKeyMissing`], [`StartError::MasterKeyWrong`], or the store cannot be read.
pub(crate) fn check(store: &dyn View, keys: &MasterKeys) -> Result<Vec<Change>, StartError> {
    let known = match store.get(Table::Meta, KEY)? {
        Some(bytes) => decode_fingerprints(&bytes)?,
        None => BTreeMap::new(),
    };
    let before = known.len();
    let all = check_known(known, keys)?;
    let is_new = all.len() > before;
    Ok(is_new
        .then(|| Change::put(Table::Meta, KEY, encode_fingerprints(&all)))
        .into_iter()
        .collect())
}

/// Compares the keys with fingerprints of the earlier ones, and returns all fingerprints.
///
/// # Errors
/// [`StartError::MasterKeyMissing`], [`StartError::MasterKeyWrong`].
pub(crate) fn check_known(
    mut known: BTreeMap<u8, Fingerprint>,
    keys: &MasterKeys,
) -> Result<BTreeMap<u8, Fingerprint>, StartError> {
    let given: BTreeMap<u8, Fingerprint> =
        keys.all_for(PURPOSE).map(|(version, key)| (version, first_half(key))).collect();
    if let Some((&version, _)) = known.last_key_value()
        && !given.contains_key(&version)
    {
        return Err(StartError::MasterKeyMissing { version });
    }
    for (&version, fingerprint) in &given {
        if known.get(&version).is_some_and(|known| known != fingerprint) {
            return Err(StartError::MasterKeyWrong { version });
        }
    }
    known.extend(given);
    Ok(known)
}

/// Returns versions and fingerprints of the master keys under which the data was written.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn fingerprints(store: &dyn View) -> Result<Vec<(u8, Fingerprint)>, StoreError> {
    let known = store.get(Table::Meta, KEY)?;
    let known = known.map(|bytes| decode_fingerprints(&bytes)).transpose()?;
    Ok(known.unwrap_or_default().into_iter().collect())
}

fn first_half(key: [u8; 32]) -> Fingerprint {
    std::array::from_fn(|index| key[index])
}

fn encode_fingerprints(fingerprints: &BTreeMap<u8, Fingerprint>) -> Vec<u8> {
    fingerprints.iter().flat_map(|(version, rest)| [&[*version], &rest[..]].concat()).collect()
}

fn decode_fingerprints(bytes: &[u8]) -> Result<BTreeMap<u8, Fingerprint>, StoreError> {
    let damaged = || StoreError::Damaged("the fingerprints of the master keys".into());
    let (all, rest) = bytes.as_chunks::<{ 1 + size_of::<Fingerprint>() }>();
    if !rest.is_empty() {
        return Err(damaged());
    }
    let entry = |entry: &[u8; 17]| {
        let (version, fingerprint) = entry.split_first().ok_or_else(damaged)?;
        Ok((*version, fingerprint.try_into().map_err(|_| damaged())?))
    };
    all.iter().map(entry).collect()
}

/// Returns the changes of records with secrets under earlier master keys. A secret that cannot be
/// read stays unchanged: the code that needs it reports it.
pub(super) fn reencrypted(
    store: &dyn View,
    workspaces: &[WorkspaceId],
    numbers: &[Stored],
    keys: &MasterKeys,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    if !keys.has_earlier() {
        return Ok(changes);
    }
    for (workspace, record) in numbers {
        if let Some(record) = record.resealed(keys) {
            let key = records::number_key(workspace, record.info.id);
            changes.push(Change::put(Table::Workspaces, key, codec::encode(&record)));
        }
    }
    for workspace in workspaces {
        let mut endpoints = endpoints(store, workspace)?;
        // All endpoints, not up to the first.
        if endpoints.iter_mut().filter_map(|endpoint| endpoint.reseal(keys)).count() > 0 {
            let key = endpoints_key(workspace);
            changes.push(Change::put(Table::Webhooks, key, codec::encode(&endpoints)));
        }
        changes.extend(email::resealed(store, workspace, keys)?);
        changes.extend(test_phones::resealed(store, workspace, keys)?);
        changes.extend(sms::resealed(store, workspace, keys)?);
    }
    Ok(changes)
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests {
    use postrider_store::MemoryStore;
    use postrider_store::{Group, Store};

    use super::*;

    fn start(store: &MemoryStore, keys: &[(u8, u8)]) -> Result<(), StartError> {
        let keys = keys.iter().map(|(version, byte)| (*version, [*byte; 32]));
        store.commit(Group::new(None, &check(store, &MasterKeys::new(keys).unwrap())?))?;
        Ok(())
    }

    #[test]
    fn a_start_needs_the_keys_of_the_one_before() {
        let store = MemoryStore::new();
        start(&store, &[(1, 7)]).unwrap();
        start(&store, &[(1, 7)]).unwrap();
        let wrong = |version| format!("{:?}", StartError::MasterKeyWrong { version });
        let missing = |version| format!("{:?}", StartError::MasterKeyMissing { version });
        for (keys, expected) in
            [(&[(1, 8)][..], wrong(1)), (&[(2, 7)], missing(1)), (&[(1, 8), (2, 9)], wrong(1))]
        {
            assert_eq!(format!("{:?}", start(&store, keys).unwrap_err()), expected, "{keys:?}");
        }
        start(&store, &[(1, 7), (2, 9)]).unwrap();
        // The secrets under the first key have been encrypted again.
        start(&store, &[(2, 9)]).unwrap();
        assert_eq!(format!("{:?}", start(&store, &[(1, 7)]).unwrap_err()), missing(2));
        assert_eq!(format!("{:?}", start(&store, &[(2, 7)]).unwrap_err()), wrong(2));
    }

    #[test]
    fn damage_is_reported() {
        let store = MemoryStore::new();
        store.commit(Group::new(None, &[Change::put(Table::Meta, KEY, [1; 20])])).unwrap();
        assert!(matches!(start(&store, &[(1, 7)]), Err(StartError::Store(_))));
    }
}
