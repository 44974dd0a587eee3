//! The record of an advertisement's counts on one day.

use expect_test::expect;

use super::*;
use postrider_domain::golden::{AT, Sheet};

#[test]
fn an_advertisement_is_stored_as_ever() {
    let stored = StoredAdDay {
        source_type: "ad".into(),
        source_id: "120".into(),
        headline: Some("Spring".into()),
        conversations: 2,
        messages: 300,
    };
    let (workspace, day) = ("acme".parse().unwrap(), Day::of(AT).number().to_be_bytes());
    let phone = 15_550_123_456_u64.to_be_bytes();
    let mut sheet = Sheet::default();
    sheet.text("counts", &key(&workspace, b'a', &[&day, &[7; SOURCE_BYTES]]));
    sheet.text("counted", &key(&workspace, b's', &[&day, &[7; SOURCE_BYTES], &phone]));
    sheet.postcard("stored", &stored);
    sheet.is(expect![[r#"
        counts: acme\x00a\x00\x00L\xdb\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07
        counted: acme\x00s\x00\x00L\xdb\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x00\x00\x00\x03\x9e\xdc\r\xc0
        stored: 026164033132300106537072696e6702ac02
    "#]]);
    assert_eq!(decode(&postcard::to_stdvec(&stored).unwrap()).unwrap().messages, 300);
}
