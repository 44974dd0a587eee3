//! The keys of conversation windows.

use expect_test::expect;

use super::*;
use postrider_domain::golden::{AT, Sheet, UNIQUE};

#[test]
fn keys_are_as_ever() {
    let line = NumberId::from_parts(AT, UNIQUE);
    let contact = "+15550123456".parse().unwrap();
    let mut sheet = Sheet::default();
    sheet.text("window", &key(&"acme".parse().unwrap(), line, contact));
    sheet.is(expect![[r#"
        window: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x00\x00\x00\x03\x9e\xdc\r\xc0
    "#]]);
}
