//! The records of opt-outs.

use expect_test::expect;

use super::*;
use postrider_domain::golden::{AT, Sheet};

#[test]
fn an_opt_out_is_stored_as_ever() {
    let (workspace, phone) = ("acme".parse().unwrap(), "+15550123456".parse().unwrap());
    let mut sheet = Sheet::default();
    sheet.text("phone", &key(&workspace, phone));
    sheet.text("decision", &decision_key(&workspace, phone));
    sheet.text("count", &count_key(&workspace));
    let record = Record { reason: Some(BY_MESSAGE.into()), created_at: AT };
    sheet.json("record", &record);
    sheet.json("without a reason", &Record { reason: None, created_at: AT });
    sheet.is(expect![[r#"
        phone: acme\x00+15550123456
        decision: acme\x00w\x00\x00\x00\x03\x9e\xdc\r\xc0
        count: acme\x00n
        record: {"reason":"opted out by message","created_at":1700000000123}
        without a reason: {"reason":null,"created_at":1700000000123}
    "#]]);
    let (key, value) = (key(&workspace, phone), codec::encode(&record));
    let read = suppression(&key[phones_prefix(&workspace).len() - 1..], &value).unwrap();
    assert_eq!(read, Suppression { phone, reason: record.reason, created_at: AT });
    assert_eq!(number(&0x0102_u64.to_be_bytes()), Ok(0x0102));
}
