//! For tests: whether contacts and what they are found by belong together.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::domain::WorkspaceId;
use crate::store::{Direction, Store, Table};

use super::record::{self, Contact, contact_key, next_key, phone_key, prefix};
use super::{facets, live, texts};

/// Every record below a prefix.
fn all(store: &dyn Store, table: Table, prefix: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    store
        .scan(table, prefix, None, Direction::Forward, &mut |key, value| {
            found.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

/// The contacts of a workspace, once it is seen that what they are found by tells of them, of all of
/// them, and of nothing else.
pub(crate) fn whole(store: &dyn Store, workspace: &WorkspaceId) -> Vec<Contact> {
    let stored = all(store, Table::Contacts, &prefix(workspace, b'c'));
    let contacts: Vec<Contact> =
        stored.values().map(|json| serde_json::from_slice(json).unwrap()).collect();
    let (mut of_places, mut index) = (BTreeMap::new(), BTreeMap::new());
    for contact in &contacts {
        let place = contact.place();
        let (chunk, slot) = (place / 64, (place % 64) as u8);
        of_places.insert(contact_key(workspace, place), serde_json::to_vec(contact).unwrap());
        if let Some(phone) = contact.phone {
            let key = phone_key(workspace, phone);
            assert!(of_places.insert(key, place.to_be_bytes().into()).is_none(), "a phone twice");
        }
        let mut update =
            |kind: u8, number: u64, with: &dyn Fn(Option<&[u8]>) -> Option<Vec<u8>>| {
                let key = record::key(workspace, kind, number);
                let new = with(index.get(&key).map(Vec::as_slice)).unwrap();
                index.insert(key, new);
            };
        update(b'l', chunk / 64, &|old| live::with(old.map(<[u8]>::to_vec), place, true));
        update(b't', chunk, &|old| texts::with(old, slot, Some(&texts::text_of(contact))));
        update(b'f', chunk, &|old| facets::with(old, slot, Some(&facets::entry_of(contact))));
    }
    let mut kept =
        all(store, Table::Contacts, &prefix(workspace, b'c')[..workspace.as_str().len() + 1]);
    if let Some(next) = kept.remove(&next_key(workspace)) {
        let next = u64::from_be_bytes(next.try_into().unwrap());
        assert!(contacts.iter().all(|contact| contact.place() < next));
    }
    assert_eq!(kept, of_places);
    assert_eq!(all(store, Table::ContactIndex, workspace.as_str().as_bytes()), index);
    contacts
}
