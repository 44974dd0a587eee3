//! Tests of the view on disk: what a power cut may leave of its log.

use postrider_log::Mark;

use super::*;
use crate::Direction;
use crate::view::conformance::{ViewSubject, put, view_contract};

struct Dir(TempDir);

impl ViewSubject for Dir {
    type View = FjallView;

    fn open(&self) -> FjallView {
        FjallView::open(self.0.path(), FjallOptions::default()).unwrap()
    }
}

view_contract!(contract, Dir(tempfile::tempdir().unwrap()));

/// A closed view with commits 1 to 6 of which three are synced, and where each one's batch ends.
fn closed() -> (Dir, PathBuf, Vec<u64>) {
    let dir = Dir(tempfile::tempdir().unwrap());
    let view = dir.open();
    view.begin(LOG, &Mark::default()).unwrap();
    let mut ends = Vec::new();
    let end = || {
        let [log] = logs(&dir.0).try_into().unwrap();
        let end = crate::fjall::log::end_of(&log).unwrap();
        (log, end.whole)
    };
    for at in 1..=6 {
        view.apply(&mark(at), &[put(1, at)]).unwrap();
        ends.push(end().1);
        if at == 3 {
            view.sync().unwrap();
        }
    }
    drop(view);
    let log = end().0;
    (dir, log, ends)
}

#[test]
fn a_moment_shows_what_was_there_when_it_was_taken() {
    let dir = Dir(tempfile::tempdir().unwrap());
    let view = dir.open();
    view.begin(LOG, &Mark::default()).unwrap();
    view.apply(&mark(1), &[put(1, 1)]).unwrap();
    let moment = view.moment().unwrap().unwrap();
    view.apply(&mark(2), &[put(1, 2), put(2, 2)]).unwrap();
    let read = |it: &dyn View| {
        let (mut values, forward) =
            (vec![it.get(Table::Keys, &[1]).unwrap().unwrap()], Direction::Forward);
        it.scan(Table::Keys, &[], None, forward, &mut |_, value| {
            values.push(value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
        values.iter().map(|value| value[7]).collect::<Vec<_>>()
    };
    assert_eq!((read(&*moment), read(&view)), (vec![1, 1], vec![2, 2, 2]));
    // It keeps nothing open.
    drop(view);
    assert!(moment.get(Table::Keys, &[1]).is_err());
    dir.open();
}

#[test]
fn what_was_not_synced_is_cut_off_at_the_first_gap() {
    // Of each commit a byte before its end is missing, and all behind it is there.
    for lost in 4..=6 {
        let (dir, log, ends) = closed();
        let mut bytes = std::fs::read(&log).unwrap();
        bytes[ends[lost - 1] as usize - 20] ^= 0x81;
        std::fs::write(&log, bytes).unwrap();
        let view = dir.open();
        let kept = lost as u64 - 1;
        assert_eq!((view.applied(), view.synced()), (Ok(mark(kept)), Ok(Position(3))));
        assert_eq!(view.get(Table::Keys, &[1]), Ok(Some(kept.to_be_bytes().to_vec())));
        // It goes on, and is whole from then on.
        view.apply(&mark(9), &[put(1, 9)]).unwrap();
        view.sync().unwrap();
        drop(view);
        assert_eq!(dir.open().applied(), Ok(mark(9)));
    }
}

#[test]
fn damage_of_what_was_synced_is_an_error() {
    for lost in 1..=3 {
        let (dir, log, ends) = closed();
        let mut bytes = std::fs::read(&log).unwrap();
        bytes[ends[lost - 1] as usize - 20] ^= 0x81;
        std::fs::write(&log, &bytes).unwrap();
        let opened = FjallView::open(dir.0.path(), FjallOptions::default());
        assert!(matches!(opened.err(), Some(StoreError::Damaged(_))), "{lost}");
        assert!(std::fs::read(&log).unwrap() == bytes, "it is left as it is");
    }
}
