//! The record of the secret that signs mails.

use expect_test::expect;

use super::*;
use postrider_domain::golden::{AT, Sheet};

/// The secret `hush` of the workspace `acme` as it was stored, under the key `[7; 32]`.
const STORED: &str =
    r#"{"key_version":1,"text":"I3EjGltb8ny1d1o+i9fDvwbXBQ5GukqxBi1l5En6utqqxogWB60uz7QcZDs"}"#;

#[test]
fn the_secret_is_stored_as_ever() {
    let workspace: WorkspaceId = "acme".parse().unwrap();
    let secret: Sealed = serde_json::from_str(STORED).unwrap();
    let opened = secret.open(&MasterKeys::single([7; 32]), &place(&workspace));
    assert_eq!(opened.as_deref(), Ok(&b"hush"[..]));
    let mut sheet = Sheet::default();
    sheet.text("key", &secret_key(&workspace));
    sheet.json("record", &SecretRecord { secret, created_at: AT });
    sheet.is(expect![[r#"
        key: acme\x00s
        record: {"secret":{"key_version":1,"text":"I3EjGltb8ny1d1o+i9fDvwbXBQ5GukqxBi1l5En6utqqxogWB60uz7QcZDs"},"created_at":1700000000123}
    "#]]);
}
