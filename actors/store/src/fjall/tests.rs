//! Tests of the view on disk beyond the common contract.

mod torn;
mod view;

use std::ops::ControlFlow;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::view::MarkedView;
use crate::view::conformance::{LOG, mark};
use crate::{Change, Position, StoreError, Table, View};

fn open(dir: &TempDir) -> FjallView {
    FjallView::open(dir.path(), FjallOptions::default()).unwrap()
}

#[test]
fn tables_are_listed_in_their_order() {
    for (at, table) in Table::ALL.iter().copied().enumerate() {
        assert_eq!(table as usize, at);
    }
}

/// Applies these commits: each has its number and these bytes.
fn fill(view: &FjallView, commits: std::ops::RangeInclusive<u64>, bytes: &[u8]) {
    for number in commits {
        let changes = [
            Change::put(Table::Keys, *b"k", number.to_be_bytes()),
            Change::put(Table::Meta, *b"bytes", bytes),
        ];
        view.apply(&mark(number), &changes).unwrap();
    }
}

fn logs(dir: &TempDir) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|it| it == "jnl")).collect()
}

#[test]
fn a_directory_has_one_view_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let view = open(&dir);
    let second = FjallView::open(dir.path(), FjallOptions::default());
    assert_eq!(second.err(), Some(StoreError::Locked));
    fill(&view, 1..=2, b"bytes");
    drop(view);
    assert_eq!(open(&dir).applied(), Ok(mark(2)));
}

#[test]
fn files_that_make_no_sense_are_damage_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    fill(&open(&dir), 1..=3, b"bytes");
    for entry in std::fs::read_dir(dir.path().join("keyspaces")).unwrap() {
        for file in std::fs::read_dir(entry.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            if file.is_file() {
                std::fs::write(&file, b"nonsense").unwrap();
            }
        }
    }
    let opened = FjallView::open(dir.path(), FjallOptions::default());
    assert!(matches!(opened.err(), Some(StoreError::Damaged(_))));
}

#[test]
fn small_memtables_do_not_block() {
    let dir = tempfile::tempdir().unwrap();
    let options = FjallOptions { memtable_bytes: 256 * 1024, ..FjallOptions::default() };
    let view = FjallView::open(dir.path(), options).unwrap();
    fill(&view, 1..=150, &[7; 50_000]);
    view.sync().unwrap();
    drop(view);
    let view = FjallView::open(dir.path(), options).unwrap();
    assert_eq!((view.applied(), view.synced()), (Ok(mark(150)), Ok(Position(150))));
    assert_eq!(view.get(Table::Meta, b"bytes"), Ok(Some(vec![7; 50_000])));
}
