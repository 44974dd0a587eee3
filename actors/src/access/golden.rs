//! Golden bytes of the records of API keys and of token buckets.

use std::time::Duration;

use expect_test::expect;
use postrider_domain::golden::{AT, Sheet, UNIQUE};
use postrider_domain::{ActorKind, AdminTokenId, AuditActor, KeyId, Scope, Scopes};
use postrider_store::{Group, MemoryStore, Store as _};
use postrider_workspace::creation_limit::Creations;

use super::admin_tokens::{AdminTokens, TokenRecord};
use super::buckets::{AddressBuckets, SavedBuckets, key_bucket_name, put_bucket};
use super::keys::{KeyHash, KeyRecord};
use super::saved_use::put_last_use;
use super::*;

#[test]
fn a_key_is_stored_as_ever() {
    let limits = LimitsOverride {
        key_requests_per_hour: Some(7),
        otp_per_phone_hour: Some(0),
        ..Default::default()
    };
    let record = KeyRecord {
        id: KeyId::from_parts(AT, UNIQUE),
        workspace: "acme".parse().unwrap(),
        name: "Kassé".into(),
        scopes: [Scope::ContactsRead, Scope::AnalyticsRead].into_iter().collect(),
        limits,
        hash: KeyHash::of("pr_golden"),
        prefix: "pr_golde".into(),
        created_at: AT,
        created_by: AuditActor::of_kind(ActorKind::AdminToken),
        expires_at: None,
        allowed_subnets: Vec::new(),
    };
    let mut sheet = Sheet::default();
    let put = record.put();
    sheet.text("key", &put.key);
    sheet.text("value", put.value.as_deref().unwrap());
    sheet.json("record", &record);
    sheet.is(expect![[r#"
        key: \x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        value: {\"id\":\"key_01hf7yat3v041061050r3gg28a\",\"workspace\":\"acme\",\"name\":\"Kass\xc3\xa9\",\"scopes\":20,\"limits\":{\"key_requests_per_hour\":7,\"otp_per_phone_hour\":0},\"hash\":[123,63,3,196,100,29,80,165,115,249,7,250,220,70,182,245,185,112,75,199,90,160,2,225,163,81,204,47,48,202,60,36],\"prefix\":\"pr_golde\",\"created_at\":1700000000123,\"created_by\":{\"kind\":\"admin_token\",\"id\":null,\"name\":null}}
        record: {"id":"key_01hf7yat3v041061050r3gg28a","workspace":"acme","name":"Kassé","scopes":20,"limits":{"key_requests_per_hour":7,"otp_per_phone_hour":0},"hash":[123,63,3,196,100,29,80,165,115,249,7,250,220,70,182,245,185,112,75,199,90,160,2,225,163,81,204,47,48,202,60,36],"prefix":"pr_golde","created_at":1700000000123,"created_by":{"kind":"admin_token","id":null,"name":null}}
    "#]]);
    let store = MemoryStore::new();
    store.commit(Group::new(None, &[put])).unwrap();
    assert_eq!(keys::load_all(&store).unwrap(), [record]);
}

#[test]
fn the_end_subnets_and_last_use_of_a_key_are_stored_as_ever() {
    let record = KeyRecord {
        id: KeyId::from_parts(AT, UNIQUE),
        workspace: "acme".parse().unwrap(),
        name: "office".into(),
        scopes: Scopes::all(),
        limits: LimitsOverride::default(),
        hash: KeyHash::of("pr_golden"),
        prefix: "pr_golde".into(),
        created_at: AT,
        created_by: AuditActor::of_kind(ActorKind::AdminToken),
        expires_at: Some(AT.plus(Duration::from_secs(60))),
        allowed_subnets: vec!["10.1.0.0/16".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
    };
    let mut sheet = Sheet::default();
    let (put, used) = (record.put(), put_last_use(record.id, AT));
    let text = String::from_utf8(put.value.clone().unwrap()).unwrap();
    let (_, tail) = text.split_once("\"created_at\"").unwrap();
    sheet.text("the record's end", tail.as_bytes());
    sheet.text("last use, key", &used.key);
    sheet.text("last use, value", used.value.as_deref().unwrap());
    sheet.is(expect![[r#"
        the record's end: :1700000000123,\"created_by\":{\"kind\":\"admin_token\",\"id\":null,\"name\":null},\"expires_at\":1700000060123,\"allowed_subnets\":[\"10.1.0.0/16\",\"2001:db8::/32\"]}
        last use, key: u\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        last use, value: \x01\x00\x00\x01\x8b\xcf\xe5h{
    "#]]);
    let store = MemoryStore::new();
    store.commit(Group::new(None, &[put, used])).unwrap();
    assert_eq!(load_last_uses(&store).unwrap().get(&record.id), Some(&AT));
    assert_eq!(keys::load_all(&store).unwrap(), [record]);
    let mut buckets = 0;
    SavedBuckets::load(&store).unwrap().each(|_, _| buckets += 1);
    assert_eq!(buckets, 0, "a last use is no bucket");
}

#[test]
fn an_admin_token_is_stored_as_ever() {
    let record = TokenRecord {
        id: AdminTokenId::from_parts(AT, UNIQUE),
        name: "Kassé".into(),
        hash: KeyHash::of("pra_golden"),
        prefix: "pra_golde".into(),
        created_at: AT,
        expires_at: Some(AT),
    };
    let mut sheet = Sheet::default();
    let put = record.put();
    sheet.text("key", &put.key);
    sheet.text("value", put.value.as_deref().unwrap());
    sheet.is(expect![[r#"
        key: admin_token/\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        value: {\"id\":\"tok_01hf7yat3v041061050r3gg28a\",\"name\":\"Kass\xc3\xa9\",\"hash\":[102,29,6,121,217,149,33,92,5,138,15,105,112,155,160,94,95,46,139,185,200,14,78,63,104,108,189,59,125,254,67,87],\"prefix\":\"pra_golde\",\"created_at\":1700000000123,\"expires_at\":1700000000123}
    "#]]);
    let store = MemoryStore::new();
    store.commit(Group::new(None, &[put])).unwrap();
    let tokens = AdminTokens::load(&store).unwrap();
    let early = AT.minus(Duration::from_millis(1));
    assert_eq!(tokens.authenticate("pra_golden", early).map(|it| it.id), Some(record.id));
    assert_eq!(tokens.authenticate("pra_golden", AT), None, "it has expired");
}

#[test]
fn buckets_are_stored_as_ever() {
    let clock = Clock::manual(AT);
    let mut sheet = Sheet::default();
    sheet.text("of a key", &key_bucket_name(KeyId::from_parts(AT, UNIQUE), 3600));
    let (addresses, creations) = (AddressBuckets::new(60), Creations::default());
    for address in ["192.0.2.7", "2001:db8:1:2:3:4:5:6"] {
        assert!(addresses.admit(address.parse().unwrap(), &clock).refused.is_none());
    }
    creations.take(&"acme".parse().unwrap(), 500, &clock).unwrap();
    let mut all = Vec::new();
    addresses.collect(&mut all, clock.now());
    creations.collect(&mut all, clock.now());
    all.sort_unstable();
    let store = MemoryStore::new();
    for (name, full_at_ns) in &all {
        let change = put_bucket(name, *full_at_ns);
        sheet.text(&name.escape_ascii().to_string(), change.value.as_deref().unwrap());
        store.commit(Group::new(None, &[change])).unwrap();
    }
    sheet.is(expect![[r#"
        of a key: k\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x00\x00\x0e\x10
        a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x07: \x17\x97\x9c\xfey\x19\x9e\xc0
        a \x01\r\xb8\x00\x01\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00: \x17\x97\x9c\xfey\x19\x9e\xc0
        wacme: \x17\x97\x9c\xfeD\xa5\xe2\xc0
    "#]]);
    let mut read = Vec::new();
    SavedBuckets::load(&store)
        .unwrap()
        .each(|name, full_at_ns| read.push((name.to_vec(), full_at_ns)));
    read.sort_unstable();
    assert_eq!(read, all);
    assert_eq!(clock.now().since(AT), Duration::ZERO);
}
