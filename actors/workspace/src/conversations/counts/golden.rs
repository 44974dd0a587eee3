//! The keys of the counts of conversations.

use expect_test::expect;

use super::*;
use postrider_domain::golden::Sheet;

#[test]
fn keys_are_as_ever() {
    let (workspace, mut sheet): (WorkspaceId, _) = ("acme".parse().unwrap(), Sheet::default());
    sheet.text("kept", &kept_key(&workspace));
    for key in keys(&workspace, ConversationStatus::Pending.as_byte(), b"bo") {
        sheet.text("count", &key);
    }
    sheet.text("nobody's", &nobodys_key(&workspace, ConversationStatus::Pending.as_byte()));
    sheet.text("unread", &unread_key(&workspace));
    sheet.text("uncounted", &uncounted::key(&workspace));
    let [from, to] = [3, 7].map(|byte| postrider_domain::ConversationId::from_bytes([byte; 16]));
    let of = Uncounted::decode(&[&[2][..], &[3; 16], &[7; 16]].concat()).unwrap();
    assert!(!of.has(from) && of.has(to));
    sheet.text("uncounted", &of.encode());
    sheet.is(expect![[r#"
        kept: acme\x00n
        count: acme\x00n\x01
        count: acme\x00n\x01bo
        nobody's: acme\x00u\x01
        unread: acme\x00r
        uncounted: acme\x00p
        uncounted: \x02\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07
    "#]]);
    for damaged in [&[][..], &[2], &[2; 32], &[2; 34], &[1; 33]] {
        assert!(Uncounted::decode(damaged).is_err());
    }
    assert_eq!(VERSION, 2);
    assert_eq!(number(Some(0x0102_u64.to_be_bytes().to_vec())), Ok(0x0102));
}
