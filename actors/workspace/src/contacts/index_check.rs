//! For tests: the check that contacts and their index belong together.

#![allow(clippy::unwrap_used, reason = "only tests use it, and a panic fails the test")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use postrider_domain::WorkspaceId;
use postrider_store::{Direction, Table, View};

use crate::contacts::record::{Contact, contact_key, next_key, phone_key, prefix, user_key};
use crate::contacts::{index, occupancy, record};

/// Returns every record below a prefix.
fn all(store: &dyn View, table: Table, prefix: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    store
        .scan(table, prefix, None, Direction::Forward, &mut |key, value| {
            found.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

/// Returns the contacts of a workspace after checking their index.
///
/// The index must name all of these contacts, and nothing else.
pub fn whole(store: &dyn View, workspace: &WorkspaceId) -> Vec<Contact> {
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
        for id in contact.ids() {
            let key = user_key(workspace, id);
            assert!(of_places.insert(key, place.to_be_bytes().into()).is_none(), "an id twice");
        }
        let keys = [(b'l', chunk / 64), (b't', chunk), (b'f', chunk)];
        let [of_live, of_texts, of_facets] =
            keys.map(|(kind, number)| record::key(workspace, kind, number));
        let bitmap = occupancy::with_place(index.remove(&of_live), place, true);
        let (text, entry) = (index::text_of(contact), index::entry_of(contact));
        let texts = index::with_text(index.remove(&of_texts).as_deref(), slot, Some(&text));
        let facets = index::with_entry(index.remove(&of_facets).as_deref(), slot, Some(&entry));
        let changed = [(of_live, bitmap), (of_texts, texts), (of_facets, facets)];
        index.extend(changed.map(|(key, value)| (key, value.unwrap())));
    }
    let mut kept =
        all(store, Table::Contacts, &prefix(workspace, b'c')[..workspace.as_str().len() + 1]);
    if let Some(next) = kept.remove(&next_key(workspace)) {
        let next = u64::from_be_bytes(next.try_into().unwrap());
        assert!(contacts.iter().all(|contact| contact.place() < next));
    }
    // The ids of merged contacts are kept.
    kept.retain(|key, _| ![b'x', b'm'].contains(&key[workspace.as_str().len() + 1]));
    assert_eq!(kept, of_places);
    assert_eq!(all(store, Table::ContactIndex, workspace.as_str().as_bytes()), index);
    contacts
}
