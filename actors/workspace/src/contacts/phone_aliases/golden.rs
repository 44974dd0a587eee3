//! The keys of other names of phones.

use expect_test::expect;

use super::*;
use postrider_domain::golden::Sheet;

#[test]
fn keys_are_as_ever() {
    let workspace = "acme".parse().unwrap();
    let [phone, name] = ["+2290197123456", "+22997123456"].map(|it| it.parse().unwrap());
    let mut sheet = Sheet::default();
    sheet.text("name", &key(&workspace, name));
    sheet.text("names of a phone", &name_key(&workspace, phone, None));
    sheet.text("name of a phone", &name_key(&workspace, phone, Some(name)));
    sheet.text("deleted", &deleted_key(&workspace, &phone.into()));
    sheet.is(expect![[r#"
        name: acme\x00\x00\x00\x00\x05Z\xbcA\x80
        names of a phone: acme\x00r\x00\x00\x02\x15:b\xd1\x80
        name of a phone: acme\x00r\x00\x00\x02\x15:b\xd1\x80\x00\x00\x00\x05Z\xbcA\x80
        deleted: acme\x00d\xd2:\xc3\xa7\xa0\xa6\xf8\xd1\x9b\x0c\xb8\x89\xc9^J\xb3
    "#]]);
}
