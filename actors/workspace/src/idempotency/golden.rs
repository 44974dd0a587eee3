//! The records of the answers under an idempotency key.

use expect_test::expect;

use super::*;
use postrider_domain::golden::{AT, Sheet};

#[test]
fn answers_are_stored_as_ever() {
    let workspace = "acme".parse().unwrap();
    let mut sheet = Sheet::default();
    use Route::{CreateBroadcast, CreateContact, CreateContacts, Reply, SendMessage, SendOtp};
    for route in [SendOtp, SendMessage, CreateBroadcast, CreateContact, CreateContacts, Reply] {
        let key = IdempotencyKey::new(route, "key", b"body").record_key(&workspace);
        sheet.text(&format!("{route:?}"), &key);
    }
    let key = IdempotencyKey::new(SendOtp, "key", b"body");
    sheet.text("part", &key.part(1).record_key(&workspace));
    let by_time = [&AT.as_millis().to_be_bytes(), &*key.name()].concat();
    sheet.text("by time", &record_key(&workspace, b't', &by_time));
    let record = AnswerRecord { fingerprint: key.fingerprint, at: AT, answer: b"answer".to_vec() };
    sheet.postcard("record", &record);
    sheet.bytes("fingerprint about a thing", &key.about(b"id").fingerprint);
    sheet.is(expect![[r#"
        SendOtp: acme\x00k\x00,p\xe1+z\x06F\xf9\"y\xf4\'\xc7\xb3\x8es4\xd8\xe58\x9c\xff\x16z\x1d\xc3\x0es\xf8&\xb6\x83
        SendMessage: acme\x00k\x01,p\xe1+z\x06F\xf9\"y\xf4\'\xc7\xb3\x8es4\xd8\xe58\x9c\xff\x16z\x1d\xc3\x0es\xf8&\xb6\x83
        CreateBroadcast: acme\x00k\x02,p\xe1+z\x06F\xf9\"y\xf4\'\xc7\xb3\x8es4\xd8\xe58\x9c\xff\x16z\x1d\xc3\x0es\xf8&\xb6\x83
        CreateContact: acme\x00k\x03,p\xe1+z\x06F\xf9\"y\xf4\'\xc7\xb3\x8es4\xd8\xe58\x9c\xff\x16z\x1d\xc3\x0es\xf8&\xb6\x83
        CreateContacts: acme\x00k\x04,p\xe1+z\x06F\xf9\"y\xf4\'\xc7\xb3\x8es4\xd8\xe58\x9c\xff\x16z\x1d\xc3\x0es\xf8&\xb6\x83
        Reply: acme\x00k\x05,p\xe1+z\x06F\xf9\"y\xf4\'\xc7\xb3\x8es4\xd8\xe58\x9c\xff\x16z\x1d\xc3\x0es\xf8&\xb6\x83
        part: acme\x00k\x00K\xc3\x81\x9fh\xaek\x8f6\x13ld*\xd6 \xc3\x1c\xaf\xbc\x1e2\x18m,s\x11\xa5\xce\xb0\x8c\x91c
        by time: acme\x00t\x00\x00\x01\x8b\xcf\xe5h{\x00,p\xe1+z\x06F\xf9\"y\xf4\'\xc7\xb3\x8es4\xd8\xe58\x9c\xff\x16z\x1d\xc3\x0es\xf8&\xb6\x83
        record:
            230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5fbd095ffbc310661
            6e73776572
        fingerprint about a thing: 45eac9270213d1450b2bc9a238ffcf71833f425e4f8bdd56dec59f5fa05c2d52
    "#]]);
    assert_eq!(decoded::<AnswerRecord>(&encoded(&record)).unwrap().answer, b"answer");
}
