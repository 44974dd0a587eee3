//! Tests that a commit that was not written whole is cut off, wherever it was torn.

use super::*;

/// A log whose last commit has these parts: the file's bytes before it, and with it.
struct Torn {
    disk: SimDisk,
    name: String,
    before: Vec<u8>,
    /// The range of the last commit in the file.
    commit: std::ops::Range<usize>,
    after: Vec<u8>,
    entries: Vec<Entry>,
}

fn image(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

impl Torn {
    fn new(last: &[u8]) -> Self {
        let disk = SimDisk::new();
        let log = open_sim(&disk).unwrap();
        claimed(&log);
        append(&log, b"PRLG, acknowledged");
        append(&log, &[0; 300]);
        let entries = entries(&log);
        let name = segment::segment_name(Position(1));
        let before = image(&disk, &name);
        append(&log, last);
        let after = image(&disk, &name);
        let changed = |at: &usize| before[*at] != after[*at];
        let begin = (0..before.len()).find(changed).unwrap();
        let end = (0..before.len()).rfind(changed).unwrap() + 1;
        Self { disk, name, before, commit: begin..end, after, entries }
    }

    /// Opens the log with this content of the segment, as after a crash.
    fn open(&self, content: &[u8]) -> FileLog {
        let disk = self.disk.fork();
        disk.damage(&self.name, |bytes| content.clone_into(bytes));
        open_sim(&disk).unwrap()
    }

    /// Checks that the last commit is cut off, and that the log continues.
    fn assert_cut(&self, content: &[u8], what: &str) {
        let disk = self.disk.fork();
        disk.damage(&self.name, |bytes| content.clone_into(bytes));
        let log = open_sim(&disk).unwrap();
        assert_eq!(entries(&log), self.entries, "{what}");
        claimed(&log);
        append(&log, b"behind");
        drop(log);
        let disk = disk.crash(crate::Keep::Nothing);
        assert_eq!(bodies(&open_sim(&disk).unwrap()).last().unwrap(), "behind", "{what}");
    }
}

/// A body of two parts.
const LARGE: [u8; 2_300] = [0x7f; 2_300];

#[test]
fn a_tail_may_be_torn_at_every_byte() {
    for last in [&b"the last one"[..], &[0; 600], &LARGE] {
        let torn = Torn::new(last);
        for at in torn.commit.clone() {
            torn.assert_cut(&torn.after[..at], "the file is cut");
            if at > torn.commit.start {
                let zeroed = [&torn.after[..at], &torn.before[at..]].concat();
                torn.assert_cut(&zeroed, "zeros follow");
            }
        }
        let whole = torn.open(&torn.after[..torn.commit.end]);
        assert_eq!(bodies(&whole).last().unwrap(), last);
    }
}

#[test]
fn sectors_may_reach_the_disk_in_any_order() {
    for last in [&[1; 1_800][..], &LARGE, b"one sector"] {
        let torn = Torn::new(last);
        let first = torn.commit.start / 512;
        let count = torn.commit.end.div_ceil(512) - first;
        assert!(count <= 7, "{count} sectors");
        for mask in 0_u32..(1 << count) - 1 {
            let mut content = torn.before.clone();
            for sector in (0..count).filter(|sector| mask & (1 << sector) != 0) {
                let at = (first + sector) * 512;
                content[at..at + 512].copy_from_slice(&torn.after[at..at + 512]);
            }
            if content == torn.after {
                // A sector that is all zeros is not missing if it was not written.
                assert_eq!(bodies(&torn.open(&content)).last().unwrap(), last);
            } else {
                torn.assert_cut(&content, &format!("sectors {mask:b}"));
            }
        }
    }
}

#[test]
fn what_is_torn_is_counted() {
    let torn = Torn::new(b"the last one");
    let content = &torn.after[..torn.commit.end - 3];
    let disk = torn.disk.fork();
    disk.damage(&torn.name, |bytes| content.clone_into(bytes));
    let file = disk.open(&torn.name).unwrap();
    let end = scan::find_end(&torn.name, &*file, start().chain(), None).unwrap();
    assert_eq!(end.torn_bytes, torn.commit.len() as u64 - 3);
    assert_eq!(end.offset, torn.commit.start as u64);
}
