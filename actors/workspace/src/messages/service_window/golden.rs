//! The keys of conversation windows.

use expect_test::expect;

use super::*;
use postrider_domain::golden::{AT, Sheet, UNIQUE};

#[test]
fn keys_are_as_ever() {
    let line = NumberId::from_parts(AT, UNIQUE);
    let phone = PartyId::Phone("+15550123456".parse().unwrap());
    let user = PartyId::User("US.13491208".parse().unwrap());
    let mut sheet = Sheet::default();
    sheet.text("window", &window_key(&"acme".parse().unwrap(), line, &phone));
    sheet.text("by id", &window_key(&"acme".parse().unwrap(), line, &user));
    let (by_phone, by_id) = (own_key(line, &phone), own_key(line, &user));
    assert_eq!(by_phone.len(), PHONE_KEY_BYTES);
    for names in [vec![], vec![&by_phone], vec![&by_id], vec![&by_phone, &by_phone, &by_id]] {
        let together: Vec<u8> = names.iter().flat_map(|name| name.iter().copied()).collect();
        assert_eq!(split(&together), names);
    }
    sheet.is(expect![[r#"
        window: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x00\x00\x00\x03\x9e\xdc\r\xc0
        by id: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\nuUS.13491208
    "#]]);
}
