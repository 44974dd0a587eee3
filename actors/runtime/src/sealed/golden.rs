//! Tests that a secret that was encrypted once opens for ever.

use super::*;
use postrider_domain::golden::Sheet;

/// The stored form of `hush` in the place `here` under the key `[7; 32]`.
const STORED: &str =
    r#"{"key_version":1,"text":"5R3r6PwwDSKeNOGO/0itL9yCgN8/hZaMqaYActHgAqFRHhudaQ8YUVIwnWU"}"#;

#[test]
fn a_stored_secret_opens() {
    let keys = MasterKeys::single([7; 32]);
    let sealed: Sealed = serde_json::from_str(STORED).unwrap();
    assert_eq!(sealed.open(&keys, b"here").as_deref(), Ok(&b"hush"[..]));
    let mut sheet = Sheet::default();
    sheet.json("stored", &sealed);
    sheet.is(expect_test::expect![[r#"
        stored: {"key_version":1,"text":"5R3r6PwwDSKeNOGO/0itL9yCgN8/hZaMqaYActHgAqFRHhudaQ8YUVIwnWU"}
    "#]]);
    // A nonce of 24 bytes, the secret, a tag of 16 bytes, in Base64 without padding.
    let new = Sealed::seal(&keys, b"here", b"hush");
    assert_eq!((new.key_version, new.text.len()), (1, sealed.text.len()));
}
