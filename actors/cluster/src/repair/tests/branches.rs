//! Tests that a base of another branch than the log is never taken for its start.

use super::*;

/// Appends entries of a later epoch than the base, at positions that the log has lost.
fn goes_on_elsewhere(rig: &Rig) {
    claim(&rig.log(), &by("b"), 0).unwrap();
    (0..2).for_each(|number| rig.write(number));
}

fn mark(tail: &Tail) -> Mark {
    Mark { position: tail.last, epoch: tail.epoch, hash: tail.hash }
}

#[test]
fn a_backup_of_before_an_earlier_repair_does_not_cover_what_was_written_since() {
    let rig = Rig::new();
    let backup = mark(&rig.log().tail().unwrap());
    rig.stream.lose(8);
    let mut first = rig.repair(1);
    let finding = first.find(&rig.base(), Some(backup)).unwrap();
    assert!(finding.loses(), "{finding:?}");
    let claimed = first.claim(&finding, 7).unwrap();
    first.finish(claimed, &rig.archive()).unwrap();
    (0..3).for_each(|number| rig.write(number));
    assert!(!rig.repair(2).find(&rig.base(), Some(backup)).unwrap().needs_repair());
    for name in rig.archives.names() {
        rig.archives.flip(&name, 0);
    }
    // The log ends before the backup, and all of it is of a later epoch.
    let finding = rig.repair(3).find(&rig.base(), Some(backup)).unwrap();
    assert_eq!((&finding.base, finding.end), (&Base::Backup(backup), Position(8)));
    assert_eq!(finding.given_up().unwrap().0, Position(2), "{finding:?}");
    assert!(finding.loses() && finding.needs_repair());
    assert!(finding.problems.iter().any(|it| it.contains("other entries from 2")), "{finding:?}");
    // No entry of the log has the epoch of the new claim.
    let epoch = rig.log().tail().unwrap().epoch;
    let claimed = rig.repair(3).claim(&finding, 9).unwrap();
    assert!(claimed.at.epoch > epoch);
}

#[test]
fn a_copy_that_ends_on_a_lost_branch_loses_against_the_log() {
    for lost in [3, 2] {
        let rig = Rig::new();
        let of_branch = rig.keep("at 8");
        rig.stream.lose(lost);
        goes_on_elsewhere(&rig);
        let repair = rig.repair(1);
        let finding = rig.find(&repair);
        assert_eq!((&finding.base, finding.end), (&Base::Nothing, finding.last), "{finding:?}");
        assert!(finding.needs_repair() && finding.loses(), "{finding:?}");
        assert!(finding.problems.iter().any(|it| it.contains("another branch")), "{finding:?}");
        // Only the copy is left of the start of the log.
        rig.stream.purge_before(3).unwrap();
        let finding = rig.find(&repair);
        assert_eq!(finding.base.mark(), mark(&of_branch));
        let from = Position(9 - lost as u64);
        assert_eq!(finding.given_up().unwrap().0, from, "{finding:?}");
        assert_eq!((finding.end, commits(&repair, &finding)), (Position(8), vec![]));
    }
}

#[test]
fn another_entry_of_the_same_epoch_is_another_branch_too() {
    let rig = Rig::new();
    rig.keep("at 8");
    rig.stream.lose(1);
    rig.write(77);
    rig.stream.purge_before(3).unwrap();
    let finding = rig.find(&rig.repair(1));
    assert_eq!(finding.given_up(), Some((Position(8), Position(8))), "{finding:?}");
    assert!(finding.needs_repair());
}

#[test]
fn an_older_copy_of_the_branch_of_the_log_is_better_than_a_newer_one_of_another() {
    let rig = Rig::new();
    rig.keep("at 8");
    (0..2).for_each(|number| rig.write(number));
    rig.keep("at 10");
    rig.stream.lose(1);
    goes_on_elsewhere(&rig);
    rig.stream.purge_before(9).unwrap();
    let finding = rig.find(&rig.repair(1));
    assert_eq!((finding.base.mark().position, finding.end), (Position(8), Position(12)));
    assert_eq!(std::fs::read_to_string(rig.base()).unwrap(), "at 8");
    assert!(finding.loses() && finding.needs_repair(), "{finding:?}");
}

#[test]
fn a_checkpoint_that_does_not_come_is_passed_over_and_the_older_one_taken() {
    let rig = Rig::new();
    rig.keep("at 8");
    (0..2).for_each(|number| rig.write(number));
    rig.keep("at 10");
    rig.stream.purge_before(9).unwrap();
    rig.archives.stall(&rig.archives.names()[1]);
    let finding = rig.find(&rig.repair(1));
    assert_eq!((finding.base.mark().position, finding.end), (Position(8), Position(10)));
    assert!(finding.needs_repair() && !finding.loses(), "{finding:?}");
    assert!(finding.problems[0].contains("too slowly"), "{finding:?}");
    // A slow copy is not reported as lost when there is no other.
    rig.archives.stall(&rig.archives.names()[0]);
    let error = rig.repair(1).find(&rig.base(), None).unwrap_err();
    assert!(error.to_string().starts_with("NOT_STORED: "), "{error}");
}
