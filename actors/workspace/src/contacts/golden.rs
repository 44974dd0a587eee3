//! The records of contacts, and of the indexes that list and search them.

use expect_test::expect;
use postrider_domain::golden::{AT, Sheet, UNIQUE};
use postrider_domain::{ContactName, CustomFields, Email, Tags, WorkspaceId};
use serde_json::json;

use super::record::*;
use super::{index, occupancy};

const PLACE: u64 = 0x0102;

/// Returns a contact with a value in every field.
pub(crate) fn contact() -> Contact {
    let fields = json!({"plan": "gold", "age": 41, "sum": 100.0, "list": [1e2, "x", null]});
    Contact {
        id: contact_id(AT, PLACE, UNIQUE),
        name: ContactName::new("Ánn Őz").unwrap(),
        phone: Some("+15550123456".parse().unwrap()),
        user_id: None,
        former_ids: Vec::new(),
        username: None,
        renamed_at: None,
        email: Some(Email::new("Ann@Example.com").unwrap()),
        tags: Tags::new(["vip", "é"].iter()).unwrap(),
        custom_fields: CustomFields::new(&fields).unwrap(),
        created_at: AT,
        updated_at: AT,
    }
}

fn bare() -> Contact {
    let (tags, custom_fields) = (Tags::default(), CustomFields::default());
    Contact { phone: None, email: None, tags, custom_fields, ..contact() }
}

#[test]
fn a_contact_is_stored_as_ever() {
    let mut sheet = Sheet::default();
    sheet.json("contact", &contact());
    sheet.json("bare", &bare());
    let user_id = "US.13491208".parse().ok();
    sheet.json("by id", &Contact { user_id, username: Some("ann".into()), ..bare() });
    let former_ids = ["US.1", "US.2"].map(|id| id.parse().unwrap()).to_vec();
    sheet.json("with former ids", &Contact { former_ids, ..bare() });
    sheet.json("renamed", &bare().renamed(AT));
    sheet.is(expect![[r#"
        contact: {"id":"con_01hf7yat3v000000820r3gg28a","name":"Ánn Őz","phone":15550123456,"email":"Ann@Example.com","tags":["vip","é"],"custom_fields":"{\"age\":41,\"list\":[100.0,\"x\",null],\"plan\":\"gold\",\"sum\":100.0}","created_at":1700000000123,"updated_at":1700000000123}
        bare: {"id":"con_01hf7yat3v000000820r3gg28a","name":"Ánn Őz","phone":null,"email":null,"tags":[],"custom_fields":"{}","created_at":1700000000123,"updated_at":1700000000123}
        by id: {"id":"con_01hf7yat3v000000820r3gg28a","name":"Ánn Őz","phone":null,"user_id":"US.13491208","username":"ann","email":null,"tags":[],"custom_fields":"{}","created_at":1700000000123,"updated_at":1700000000123}
        with former ids: {"id":"con_01hf7yat3v000000820r3gg28a","name":"Ánn Őz","phone":null,"former_ids":["US.1","US.2"],"email":null,"tags":[],"custom_fields":"{}","created_at":1700000000123,"updated_at":1700000000123}
        renamed: {"id":"con_01hf7yat3v000000820r3gg28a","name":"Ánn Őz","phone":null,"renamed_at":1700000000123,"email":null,"tags":[],"custom_fields":"{}","created_at":1700000000123,"updated_at":1700000000123}
    "#]]);
    assert_eq!((contact().place(), place_of(contact().id)), (PLACE, PLACE));
}

#[test]
fn keys_are_as_ever() {
    let (workspace, mut sheet): (WorkspaceId, _) = ("acme".parse().unwrap(), Sheet::default());
    sheet.text("contact", &contact_key(&workspace, PLACE));
    sheet.text("phone", &phone_key(&workspace, "+15550123456".parse().unwrap()));
    sheet.text("user id", &user_key(&workspace, &"US.13491208".parse().unwrap()));
    sheet.text("next place", &next_key(&workspace));
    for kind in *b"ltf" {
        sheet.text("index", &key(&workspace, kind, 0x0304));
    }
    sheet.is(expect![[r#"
        contact: acme\x00c\x00\x00\x00\x00\x00\x00\x01\x02
        phone: acme\x00p\x00\x00\x00\x03\x9e\xdc\r\xc0
        user id: acme\x00uUS.13491208
        next place: acme\x00n
        index: acme\x00l\x00\x00\x00\x00\x00\x00\x03\x04
        index: acme\x00t\x00\x00\x00\x00\x00\x00\x03\x04
        index: acme\x00f\x00\x00\x00\x00\x00\x00\x03\x04
    "#]]);
    assert_eq!(number_of(&contact_key(&workspace, PLACE)), Ok(PLACE));
}

#[test]
fn the_index_is_written_and_read_as_ever() {
    let mut sheet = Sheet::default();
    let text = index::text_of(&contact());
    let all = index::with_text(None, 1, Some(&text)).unwrap();
    let all = index::with_text(Some(&all), 3, Some(&index::text_of(&bare()))).unwrap();
    sheet.text("texts", &all);
    let needle = memchr::memmem::Finder::new("example");
    assert_eq!(index::matching(&all, &needle), 1 << 1);
    let entry = index::entry_of(&contact());
    let all = index::with_entry(None, 1, Some(&entry)).unwrap();
    let all = index::with_entry(Some(&all), 3, Some(&index::entry_of(&bare()))).unwrap();
    sheet.bytes("facets", &all);
    let read: Vec<_> = index::Facet::all(&all).collect();
    assert!(read[0].slot == 1 && read[0].has_tag(&index::tag_hash("vip")));
    assert!(read[0].has_field(&index::field_hash("sum", &json!(100))));
    assert!(read[1].slot == 3 && !read[1].has_name(&index::name_hash("plan")));
    let bitmap = occupancy::with_place(occupancy::with_place(None, 9, true), 4095, true).unwrap();
    assert_eq!(bitmap.len(), 512);
    sheet.bytes("first of a bitmap", &bitmap[..8]);
    sheet.bytes("last of a bitmap", &bitmap[504..]);
    sheet.is(expect![[r#"
        texts: \xfe\xc3\xa1nn \xc5\x91z\xff+15550123456\xffann@example.com\xfe\xfe\xc3\xa1nn \xc5\x91z\xff\xff\xfe
        facets:
            0102040048bd23d98eddddb2b30cf16c000a94f791f06477a3549e07c5e5b6e96eba62e7e1436aea
            3a5f4fb0597d059a9eb74d373c312ac5fdb8c102488dcbe3b57b6d6e702fe9a36b6387733ec0cec2
            53107e7503000000
        first of a bitmap: 0002000000000000
        last of a bitmap: 0000000000000080
    "#]]);
    assert_eq!(occupancy::chunks(2, &bitmap).collect::<Vec<_>>(), [(191, 1 << 63), (128, 1 << 9)]);
}
