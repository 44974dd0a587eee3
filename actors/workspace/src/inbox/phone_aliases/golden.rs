//! The keys of other names of phones.

use expect_test::expect;

use super::*;
use postrider_domain::golden::Sheet;

#[test]
fn keys_are_as_ever() {
    let workspace = "acme".parse().unwrap();
    let [phone, name] = ["+5511987654321", "+551187654321"].map(|it| it.parse().unwrap());
    let mut sheet = Sheet::default();
    sheet.text("name", &key(&workspace, name));
    sheet.text("names of a phone", &name_key(&workspace, phone, None));
    sheet.text("name of a phone", &name_key(&workspace, phone, Some(name)));
    sheet.text("deleted", &deleted_key(&workspace, &phone.into()));
    sheet.is(expect![[r#"
        name: acme\x00\x00\x00\x00\x80UX&\xb1
        names of a phone: acme\x00r\x00\x00\x05\x03\\\x10\xee\xb1
        name of a phone: acme\x00r\x00\x00\x05\x03\\\x10\xee\xb1\x00\x00\x00\x80UX&\xb1
        deleted: acme\x00d\xf2\x19\x9f\xa1\\\x1f7\xf9i\x13\xbb\xbc\xd8u[b
    "#]]);
}
