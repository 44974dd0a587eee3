//! Tests that a trimmed log with checkpoints is compared with the view, and with them.

use super::*;
use crate::Log as _;
use crate::archive::Row;
use crate::checkpoints::tests::{rewrite, write_of};

/// Returns two checkpoints, and a log that starts behind the first commits.
fn trimmed() -> Data {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path(), &options()).unwrap();
    store.begin_epoch().unwrap();
    let checkpoints = directory::checkpoints(dir.path());
    for index in 0..40_u8 {
        let change = Change::put(Table::Contacts, [b'k', index % 20], vec![index; 1_500]);
        store.commit(Group::new(None, &[change])).unwrap();
        if index == 14 || index == 27 {
            let made = checkpoints.write(|out| write_of(&store, out)).unwrap();
            store.keep_for_checkpoints(made.log_needed_after).unwrap();
            store.trim(made.header.at.position).unwrap();
        }
    }
    store.close().unwrap();
    let last = store.last_position().unwrap();
    assert!(store.begins_after().unwrap() > Position(5));
    drop(store);
    FjallView::wait_until_closed(&dir.path().join("view")).unwrap();
    Data { dir, last }
}

fn newest(data: &Data) -> crate::Checkpoint {
    directory::checkpoints(data.path()).all().unwrap().remove(0)
}

#[test]
fn a_view_is_compared_with_a_checkpoint_and_the_log_behind_it() {
    let data = trimmed();
    let checked = data.check(true);
    assert!(checked.problems.is_empty(), "{checked:?}");
    assert_eq!(checked.deep, Some(Deep::Compared { records: 20, different: 0 }));
    let view = FjallView::open_existing(&data.path().join("view"), super::super::options());
    let view = view.unwrap();
    let mark: Mark = view.applied().unwrap();
    let changes = [
        // One record is in the older checkpoint, one in the log, and one in neither.
        Change::put(Table::Contacts, [b'k', 3], b"another"),
        Change::delete(Table::Contacts, [b'k', 19]),
        Change::put(Table::Keys, *b"more", *b"new"),
    ];
    view.apply(&mark, &changes).unwrap();
    view.sync().unwrap();
    drop(view);
    FjallView::wait_until_closed(&data.path().join("view")).unwrap();
    assert!(data.check(false).problems.is_empty());
    let checked = data.check(true);
    assert_eq!(checked.deep, Some(Deep::Compared { records: 20, different: 3 }));
    assert_eq!(checked.problems.len(), 3, "{checked:?}");
    assert!(!data.path().join("view.check").exists());
}

#[test]
fn a_whole_checkpoint_with_other_records_is_reported_by_the_deep_check_only() {
    let changes: [fn(&mut Vec<Row>); 3] = [
        |rows| drop(rows.remove(3)),
        |rows| {
            rows.iter_mut().take(1).for_each(|row| {
                let Row::Record(_, _, value) = row else { panic!("{row:?}") };
                *value = b"another".as_slice().into();
            })
        },
        |rows| {
            let more = Row::Record(Table::Contacts, vec![b'k', 99].into(), vec![1].into());
            let states = rows.iter().position(|row| matches!(row, Row::State(..))).unwrap();
            rows.insert(states, more);
        },
    ];
    for change in changes {
        let data = trimmed();
        rewrite(&newest(&data), |_, rows| change(rows));
        assert!(data.check(false).problems.is_empty());
        let checked = data.check(true);
        let [problem] = checked.problems.as_slice() else { panic!("{checked:?}") };
        assert_eq!(problem.position, Some(newest(&data).position));
        assert!(problem.file.starts_with("checkpoints/"), "{problem:?}");
        assert!(
            checked.checkpoints[0].problem.is_some() && checked.checkpoints[1].problem.is_none()
        );
        // The view itself matches the older one and the log.
        assert_eq!(checked.deep, Some(Deep::Compared { records: 20, different: 0 }));
    }
}

#[test]
fn a_checkpoint_that_the_log_does_not_lead_on_from_is_reported() {
    let data = trimmed();
    rewrite(&newest(&data), |header, _| header.at.hash.0[3] ^= 1);
    let checked = data.check(false);
    let [problem] = checked.problems.as_slice() else { panic!("{checked:?}") };
    assert!(problem.what.contains("another entry at its position"), "{problem:?}");
    assert!(problem.file.starts_with("checkpoints/") && checked.checkpoints[0].problem.is_some());
}

#[test]
fn a_checkpoint_of_another_log_makes_no_segment_unnecessary() {
    let data = Data::new();
    let dir = directory::checkpoints(data.path());
    let (store, _) = open(data.path(), &options()).unwrap();
    let made = dir.write(|out| write_of(&store, out)).unwrap();
    drop(store);
    FjallView::wait_until_closed(&data.path().join("view")).unwrap();
    data.flip(&data.segments()[0], 4_300);
    let cost = |checked: &DirectoryCheck| checked.problems[0].cost.clone();
    assert!(cost(&data.check(false)).contains("nothing is lost"));
    rewrite(&made.checkpoint, |header, _| header.log = LogId([9; 16]));
    assert!(cost(&data.check(false)).contains("does not start"));
}
