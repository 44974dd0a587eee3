//! Tests of retained entries: they are read as written, after any crash, and the oldest are
//! removed.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use postrider_actors::store::postrider_log::{EntryHash, LogId, Next, Position, encode_commit};
use postrider_cluster::repair::NodeEntries as _;

use super::*;

fn entry(position: u64, epoch: u64, kind: Kind) -> Entry {
    let (log, prev) = (LogId([7; 16]), EntryHash::NONE);
    let next = Next { log, shard: 3, position: Position(position), epoch, prev };
    let body = [u8::try_from(position % 256).unwrap(); 9];
    let bytes = encode_commit(&next, kind, 5, &body, 1_000).unwrap();
    Entry::decode(bytes[0].clone()).unwrap()
}

fn positions(data: &Path) -> Vec<u64> {
    let kept = KeptFiles::open(&directory(data, 3)).unwrap();
    (0..200).filter(|at| !kept.at(Position(*at)).is_empty()).collect()
}

fn keep(data: &Path, entries: impl IntoIterator<Item = Entry>) {
    let kept = KeptEntries::begin(data).unwrap();
    entries.into_iter().for_each(|entry| kept.keep(3, entry));
    kept.end();
}

fn groups(positions: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = Entry> {
    positions.map(|at| entry(at, 1, Kind::Group))
}

#[test]
fn entries_are_kept_once_over_restarts_and_in_a_later_epoch_again() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path();
    assert!(positions(data).is_empty(), "nothing was kept");
    keep(data, groups(1..=4));
    keep(data, groups(2..=6));
    assert_eq!(positions(data), [1, 2, 3, 4, 5, 6]);
    keep(data, [entry(5, 2, Kind::Claim)]);
    let kept = KeptFiles::open(&directory(data, 3)).unwrap();
    assert_eq!(kept.at(Position(5)).len(), 2, "that of each epoch");
    assert_eq!(kept.at(Position(4)), [entry(4, 1, Kind::Group).bytes]);
    assert_eq!(kept.last(), Position(6));
    let (path, dir) = (data.join("sent"), directory(data, 3));
    write_all(&path, |from| Ok(some_from(&dir, from)?.into())).unwrap();
    let sent = KeptFiles::open(&path).unwrap();
    (0..=7).for_each(|at| assert_eq!(sent.at(Position(at)), kept.at(Position(at)), "{at}"));
    let forgets = KeptEntries::begin(data).unwrap();
    forgets.forget(3);
    forgets.end();
    assert!(positions(data).is_empty());
}

#[test]
fn what_is_cut_short_goes_and_the_rest_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path();
    keep(data, groups(1..=3));
    let dir = directory(data, 3);
    let newest = dir.join(read::names(&dir).unwrap().pop().unwrap());
    let part = &entry(4, 1, Kind::Group).bytes[..50];
    OpenOptions::new().append(true).open(&newest).unwrap().write_all(part).unwrap();
    keep(data, groups(1..=5));
    assert_eq!(positions(data), [1, 2, 3, 4, 5]);
    // A file of another version is not touched.
    fs::write(dir.join(format!("{:020}.{:020}", 9, 9)), "postrider entries 2\nwhat?").unwrap();
    keep(data, [entry(6, 9, Kind::Group)]);
    assert_eq!(positions(data), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn what_is_before_the_second_last_checkpoint_goes() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path();
    let note = |at| if at % 10 == 0 { Kind::Checkpoint } else { Kind::Group };
    keep(data, (1..=45).map(|at| entry(at, 1, note(at))));
    assert_eq!(positions(data), (20..=45).collect::<Vec<_>>());
}

/// Makes a group with a body of this many bytes.
fn large(position: u64, body_bytes: usize) -> Entry {
    let (log, prev) = (LogId([7; 16]), EntryHash::NONE);
    let next = Next { log, shard: 3, position: Position(position), epoch: 1, prev };
    let bytes = encode_commit(&next, Kind::Group, 5, &vec![1; body_bytes], 1 << 20).unwrap();
    Entry::decode(bytes[0].clone()).unwrap()
}

#[test]
fn a_page_begins_where_the_last_one_ended_and_nothing_before_it_is_read() {
    let place = tempfile::tempdir().unwrap();
    let (data, dir) = (place.path(), directory(place.path(), 3));
    keep(data, (1..=12).map(|at| large(at, 300_000)));
    keep(data, [entry(13, 1, Kind::Checkpoint)]);
    keep(data, (14..=20).map(|at| large(at, 300_000)));
    let whole = KeptFiles::open(&dir).unwrap();
    let (path, asked) = (data.join("sent"), std::cell::RefCell::new(Vec::new()));
    let ask = |from: &Place| {
        asked.borrow_mut().push(from.clone());
        let page = some_from(&dir, from)?;
        // The returned entries are damaged meanwhile: reading them again would end the page there.
        let next = page
            .split(|byte| *byte == b'\n')
            .next()
            .and_then(|line| Place::parse(std::str::from_utf8(line).unwrap()));
        for name in read::names(&dir)?.iter().filter(|_| next.is_some()).take(1) {
            let file = OpenOptions::new().write(true).open(dir.join(name))?;
            file.write_all_at(&[0; 200_000], read::BEGINNING.len() as u64)?;
        }
        Ok(page.into())
    };
    write_all(&path, ask).unwrap();
    let sent = KeptFiles::open(&path).unwrap();
    for at in 2..=20 {
        assert_eq!(sent.at(Position(at)).len(), 1, "{at}");
        assert!(sent.at(Position(at)) == whole.at(Position(at)), "{at}");
    }
    assert_eq!((sent.at(Position(1)).len(), sent.last()), (1, Position(20)));
    let asked = asked.into_inner();
    assert!(asked.len() >= 5 && asked.is_sorted(), "{asked:?}");
    for wrong in ["", "x:1", "../etc/passwd:1", "00000000000000000001.00000000000000000001:-1"] {
        assert_eq!(Place::parse(wrong), None, "{wrong}");
    }
    // A source that does not advance is not asked for ever.
    let stuck = |_: &Place| Ok(format!("{}\n", Place::default()).into_bytes().into());
    assert!(write_all(&path, stuck).is_err());
}
