//! The keys by which inbound messages are remembered.

use expect_test::expect;

use super::*;
use postrider_domain::golden::{AT, Sheet, UNIQUE};

#[test]
fn keys_are_as_ever() {
    let inbound = Inbound {
        provider_id: "wamid.HBgL".into(),
        from: "+15550123456".parse().ok(),
        user_id: None,
        username: None,
        name: None,
        kind: "text".into(),
        text: "Hi".into(),
        line: "".into(),
        at: AT,
        referral: None,
        media: None,
        content: None,
        about: None,
        forwarded: false,
    };
    let line = NumberId::from_parts(AT, UNIQUE);
    let id = inbound.message_id(line);
    let mut sheet = Sheet::default();
    sheet.text("id", id.to_string().as_bytes());
    sheet.text("received", &received_key(&"acme".parse().unwrap(), Some(id)));
    let phone = PartyId::from(inbound.from.unwrap());
    sheet.text("value", &window_names(line, std::slice::from_ref(&phone)));
    let user = PartyId::User("US.13491208".parse().unwrap());
    sheet.text("by two names", &window_names(line, &[phone, user]));
    sheet.is(expect![[r#"
        id: msg_01hf7yat3v5g2156jc8xxfkj20
        received: acme\x00\x01\x8b\xcf\xe5h{,\x04\x12\x9aLGz\xf9\xc8@
        value: \x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x00\x00\x00\x03\x9e\xdc\r\xc0
        by two names: \x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x00\x00\x00\x03\x9e\xdc\r\xc0\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\nuUS.13491208
    "#]]);
}
