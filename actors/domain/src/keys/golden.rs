//! Pure: golden bytes of derived keys and codes.
//!
//! Every later version must verify the codes that are pending.

use expect_test::expect;

use super::*;
use crate::golden::{AT, Sheet, UNIQUE};

#[test]
fn codes_and_keys_are_derived_as_ever() {
    let keys = MasterKeys::new([(1, [7; 32]), (4, [9; 32])]).unwrap();
    let codes = keys.code_keys(&"acme".parse().unwrap());
    assert_eq!(codes.current_version(), 4);
    let mut sheet = Sheet::default();
    let request = RequestId::from_parts(AT, UNIQUE);
    for (version, digits) in [(1, 4), (1, 6), (1, 8), (4, 6)] {
        let length = CodeLength::from_digits(digits).unwrap();
        let phone = "+15550123456".parse().unwrap();
        let code = codes.code(version, request, phone, length).unwrap().reveal();
        sheet.text(&format!("code of {digits}, version {version}"), code.as_bytes());
    }
    let (version, key) = keys.current_for(b"a purpose");
    sheet.bytes(&format!("key for a purpose, version {version}"), &key);
    sheet.is(expect![[r#"
        code of 4, version 1: 0393
        code of 6, version 1: 580393
        code of 8, version 1: 63580393
        code of 6, version 4: 835438
        key for a purpose, version 4: fabcaf2b2d860f35b471ac5ea304b41081c0776c75ff6aadb7c7d7e294a2622d
    "#]]);
}
