//! The keys of the counts of conversations.

use expect_test::expect;

use super::*;
use postrider_domain::golden::Sheet;

#[test]
fn keys_are_as_ever() {
    let (workspace, mut sheet): (WorkspaceId, _) = ("acme".parse().unwrap(), Sheet::default());
    for key in keys(&workspace, ConversationStatus::Pending.as_byte(), b"bo") {
        sheet.text("count", &key);
    }
    sheet.text("nobody's", &nobodys_key(&workspace, ConversationStatus::Pending.as_byte()));
    sheet.text("unread", &unread_key(&workspace));
    sheet.is(expect![[r#"
        count: acme\x00n\x01
        count: acme\x00n\x01bo
        nobody's: acme\x00u\x01
        unread: acme\x00r
    "#]]);
    assert_eq!(number(Some(0x0102_u64.to_be_bytes().to_vec())), Ok(0x0102));
}
