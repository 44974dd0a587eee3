//! Refusals of `import` and `restore`: each is one line with a code and the remedy.

use std::path::Path;

use super::copies::{Place, done, refused, text};
use super::disk::{Disk, skip};
use super::process::Process;

/// Returns the CRC-32C of an archive's parts.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut rest = u32::MAX;
    for byte in bytes {
        rest ^= u32::from(*byte);
        for _ in 0..8 {
            rest = (rest >> 1) ^ (0x82f6_3b78 & (rest & 1).wrapping_neg());
        }
    }
    (!rest).to_be_bytes()
}

/// Checks that nothing but the lock is in the directory.
fn is_free(target: &Path) {
    let names = std::fs::read_dir(target).into_iter().flatten();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name == "server.lock"), "{names:?}");
}

/// Returns the data of a stopped server, an archive and a backup of it.
fn copies(place: &Place) -> (String, String) {
    let data = place.at("data");
    let process = Process::start(&data);
    process.terminate();
    assert!(process.ended().status.success());
    let (archive, backup) = (place.at("all.archive"), place.at("backup"));
    done(&["export", "--to", text(&archive), "--data-dir", text(&data)]);
    done(&["backup", "--to", text(&backup), "--data-dir", text(&data)]);
    (text(&archive).to_owned(), text(&backup).to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_copy_is_reported_by_its_name() {
    let place = Place::new();
    let (archive, backup) = copies(&place);
    let target = place.at("target");
    let import = |from: &str, code: &str, says: &str| {
        let refusal = refused(&["import", "--from", from, "--data-dir", text(&target)], code);
        assert!(refusal.contains(from) && refusal.contains(says), "{refusal}");
        is_free(&target);
    };
    let restore = |from: &str, code: &str, says: &str| {
        let refusal = refused(&["restore", "--from", from, "--data-dir", text(&target)], code);
        assert!(refusal.contains(from) && refusal.contains(says), "{refusal}");
        is_free(&target);
    };
    let other = |name: &str, bytes: &[u8]| {
        let path = place.at(name);
        std::fs::write(&path, bytes).unwrap();
        text(&path).to_owned()
    };
    import(text(&place.at("missing")), "IO", "No such file");
    import(&backup, "IO", "`postrider restore`");
    import(&other("photo.png", b"\x89PNG\r\n\x1a\n and more"), "DAMAGED", "no archive begins");
    import(&other("empty", b""), "DAMAGED", "it ends before its end");
    restore(text(&place.at("missing")), "IO", "manifest.json");
    restore(&archive, "IO", "`postrider import`");
    restore(text(&place.at("data")), "IO", "manifest.json");
    // The target is a file.
    let file = other("file", b"x");
    refused(&["import", "--from", &archive, "--data-dir", &file], "IO");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_and_newer_copies_are_refused() {
    let place = Place::new();
    let (archive, backup) = copies(&place);
    let target = place.at("target");
    let import = ["import", "--from", &archive, "--data-dir", text(&target)];
    let restore = ["restore", "--from", &backup, "--data-dir", text(&target)];
    let whole = std::fs::read(&archive).unwrap();
    for cut in [3, 11, 60, whole.len() / 2, whole.len() - 60, whole.len() - 1] {
        std::fs::write(&archive, &whole[..cut]).unwrap();
        let refusal = refused(&import, "DAMAGED");
        assert!(refusal.contains("it ends before its end"), "{cut}: {refusal}");
        is_free(&target);
    }
    // Written by a version that knows a format 2, with the checksum of that.
    let fields = u32::from_be_bytes([whole[8], whole[9], whole[10], whole[11]]) as usize;
    let mut newer = whole.clone();
    newer[4] = 2;
    let check = checksum(&newer[..12 + fields]);
    newer[12 + fields..16 + fields].copy_from_slice(&check);
    std::fs::write(&archive, newer).unwrap();
    let refusal = refused(&import, "NEWER_FORMAT");
    assert!(refusal.contains(&archive) && refusal.contains("newer version"), "{refusal}");
    is_free(&target);
    std::fs::write(&archive, &whole).unwrap();

    let manifest = Path::new(&backup).join("manifest.json");
    let list = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, list.replace("\"format\": 1", "\"format\": 2")).unwrap();
    let refusal = refused(&restore, "NEWER_FORMAT");
    assert!(refusal.contains("has format 2; this version knows up to 1"), "{refusal}");
    std::fs::write(&manifest, &list[..list.len() / 2]).unwrap();
    refused(&restore, "DAMAGED");
    std::fs::write(&manifest, &list).unwrap();
    let part = std::fs::read_dir(&backup).unwrap().map(|it| it.unwrap().path());
    let part = part.filter(|it| it.extension().is_some_and(|it| it == "archive")).max().unwrap();
    let whole = std::fs::read(&part).unwrap();
    std::fs::write(&part, &whole[..whole.len() - 9]).unwrap();
    assert!(refused(&restore, "DAMAGED").contains(text(&part)));
    std::fs::remove_file(&part).unwrap();
    assert!(refused(&restore, "IO").contains(text(&part)));
    is_free(&target);
    std::fs::write(&part, &whole).unwrap();
    done(&restore);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_without_room_and_another_key_are_reported_before_anything_is_made() {
    let place = Place::new();
    let (archive, backup) = copies(&place);
    let target = place.at("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("master.key"), format!("{}\n", "5a".repeat(32))).unwrap();
    for (command, from) in [("import", &archive), ("restore", &backup)] {
        let refusal =
            refused(&[command, "--from", from, "--data-dir", text(&target)], "KEY_MISMATCH");
        assert!(refusal.contains("master key"), "{refusal}");
    }
    let disk = match Disk::tmpfs(1) {
        Ok(disk) => disk,
        Err(why) => return skip("a_disk_without_room", &why),
    };
    let target = disk.root().join("target");
    for (command, from) in [("import", &archive), ("restore", &backup)] {
        let refusal = refused(&[command, "--from", from, "--data-dir", text(&target)], "NO_SPACE");
        assert!(
            refusal.contains("bytes are needed") && refusal.contains(text(&target)),
            "{refusal}"
        );
        is_free(&target);
    }
}
