//! Tests of the check on a whole directory, and on one with each kind of damage.

mod checkpoints;

use std::path::PathBuf;

use postrider_log::body::{ChangeRef, Claim, DATA_FORMAT, encode_group};
use postrider_log::{
    EntryHash, FileLog, FileOptions, Kind, Log as _, LogId, Mark, Start, encode_commit,
};
use tempfile::TempDir;

use super::*;
use crate::directory::{DirectoryOptions, open};
use crate::{Change, Group, Store, Table, View, Writes};

const SEGMENT_BYTES: u64 = 16 * 1024;

struct Data {
    dir: TempDir,
    /// The last committed position.
    last: Position,
}

fn options() -> DirectoryOptions {
    DirectoryOptions {
        writes: Writes::default(),
        log_id: [7; 16],
        segment_bytes: SEGMENT_BYTES,
        view: FjallOptions::default(),
    }
}

impl Data {
    /// Returns a directory with a few segments of commits.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = open(dir.path(), &options()).unwrap();
        store.begin_epoch().unwrap();
        for index in 0..40_u8 {
            let change = Change::put(Table::Contacts, [b'k', index % 20], vec![index; 1_500]);
            store.commit(Group::new(None, &[change])).unwrap();
        }
        store.close().unwrap();
        let last = crate::Log::last_position(&store).unwrap();
        drop(store);
        FjallView::wait_until_closed(&dir.path().join("view")).unwrap();
        Self { dir, last }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path().join("log")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut found: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
        found.sort();
        found
    }

    fn flip(&self, path: &Path, at: usize) {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[at] ^= 4;
        std::fs::write(path, bytes).unwrap();
    }

    fn check(&self, deep: bool) -> DirectoryCheck {
        let checked = check(self.path(), deep).unwrap();
        FjallView::wait_until_closed(&self.path().join("view")).unwrap();
        checked
    }
}

#[test]
fn a_whole_directory_has_no_problem() {
    let data = Data::new();
    for deep in [false, true] {
        let checked = data.check(deep);
        assert!(checked.problems.is_empty(), "{checked:?}");
        let log = checked.log;
        assert_eq!((log.first, log.last, log.torn_bytes), (Position(1), data.last, 0));
        assert_eq!((log.id, log.epoch), (Some(LogId([7; 16])), 1));
        assert!(log.segments > 2 && log.segments == data.segments().len(), "{log:?}");
        let view = checked.view.unwrap();
        assert_eq!((view.applied, view.synced, view.records), (data.last, data.last, 20));
        let compared = deep.then_some(Deep::Compared { records: 20, different: 0 });
        assert_eq!(checked.deep, compared);
        assert!(!data.path().join("view.check").exists());
    }
}

#[test]
fn a_flipped_bit_in_any_segment_is_reported_with_its_place() {
    let data = Data::new();
    for segment in &data.segments() {
        // The flips are in the header, in the first entry, and in one that others follow.
        for at in [100, 4_196, 7_000] {
            data.flip(segment, at);
            let checked = data.check(true);
            let [problem] = checked.problems.as_slice() else { panic!("{checked:?}") };
            let name = segment.file_name().unwrap().to_str().unwrap();
            assert_eq!(problem.kind, ProblemKind::Damaged);
            assert_eq!(problem.file, format!("log/{name}"));
            assert!(problem.offset.unwrap() as usize <= at && problem.position.is_some());
            let refuses = problem.cost.contains("does not start");
            // There is no snapshot, so every segment is needed.
            assert!(refuses, "{problem:?}");
            assert!(matches!(checked.deep, Some(Deep::NotPossible(_))), "{checked:?}");
            data.flip(segment, at);
        }
    }
    assert!(data.check(true).problems.is_empty());
}

#[test]
fn the_costs_of_two_flips_are_distinguished() {
    let data = Data::new();
    let segments = data.segments();
    data.flip(&segments[0], 4_300);
    data.flip(&segments[0], 9_000);
    let checked = data.check(false);
    let positions: Vec<_> = checked.problems.iter().map(|it| it.position.unwrap().0).collect();
    assert_eq!(positions.len(), 2, "{checked:?}");
    assert!(positions[0] < positions[1]);
    assert_eq!(checked.log.last, data.last);
}

#[test]
fn a_snapshot_makes_an_older_segment_unnecessary() {
    let data = Data::new();
    let snapshots = crate::SnapshotDir::open(data.path().join("snapshots")).unwrap();
    snapshots.write(data.last, std::iter::empty()).unwrap();
    data.flip(&data.segments()[0], 4_300);
    let checked = data.check(false);
    let [problem] = checked.problems.as_slice() else { panic!("{checked:?}") };
    assert!(problem.cost.contains("nothing is lost"), "{problem:?}");
    let [generation] = checked.snapshots.as_slice() else { panic!("{checked:?}") };
    assert!(generation.problem.is_none() && generation.bytes > 0);
    let manifest = data.path().join("snapshots").join(&generation.name).join("manifest");
    data.flip(&manifest, 3);
    let checked = data.check(false);
    assert!(checked.snapshots[0].problem.is_some());
    assert_eq!(checked.problems.len(), 2, "{checked:?}");
}

#[test]
fn a_torn_tail_is_no_problem_and_a_lost_one_is() {
    let data = Data::new();
    let newest = data.segments().pop().unwrap();
    let end = std::fs::read(&newest).unwrap();
    let end = end.iter().rposition(|&byte| byte != 0).unwrap();
    data.flip(&newest, end + 20);
    let checked = data.check(true);
    assert!(checked.problems.is_empty(), "{checked:?}");
    assert_eq!(checked.log.torn_bytes, 20);
    data.flip(&newest, end + 20);
    data.flip(&newest, end - 30);
    for is_marked in [true, false] {
        let checked = data.check(false);
        let [problem] = checked.problems.as_slice() else { panic!("{checked:?}") };
        assert_eq!((problem.kind, problem.position), (ProblemKind::Lost, Some(data.last)));
        assert!(problem.what.contains("was acknowledged"), "{problem:?}");
        if is_marked {
            std::fs::remove_file(data.path().join("log/closed")).unwrap();
        }
    }
}

#[test]
fn a_missing_segment_and_a_missing_log_are_reported() {
    let data = Data::new();
    let segments = data.segments();
    let aside = data.path().join("aside");
    std::fs::rename(&segments[1], &aside).unwrap();
    let checked = data.check(false);
    let [problem] = checked.problems.as_slice() else { panic!("{checked:?}") };
    assert!(problem.what.contains("before it is missing"), "{problem:?}");
    std::fs::rename(&aside, &segments[1]).unwrap();
    std::fs::rename(data.path().join("log"), &aside).unwrap();
    let checked = data.check(true);
    assert_eq!(checked.problems[0].kind, ProblemKind::Lost);
    assert_eq!(checked.problems[0].file, "log");
}

#[test]
fn a_view_that_is_not_what_the_log_says_is_reported_by_the_deep_check_only() {
    let data = Data::new();
    let view = FjallView::open_existing(&data.path().join("view"), super::options()).unwrap();
    let mark: Mark = view.applied().unwrap();
    let changes = [
        Change::put(Table::Contacts, [b'k', 3], b"another"),
        Change::put(Table::Contacts, b"more".as_slice(), b"new"),
        Change::delete(Table::Contacts, [b'k', 4]),
    ];
    view.apply(&mark, &changes).unwrap();
    view.sync().unwrap();
    assert!(view.get(Table::Contacts, b"more").unwrap().is_some());
    drop(view);
    FjallView::wait_until_closed(&data.path().join("view")).unwrap();
    assert!(data.check(false).problems.is_empty());
    let checked = data.check(true);
    assert_eq!(checked.deep, Some(Deep::Compared { records: 20, different: 3 }));
    assert_eq!(checked.problems.len(), 3, "{checked:?}");
}

/// Appends a commit of one record that the view does not have.
fn append(data: &Data, table: u8) {
    let files = FileOptions { segment_bytes: SEGMENT_BYTES, ..FileOptions::default() };
    let log = FileLog::open(&data.path().join("log"), files, Start::new(LogId([7; 16]))).unwrap();
    let writer = Claim {
        node: "t".to_owned(),
        incarnation: [0; 16],
        program: "t".to_owned(),
        readable_from: DATA_FORMAT,
    };
    let tail = postrider_log::claim(&log, &writer, 1).unwrap();
    let change = ChangeRef { table, key: b"new", value: Some(b"1") };
    let body = encode_group(&[], [change].into_iter()).unwrap();
    let next = tail.next(tail.epoch);
    let entries = encode_commit(&next, Kind::Group, 1, &body, log.entry_bytes_max()).unwrap();
    log.append(next.position, &entries).unwrap();
    log.close().unwrap();
}

/// The state is that after a power cut.
#[test]
fn what_the_view_may_lack_is_no_difference() {
    let data = Data::new();
    append(&data, Table::Contacts.number());
    let checked = data.check(true);
    assert!(checked.problems.is_empty(), "{checked:?}");
    assert_eq!(checked.deep, Some(Deep::Compared { records: 21, different: 0 }));
}

#[test]
fn a_table_of_a_newer_version_is_not_passed_over() {
    let data = Data::new();
    append(&data, 250);
    let refused = check(data.path(), false);
    assert!(matches!(&refused, Err(DirectoryError::Store(StoreError::Newer(_)))), "{refused:?}");
}

#[test]
fn a_view_is_compared_with_what_the_entry_behind_it_follows() {
    let data = Data::new();
    let snapshots = crate::SnapshotDir::open(data.path().join("snapshots")).unwrap();
    snapshots.write(data.last, std::iter::empty()).unwrap();
    // The log starts right behind the view.
    let segments = data.segments();
    segments[..2].iter().for_each(|segment| std::fs::remove_file(segment).unwrap());
    let first: u64 = segments[2].file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let position = Position(first - 1);
    let view = FjallView::open_existing(&data.path().join("view"), super::options()).unwrap();
    let hash = EntryHash([9; 16]);
    view.begin(LogId([7; 16]), &Mark { position, epoch: 1, hash }).unwrap();
    drop(view);
    FjallView::wait_until_closed(&data.path().join("view")).unwrap();
    let checked = data.check(false);
    let [problem] = checked.problems.as_slice() else { panic!("{checked:?}") };
    assert_eq!((&*problem.file, problem.position), ("view", Some(position)));
    assert!(problem.what.contains("another entry"), "{problem:?}");
}

#[test]
fn a_damaged_view_is_reported() {
    let data = Data::new();
    let damage = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let journals = std::fs::read_dir(data.path().join("view")).unwrap();
    let journals = journals.map(|it| it.unwrap().path());
    let journal = journals.filter(|it| it.extension().is_some_and(|it| it == "jnl")).max().unwrap();
    damage(&journal);
    let checked = check(data.path(), true).unwrap();
    assert!(checked.problems.iter().any(|it| it.file == "view"), "{checked:?}");
}

#[test]
fn a_log_that_was_trimmed_cannot_be_compared() {
    let data = Data::new();
    let snapshots = crate::SnapshotDir::open(data.path().join("snapshots")).unwrap();
    snapshots.write(data.last, std::iter::empty()).unwrap();
    std::fs::remove_file(&data.segments()[0]).unwrap();
    let checked = data.check(true);
    assert!(checked.problems.is_empty(), "{checked:?}");
    assert!(matches!(checked.deep, Some(Deep::NotPossible(_))));
    std::fs::remove_dir_all(data.path().join("snapshots")).unwrap();
    let checked = data.check(false);
    assert_eq!(checked.problems[0].file, "snapshots", "{checked:?}");
}

#[test]
fn a_directory_without_data_and_one_of_a_newer_version_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(check(dir.path(), false), Err(DirectoryError::Store(_))));
    std::fs::write(dir.path().join("format"), "9\n").unwrap();
    assert!(matches!(check(dir.path(), false), Err(DirectoryError::NewerFormat { found: 9 })));
}
