//! Tests that a flipped bit is found, or is provably behind the end of the log.

use proptest::prelude::*;

use super::*;
use crate::file::inspect::{Inspection, StoppedLog};
use crate::port::{Mark, check_witness};

/// A log of a few segments, the mark of a view of it, and its entries.
struct Whole {
    disk: SimDisk,
    applied: Mark,
    entries: Vec<Entry>,
    /// The segments' names, and the end of the entries of each.
    segments: Vec<(String, u64)>,
}

impl Whole {
    fn new(close: bool) -> Self {
        let disk = SimDisk::new();
        let log = open_sim(&disk).unwrap();
        claimed(&log);
        for index in 0..20_u8 {
            append(&log, &vec![index; 100 + usize::from(index) * 70]);
        }
        append(&log, &[7; 2_500]);
        append(&log, b"the last one");
        if close {
            log.close().unwrap();
        }
        let shown = log.shown.read();
        let segments = shown.segments.iter().map(|it| (it.name(), it.end)).collect();
        Self { disk, applied: mark(&log), entries: entries(&log), segments }
    }

    fn open(&self, name: &str, change: impl Fn(&mut Vec<u8>)) -> Result<FileLog, LogError> {
        let disk = self.disk.fork();
        disk.damage(name, change);
        open_sim(&disk)
    }

    /// Opens and reads the log with a bit flipped.
    fn flip(&self, name: &str, at: usize, bit: u8) -> Result<FileLog, LogError> {
        let log = self.open(name, |bytes| bytes[at] ^= 1 << bit)?;
        check_witness(&log, &self.applied)?;
        let read = try_entries(&log, Position(1))?;
        assert_eq!(read, self.entries, "{name} {at} {bit}");
        Ok(log)
    }
}

#[test]
fn every_byte_of_the_last_two_entries_is_checked() {
    for close in [false, true] {
        let whole = Whole::new(close);
        let (name, end) = whole.segments.last().unwrap();
        let [.., before, last] = whole.entries.as_slice() else { panic!("two entries") };
        let last_at = *end as usize - last.bytes.len();
        let before_at = last_at - before.bytes.len();
        for at in before_at..last_at {
            let error = whole.flip(name, at, (at % 8) as u8).unwrap_err();
            let LogError::Damaged { file, .. } = &error else { panic!("{at}: {error}") };
            assert_eq!(file, name);
        }
        // The last entry may be a torn one by itself. A view that applied it reports the loss.
        let lost = LogError::Lost { last: before.header.position, applied: last.header.position };
        for at in last_at..*end as usize {
            assert_eq!(whole.flip(name, at, (at % 8) as u8).unwrap_err(), lost, "{at}");
        }
    }
}

#[test]
fn after_a_clean_stop_the_last_entry_is_known() {
    let whole = Whole::new(true);
    let (name, end) = whole.segments.last().unwrap();
    let (at, last) = (*end as usize - 20, whole.applied.position);
    let error = whole.open(name, |bytes| bytes[at] ^= 1).unwrap_err();
    assert_eq!(error, LogError::Lost { last: last.previous(), applied: last });
}

#[test]
fn a_log_that_ends_too_early_is_left_as_it_is() {
    let whole = Whole::new(false);
    let (name, end) = whole.segments.last().unwrap();
    let disk = whole.disk.fork();
    disk.damage(name, |bytes| bytes[*end as usize - 20] ^= 1);
    let options = FileOptions { acknowledged: whole.applied.position, ..small(false) };
    let before = disk.operations();
    let error = FileLog::open_on(Arc::new(disk.clone()), options, start()).unwrap_err();
    assert!(matches!(error, LogError::Lost { .. }), "{error}");
    assert_eq!(disk.operations(), before);
    disk.damage(name, |bytes| bytes[*end as usize - 20] ^= 1);
    assert_eq!(entries(&open_sim(&disk).unwrap()), whole.entries);
}

#[test]
fn damage_names_file_and_offset() {
    let whole = Whole::new(false);
    let (name, _) = whole.segments.last().unwrap();
    let first = whole.segments.len();
    assert!(first > 2, "{first} segments");
    let at = segment::SEGMENT_HEADER_BYTES + 50;
    let error = whole.open(name, |bytes| bytes[at] ^= 1).unwrap_err();
    let LogError::Damaged { position, file, offset, .. } = error else { panic!("{error}") };
    let begins = whole.entries.iter().map(|entry| entry.header.position);
    let newest = begins.clone().find(|at| segment::segment_name(*at) == *name).unwrap();
    assert_eq!((position, &file, offset), (Some(newest), name, 4096));
}

#[test]
fn a_newer_version_is_refused_and_not_cut_off() {
    for (field, value) in [(4, 2), (5, 9)] {
        let whole = Whole::new(false);
        let (name, end) = whole.segments.last().unwrap();
        let at = *end as usize - whole.entries.last().unwrap().bytes.len();
        let error = whole.open(name, |bytes| {
            bytes[at + field] = value;
            let checksum = crc32c::crc32c(&bytes[at..at + 76]);
            bytes[at + 76..at + 80].copy_from_slice(&checksum.to_be_bytes());
        });
        let Err(LogError::Newer { offset, .. }) = error else { panic!("{error:?}") };
        assert_eq!(offset, at as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn a_flipped_bit_anywhere_is_found_or_behind_the_end(
        segment in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
        near_the_entries in any::<bool>(),
        close in any::<bool>(),
    ) {
        let whole = Whole::new(close);
        let (name, end) = segment.get(&whole.segments);
        let length = whole.disk.open(name).unwrap().length().unwrap() as usize;
        let at = at.index(if near_the_entries { *end as usize + 40 } else { length });
        let found = whole.flip(name, at.min(length - 1), bit);
        // `flip` has compared all entries where it succeeds.
        prop_assert_eq!(found.is_err(), (at as u64) < *end, "{} {}: {:?}", name, at, found);
    }
}

/// Returns the result of an inspection.
fn inspect(disk: &SimDisk) -> (Inspection, Vec<Entry>) {
    let mut read = Vec::new();
    let found = StoppedLog::open_on(disk.clone()).inspect(&mut |entry, _, _| {
        read.push(entry.clone());
    });
    (found.unwrap(), read)
}

#[test]
fn a_whole_log_is_read_whole_and_left_as_it_is() {
    for close in [false, true] {
        let whole = Whole::new(close);
        let before = whole.disk.operations();
        let (found, read) = inspect(&whole.disk);
        assert_eq!((found.gaps.as_slice(), found.torn_bytes), ([].as_slice(), 0));
        assert_eq!(read, whole.entries);
        assert_eq!((found.last, found.hash), (whole.applied.position, whole.applied.hash));
        assert_eq!((found.first, found.segments), (Position(1), whole.segments.len()));
        assert_eq!(whole.disk.operations(), before);
    }
}

#[test]
fn every_byte_of_every_segment_is_looked_at_by_who_inspects() {
    let whole = Whole::new(false);
    let newest = whole.segments.last().unwrap();
    for (name, end) in &whole.segments {
        let length = whole.disk.open(name).unwrap().length().unwrap() as usize;
        for at in (0..length).step_by(7) {
            let disk = whole.disk.fork();
            disk.damage(name, |bytes| bytes[at] ^= 1 << (at % 8));
            let (found, read) = inspect(&disk);
            let is_reported = found.gaps.iter().any(|gap| match &gap.error {
                LogError::Damaged { file, offset, .. } => file == name && *offset <= at as u64,
                _ => false,
            });
            let is_torn = name == &newest.0 && found.torn_bytes > 0;
            assert!(is_reported || is_torn, "{name} {at}: {found:?}");
            // At most one commit, of at most three parts, is not read after a flip in the entries.
            if at >= SEGMENT_HEADER_BYTES {
                assert!(whole.entries.len() - read.len() <= 3, "{name} {at}: {}", read.len());
                let is_behind = at as u64 >= *end;
                assert_eq!(found.last == whole.applied.position, is_behind || is_reported, "{at}");
            }
        }
    }
}
