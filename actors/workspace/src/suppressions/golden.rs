//! The records of opt-outs.

use expect_test::expect;

use super::channel_choice::{choice_key, decode, encode};
use super::record::party_of;
use super::*;
use postrider_domain::golden::{AT, Sheet};
use postrider_store::view::codec;

#[test]
fn an_opt_out_is_stored_as_ever() {
    let workspace = "acme".parse().unwrap();
    let party = PartyId::Phone("+15550123456".parse().unwrap());
    let user = PartyId::User("US.13491208".parse().unwrap());
    let mut sheet = Sheet::default();
    sheet.text("phone", &key(&workspace, &party));
    sheet.text("decision", &decision_key(&workspace, &party));
    sheet.text("user", &key(&workspace, &user));
    sheet.text("decision of a user", &decision_key(&workspace, &user));
    sheet.text("count", &count_key(&workspace));
    let source = OptOutSource::Word;
    let record = Record { reason: Some(BY_MESSAGE.into()), created_at: AT, source, phone: None };
    sheet.json("record", &record);
    let source = OptOutSource::Channel;
    let silent = Record { reason: None, created_at: AT, source, phone: None };
    sheet.json("without a reason", &silent);
    let short = PartyId::Phone("+551187654321".parse().unwrap());
    sheet.text("short form", &key(&workspace, &short));
    let (reason, source) = (None, OptOutSource::Api);
    let of_short = Suppression { party: short, reason, source, created_at: AT };
    sheet.json("of the short form", &Record::of(&of_short));
    sheet.text("choice key", &choice_key(&workspace, &party));
    for choice in [Choice::Resumed, Choice::Refused, Choice::Stopped] {
        sheet.bytes("choice", &encode(AT, choice));
        assert_eq!(decode(&encode(AT, choice)), Ok((AT, choice)));
    }
    sheet.is(expect![[r#"
        phone: acme\x00+15550123456
        decision: acme\x00w\x00\x00\x00\x03\x9e\xdc\r\xc0
        user: acme\x00@US.13491208
        decision of a user: acme\x00wuUS.13491208
        count: acme\x00n
        record: {"reason":"opted out by message","created_at":1700000000123,"source":"word"}
        without a reason: {"reason":null,"created_at":1700000000123,"source":"channel"}
        short form: acme\x00+5511987654321
        of the short form: {"reason":null,"created_at":1700000000123,"source":"api","phone":551187654321}
        choice key: acme\x00c\x00\x00\x00\x03\x9e\xdc\r\xc0
        choice: 0000018bcfe5687b00
        choice: 0000018bcfe5687b01
        choice: 0000018bcfe5687b02
    "#]]);
    let (key, value) = (key(&workspace, &party), codec::encode(&record));
    let read = suppression(&key[phones_prefix(&workspace).len() - 1..], &value).unwrap();
    let source = OptOutSource::Word;
    assert_eq!(read, Suppression { party, reason: record.reason, source, created_at: AT });
    assert_eq!(party_of(b"@US.13491208"), Ok(user));
    assert!(decode(&[0; 8]).is_err() && decode(&[3; 9]).is_err());
    assert_eq!(number(&0x0102_u64.to_be_bytes()), Ok(0x0102));
}
