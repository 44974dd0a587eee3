//! Segments that are missing, doubled, renamed or foreign are damage; unfinished ones are not.

use super::segment::SegmentHeader;
use super::*;
use crate::check_witness;
use crate::file::inspect::{Inspection, StoppedLog};

/// Returns a disk with a log of several segments, and their names.
fn several() -> (SimDisk, Vec<String>) {
    let disk = SimDisk::new();
    let log = open_sim(&disk).unwrap();
    claimed(&log);
    for _ in 0..30 {
        append(&log, &[1; 1_000]);
    }
    let names: Vec<_> = log.shown.read().segments.iter().map(LogSegment::name).collect();
    assert!(names.len() > 3, "{names:?}");
    (disk, names)
}

fn copy(disk: &SimDisk, from: &str, to: &str) {
    let from = disk.open(from).unwrap();
    let mut bytes = vec![0; from.length().unwrap() as usize];
    from.read_at(0, &mut bytes).unwrap();
    disk.create(to).unwrap().write_at(0, &bytes).unwrap();
}

fn assert_damaged(disk: &SimDisk, named: &str) {
    let error = open_sim(disk).unwrap_err();
    assert!(matches!(&error, LogError::Damaged { file, .. } if file == named), "{error}: {named}");
}

#[test]
fn a_missing_segment_is_found_unless_it_is_the_first_or_last() {
    let (disk, names) = several();
    for index in 1..names.len() - 1 {
        let disk = disk.fork();
        disk.remove(&names[index]).unwrap();
        assert_damaged(&disk, &names[index + 1]);
    }
    // Without the first one the log looks trimmed, and a reader from the start gets an error.
    let first = disk.fork();
    first.remove(&names[0]).unwrap();
    let error = try_entries(&open_sim(&first).unwrap(), Position(1)).unwrap_err();
    assert!(matches!(error, LogError::Trimmed { .. }), "{error}");
    // Without the last one the log looks shorter, and a view that applied it reports the loss.
    let applied = mark(&open_sim(&disk).unwrap());
    let last = disk.fork();
    last.remove(names.last().unwrap()).unwrap();
    let error = check_witness(&open_sim(&last).unwrap(), &applied).unwrap_err();
    assert!(matches!(error, LogError::Lost { .. }), "{error}");
}

#[test]
fn after_a_clean_stop_a_missing_last_segment_is_found() {
    let (disk, names) = several();
    open_sim(&disk).unwrap().close().unwrap();
    let applied = open_sim(&disk).unwrap().tail().unwrap().last;
    disk.remove(names.last().unwrap()).unwrap();
    let error = open_sim(&disk).unwrap_err();
    assert!(matches!(error, LogError::Lost { applied: it, .. } if it == applied), "{error}");
    names[..names.len() - 1].iter().for_each(|name| disk.remove(name).unwrap());
    let error = open_sim(&disk).unwrap_err();
    assert_eq!(error, LogError::Lost { last: Position::START, applied });
}

#[test]
fn a_doubled_renamed_or_foreign_segment_is_found() {
    let (disk, names) = several();
    let (one, other) = (&names[1], segment::segment_name(Position(1_000)));
    let doubled = disk.fork();
    copy(&doubled, one, &other);
    assert_damaged(&doubled, &other);
    let renamed = disk.fork();
    renamed.rename(one, &other).unwrap();
    assert_damaged(&renamed, &names[2]);
    let odd = disk.fork();
    copy(&odd, one, "12.log");
    assert_damaged(&odd, "12.log");
    let foreign = disk.fork();
    let elsewhere = SimDisk::new();
    let start = Start { id: LogId([8; 16]), ..start() };
    let log = FileLog::open_on(Arc::new(elsewhere), small(false), start);
    let header = SegmentHeader { log: log.unwrap().id(), ..header_of(&disk, one) };
    foreign.damage(one, |bytes| bytes[..4096].copy_from_slice(&header.encode()));
    assert_damaged(&foreign, one);
}

fn header_of(disk: &SimDisk, name: &str) -> SegmentHeader {
    let mut bytes = vec![0; 4096];
    disk.open(name).unwrap().read_at(0, &mut bytes).unwrap();
    SegmentHeader::decode(&bytes).unwrap()
}

#[test]
fn a_segment_of_another_history_is_found_when_it_is_read() {
    let (disk, names) = several();
    let elsewhere = SimDisk::new();
    let log = open_sim(&elsewhere).unwrap();
    claimed(&log);
    for _ in 0..30 {
        append(&log, &[2; 1_000]);
    }
    for name in &names[1..] {
        let disk = disk.fork();
        let file = elsewhere.open(name).unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        disk.damage(name, |content| bytes.clone_into(content));
        let error = try_entries(&open_sim(&disk).unwrap(), Position(1)).unwrap_err();
        assert!(matches!(&error, LogError::Damaged { file, .. } if file == name), "{error}");
    }
}

fn inspected(disk: &SimDisk) -> Inspection {
    StoppedLog::open_on(disk.clone()).inspect(&mut |_, _, _| ()).unwrap()
}

/// The position in a segment's name.
fn first_of(name: &str) -> Position {
    Position(name.trim_end_matches(".log").parse().unwrap())
}

#[test]
fn segments_that_are_missing_or_do_not_follow_are_reported() {
    let (disk, names) = several();
    assert_eq!(inspected(&disk).gaps, []);
    let at_place = |found: &Inspection, file: &str, says: &str| {
        let LogError::Damaged { file: reported, what, .. } = &found.gaps[0].error else {
            panic!("{found:?}")
        };
        assert!(reported == file && what.contains(says), "{reported}: {what}");
    };
    for index in 1..names.len() - 1 {
        let missing = disk.fork();
        missing.remove(&names[index]).unwrap();
        let found = inspected(&missing);
        at_place(&found, &names[index + 1], "the segment before it is missing");
        let removed = (first_of(&names[index]), first_of(&names[index + 1]).previous());
        assert_eq!((found.gaps.len(), found.gaps[0].positions), (1, Some(removed)));
    }
    // The header of one was created for another entry before it.
    for name in &names[1..] {
        let other = disk.fork();
        let prev = crate::EntryHash([1; 16]);
        let header = SegmentHeader { prev, ..header_of(&disk, name) };
        other.damage(name, |bytes| bytes[..4096].copy_from_slice(&header.encode()));
        at_place(&inspected(&other), name, "another entry than the last one before it");
    }
    open_sim(&disk).unwrap().close().unwrap();
    let last = inspected(&disk).last;
    disk.remove(names.last().unwrap()).unwrap();
    let found = inspected(&disk);
    let lost = (first_of(names.last().unwrap()), last);
    assert!(matches!(found.gaps[0].error, LogError::Lost { applied, .. } if applied == last));
    assert_eq!((found.gaps.len(), found.gaps[0].positions), (1, Some(lost)));
}

#[test]
fn the_log_of_another_shard_is_refused() {
    let (disk, names) = several();
    let start = Start { shard: 1, ..start() };
    let error = FileLog::open_on(Arc::new(disk), small(false), start).unwrap_err();
    let newest = names.last().unwrap();
    assert!(matches!(&error, LogError::Damaged { file, .. } if file == newest), "{error}");
}

#[test]
fn unfinished_files_are_removed() {
    let (disk, _) = several();
    let all = entries(&open_sim(&disk).unwrap());
    for name in ["next.tmp", "copy.tmp", "closed.tmp"] {
        disk.create(name).unwrap().write_at(0, b"half").unwrap();
    }
    let log = open_sim(&disk).unwrap();
    assert_eq!(entries(&log), all);
    assert!(!disk.list().unwrap().iter().any(|name| name.ends_with(".tmp")));
    claimed(&log);
    append(&log, b"more");
}

#[test]
fn a_mark_of_a_clean_stop_that_is_not_whole_says_nothing() {
    let (disk, _) = several();
    open_sim(&disk).unwrap().close().unwrap();
    let all = entries(&open_sim(&disk).unwrap());
    disk.damage("closed", |bytes| bytes.truncate(30));
    assert_eq!(entries(&open_sim(&disk).unwrap()), all);
}

#[test]
fn a_clean_stop_makes_the_copy_unnecessary() {
    let (disk, _) = several();
    open_sim(&disk).unwrap().close().unwrap();
    let before = disk.operations();
    let log = open_sim(&disk).unwrap();
    assert_eq!(disk.operations(), before);
    drop(log);
    claimed(&open_sim(&disk).unwrap());
    assert!(!disk.list().unwrap().contains(&"closed".to_owned()));
}
