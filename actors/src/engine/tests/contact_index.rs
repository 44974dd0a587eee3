//! The index of contacts in data of another version.

use crate::{NewContact, StartError};
use postrider_domain::{ContactName, CustomFields, Tags};
use postrider_store::View;
use postrider_store::{Change, Keep, Table};
use postrider_workspace::whole_contacts;

use super::*;

const FORMAT: &[u8] = b"contact_index_format";

fn contact(number: u32) -> NewContact {
    let fields = serde_json::json!({ "plan": number % 3, "filler": "x".repeat(900) });
    NewContact {
        name: ContactName::new(&format!("Contact {number}")).unwrap(),
        phone: Some(phone(number)),
        email: None,
        tags: Tags::new([format!("tag-{}-{}", number % 7, "y".repeat(40)).as_str()].into_iter())
            .unwrap(),
        custom_fields: CustomFields::new(&fields).unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_an_earlier_version_is_made_anew_and_one_of_a_newer_is_refused() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    workspace(&engine, "empty", 10).await;
    // Some chunks, two bitmaps, and more than fits in a commit.
    let mut made = Vec::new();
    for first in (0..4300).step_by(500) {
        let new = (first..4300.min(first + 500)).map(contact).collect();
        made.extend(acme.create_contacts(new, None).await.unwrap().answer);
    }
    for contact in made.iter().skip(100).take(130).step_by(2) {
        acme.delete_contact(contact.as_ref().unwrap().id).await.unwrap();
    }
    let contacts = whole_contacts(&store, &id("acme"));
    assert_eq!(contacts.len(), 4300 - 65);
    let key = |kind: u8, number: u64| [&b"acme\0"[..], &[kind], &number.to_be_bytes()].concat();
    let damage = vec![
        Change::delete(Table::Meta, FORMAT),
        Change::delete(Table::ContactIndex, key(b't', 3)),
        Change::put(Table::ContactIndex, key(b'f', 5), [1, 2, 3]),
        Change::put(Table::ContactIndex, key(b'x', 0), [1]),
        Change::delete(Table::ContactIndex, key(b'l', 1)),
        Change::put(Table::ContactIndex, key(b'l', 9), [1; 512]),
    ];
    engine.shared().writer.commit(damage).await.unwrap();
    drop((engine, acme));

    let store = store.crash(Keep::Nothing);
    let engine = self::engine(&store, START).await;
    assert_eq!(whole_contacts(&store, &id("acme")), contacts);
    let acme = engine.workspace(&id("acme")).unwrap();
    assert_eq!(acme.contacts(Default::default(), 0, 1).await.unwrap().total, contacts.len());
    // Once.
    let lost = vec![Change::delete(Table::ContactIndex, key(b't', 3))];
    engine.shared().writer.commit(lost).await.unwrap();
    drop((engine, acme));
    let store = store.crash(Keep::Nothing);
    let engine = self::engine(&store, START).await;
    assert_eq!(store.get(Table::ContactIndex, &key(b't', 3)).unwrap(), None);

    let newer = vec![Change::put(Table::Meta, FORMAT, 99_u64.to_be_bytes())];
    engine.shared().writer.commit(newer).await.unwrap();
    drop(engine);
    let store = store.crash(Keep::Nothing);
    let refused = Engine::start(options(store, START)).await.err().unwrap();
    assert!(matches!(refused, StartError::NewerData { found: 99, .. }), "{refused}");
}
