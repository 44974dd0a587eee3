//! Golden bytes of a connected number's record.

use expect_test::expect;

use super::record::{NewNumber, NewProvider, NumberRecord};
use postrider_domain::NumberId;
use postrider_domain::golden::{AT, Sheet, UNIQUE};
use postrider_domain::keys::MasterKeys;

/// A stored number of the Cloud API; its secrets are encrypted under the key `[7; 32]`.
const STORED: &str = r#"{"id":"num_01hf7yat3v041061050r3gg28a","kind":"cloud_api","created_at":1700000000123,"messages_per_second":20,"account":{"phone":15550001111,"phone_number_id":"106540352242922","account_id":"102290129340398"},"pool":true,"secrets":{"key_version":1,"text":"5vFXDPI9F6BA+QMz50U7NFJTL5oxA/WBWydIJMz/X6saF5ykKtSXEt0mZHce9qwxuybssIXlOQCqgsoezrztUyfor6jXyAxzdg2MELbVn96BeERtDNkhwj+6Lbo92Tub1I3guA"}}"#;

#[test]
fn a_number_is_stored_as_ever() {
    let keys = MasterKeys::single([7; 32]);
    let id = NumberId::from_parts(AT, UNIQUE);
    let mut sheet = Sheet::default();
    let new = |provider, messages_per_second| {
        NumberRecord::new(
            id,
            AT,
            NewNumber { messages_per_second, ..NewNumber::of(provider) },
            &keys,
        )
    };
    sheet.json("sandbox", &new(NewProvider::Sandbox, None));
    sheet.json("custom", &new(NewProvider::Custom, Some(80)));
    let beside = NewNumber { pool: false, ..NewNumber::of(NewProvider::Sandbox) };
    sheet.json("beside the pool", &NumberRecord::new(id, AT, beside, &keys));
    let stored: NumberRecord = serde_json::from_str(STORED).unwrap();
    sheet.json("cloud_api", &stored);
    sheet.is(expect![[r#"
        sandbox: {"id":"num_01hf7yat3v041061050r3gg28a","kind":"sandbox","created_at":1700000000123,"pool":true}
        custom: {"id":"num_01hf7yat3v041061050r3gg28a","kind":"custom","created_at":1700000000123,"messages_per_second":80,"pool":true}
        beside the pool: {"id":"num_01hf7yat3v041061050r3gg28a","kind":"sandbox","created_at":1700000000123,"pool":false}
        cloud_api: {"id":"num_01hf7yat3v041061050r3gg28a","kind":"cloud_api","created_at":1700000000123,"messages_per_second":20,"account":{"phone":15550001111,"phone_number_id":"106540352242922","account_id":"102290129340398"},"pool":true,"secrets":{"key_version":1,"text":"5vFXDPI9F6BA+QMz50U7NFJTL5oxA/WBWydIJMz/X6saF5ykKtSXEt0mZHce9qwxuybssIXlOQCqgsoezrztUyfor6jXyAxzdg2MELbVn96BeERtDNkhwj+6Lbo92Tub1I3guA"}}
    "#]]);
    let secrets = stored.secrets(&keys).unwrap();
    let texts = [secrets.token, secrets.app_secret, secrets.verify_token];
    assert_eq!(texts.map(|text| text.reveal().to_owned()), ["token", "app", "verify"]);
    // The id of its conversation windows.
    expect!["num_3y531b6kh9cb0d1828v9ct13za"].assert_eq(&stored.info.line().to_string());
    assert_eq!(new(NewProvider::Sandbox, None).info.line(), id);
}
