//! The record of a segment.

use expect_test::expect;

use super::*;
use postrider_domain::golden::{AT, Sheet, UNIQUE};

#[test]
fn a_segment_is_stored_as_ever() {
    let id = SegmentId::from_parts(AT, UNIQUE);
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let filter = ContactFilter {
        search: Some("ann".into()),
        tags_any: list(&["a", "b"]),
        tags_all: list(&["c"]),
        tags_none: list(&["d"]),
        fields: vec![("plan".into(), r#""gold""#.into())],
        fields_exist: list(&["age"]),
    };
    let mut sheet = Sheet::default();
    sheet.text("key", &key(&"acme".parse().unwrap(), id));
    sheet.json("segment", &Segment { id, name: "VIPs".into(), filter, created_at: AT });
    sheet.is(expect![[r#"
        key: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        segment: {"id":"seg_01hf7yat3v041061050r3gg28a","name":"VIPs","filter":{"search":"ann","tags_any":["a","b"],"tags_all":["c"],"tags_none":["d"],"fields":[["plan","\"gold\""]],"fields_exist":["age"]},"created_at":1700000000123}
    "#]]);
}
