//! Golden bytes of a snapshot's generation.

use std::fs;

use expect_test::expect;

use super::*;
use postrider_domain::golden::Sheet;

const POSITION: Position = Position(0x0a0b);

fn entries() -> Vec<(WorkspaceId, Vec<u8>)> {
    let entry = |id: &str, state: Vec<u8>| (id.parse().unwrap(), state);
    vec![entry("acme", b"state".to_vec()), entry("b-2", vec![7; 32 * 1024 + 1])]
}

#[test]
fn the_database_holds_what_it_always_did() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(generation::DATABASE);
    generation::write_database(&path, POSITION, entries().into_iter()).unwrap();
    let mut sheet = Sheet::default();
    let database = generation::open_database(&path).unwrap();
    for row in database.iter() {
        let (key, value) = row.unwrap();
        let shown = if value.len() > 64 { &value[value.len() - 1..] } else { &value[..] };
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        sheet.text(&format!("{name} of {}", value.len()), shown);
    }
    drop(database);
    generation::wait_until_closed(&path).unwrap();
    sheet.is(expect![[r#"
        0000000000000000 of 12: \x00\x00\x00\x00\x00\x00\x00\x05acme
        0000000000000001 of 5: state
        0000000100000000 of 11: \x00\x00\x00\x00\x00\x00\x80\x01b-2
        0000000100000001 of 32768: \x07
        0000000100000002 of 1: \x07
        ffffffffffffffffff of 20: \x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x80\x1d,\x86\xed\xd6
    "#]]);
    let mut read = Vec::new();
    generation::read_database(&path, POSITION, &mut |id, state| read.push((id, state))).unwrap();
    assert_eq!(read, entries());
}

#[test]
fn a_generation_and_its_manifest_look_as_they_always_did() {
    let dir = tempfile::tempdir().unwrap();
    let generation = dir.path().join("gen");
    fs::create_dir_all(generation.join("sled/blobs")).unwrap();
    fs::write(generation.join("sled/db"), b"database").unwrap();
    fs::write(generation.join("sled/blobs/with space"), b"").unwrap();
    generation::seal(&generation).unwrap();
    let manifest = fs::read_to_string(generation.join("manifest")).unwrap();
    expect![[r#"
        00000000 0 sled/blobs/with space
        c953062e 8 sled/db
        ce15c996
    "#]]
    .assert_eq(&manifest);
    generation::check_files(&generation).unwrap();

    let snapshots = SnapshotDir::open(dir.path().join("snapshots")).unwrap();
    snapshots.write(POSITION, entries().into_iter()).unwrap();
    let names = fs::read_dir(dir.path().join("snapshots")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["gen-0000000000000a0b"]);
}
