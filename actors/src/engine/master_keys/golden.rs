//! Golden bytes of the table of facts about the engine.

use expect_test::expect;
use postrider_domain::golden::Sheet;
use postrider_store::MemoryStore;

use super::*;

#[test]
fn the_fingerprints_of_master_keys_are_stored_as_ever() {
    let keys = MasterKeys::new([(1, [7; 32]), (4, [9; 32])]).unwrap();
    let changes = check(&MemoryStore::new(), &keys).unwrap();
    let [change] = &changes[..] else { panic!("{changes:?}") };
    let mut sheet = Sheet::default();
    sheet.text("key", &change.key);
    let value = change.value.as_deref().unwrap();
    sheet.bytes("value", value);
    sheet.text("the clock's offset", crate::engine::stored_clock::CLOCK_OFFSET_KEY);
    sheet.is(expect![[r#"
        key: master_keys
        value: 01053acce28e0fa932cbf289951b4fd70b048349ff3a28d97cdecee476bfdb79f80e
        the clock's offset: clock_offset
    "#]]);
    assert_eq!(encode_fingerprints(&decode_fingerprints(value).unwrap()), value);
}
