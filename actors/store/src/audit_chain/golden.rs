//! Golden bytes of the audit log's records and marks.

use expect_test::expect;
use postrider_domain::golden::Sheet;
use postrider_domain::{AuditContext, AuditEntry, AuditId};

use super::*;

#[test]
fn a_record_and_a_mark_are_written_and_read_as_ever() {
    let at = Timestamp::from_millis(0x0102_0304_0506);
    let entry = AuditEntry::new("key.create").target("key_1").change("name", "backend");
    let record = entry.record(AuditId::from_parts(at, 7), &AuditContext::system());
    let head = AuditMark { sequence: 41, hash: [0xab; HASH_BYTES], at };
    let mut changes = [record_change(at, &record)];
    let newest = link_staged(&mut changes, &head).unwrap();
    let value = changes[0].value.clone().unwrap();
    let row = decode(newest.sequence, &value).unwrap();
    assert_eq!(row, AuditRow { mark: newest, previous: head.hash, record });
    assert_eq!(AuditMark::decode(&newest.encode()), Some(newest));
    let mut sheet = Sheet::default();
    sheet.bytes("key", &changes[0].key);
    sheet.bytes("header", &value[..HEADER_BYTES]);
    sheet.text("json", &value[HEADER_BYTES..]);
    sheet.bytes("mark", &newest.encode());
    sheet.is(expect![[r#"
        key: 000000000000002a
        header:
            01abababababababababababababababababababababababababababababababab00000102030405
            06
        json: {\"id\":\"aud_01081g81860000000000000007\",\"actor\":{\"kind\":\"system\",\"id\":null,\"name\":null},\"action\":\"key.create\",\"target\":\"key_1\",\"workspace\":null,\"address\":null,\"request_id\":null,\"changes\":{\"name\":\"backend\"}}
        mark:
            01000000000000002a17671229447d963b2e8f31d5882cb5be269de20b812e1e24f695da50934e90
            0c0000010203040506
    "#]]);
}
