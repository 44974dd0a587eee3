//! Tests that cut the power, or fail an operation, at every step of all changes of files.

use super::histories::Driver;
use super::*;

/// Changes files in every way once, and stops at the first error.
///
/// It appends, changes the segment, trims, repairs a failed sync, stops cleanly and starts.
fn run(driver: &mut Driver) -> Option<()> {
    driver.claim()?;
    for index in 0..9_usize {
        driver.append(&[index as u8; 1_700])?;
    }
    driver.append(&[7; 5_000])?;
    driver.trim(Position(8))?;
    driver.log.fail_next_append(Fault::FailedSync);
    if driver.append(b"its sync fails").is_some() {
        return None;
    }
    driver.reopen()?;
    driver.claim()?;
    driver.append(b"behind")?;
    driver.log.close().ok()?;
    driver.crash(Keep::Cache);
    driver.claim()?;
    driver.append(b"after the clean stop")
}

fn steps() -> u64 {
    let mut driver = Driver::new();
    let before = driver.log.disk().operations();
    run(&mut driver).unwrap();
    driver.log.disk().operations() - before
}

#[test]
fn the_power_may_be_cut_at_every_step() {
    let steps = steps();
    assert!(steps > 60, "{steps}");
    let mut kept = vec![Keep::Nothing, Keep::Everything, Keep::Cache];
    kept.extend((0..6).map(Keep::Seed));
    for step in 0..steps {
        for keep in &kept {
            let mut driver = Driver::new();
            driver.log.disk().fail_after(step, true);
            // A crash within the run ends the failing; the rest is a run like any other.
            let done = run(&mut driver);
            driver.crash(*keep);
            assert!(driver.claim().is_some(), "{step} {keep:?}");
            assert!(driver.append(b"after it").is_some(), "{step} {keep:?} {done:?}");
            driver.crash(Keep::Nothing);
        }
    }
}

#[test]
fn each_operation_may_fail_once() {
    for step in 0..steps() {
        let mut driver = Driver::new();
        driver.log.disk().fail_after(step, false);
        for _ in 0..3 {
            if run(&mut driver).is_some() {
                break;
            }
            assert!(driver.reopen().is_some() || driver.reopen().is_some(), "{step}");
        }
        driver.claim().unwrap();
        driver.append(b"after it").unwrap();
        driver.crash(Keep::Nothing);
    }
}

#[test]
fn the_first_start_may_be_cut_at_every_step() {
    let disk = SimDisk::new();
    CrashingLog::open_on(disk.clone(), start(), small()).unwrap();
    for step in 0..disk.operations() {
        for keep in (0..20).map(Keep::Seed).chain([Keep::Nothing, Keep::Everything, Keep::Cache]) {
            let disk = SimDisk::new();
            disk.fail_after(step, true);
            assert!(CrashingLog::open_on(disk.clone(), start(), small()).is_err(), "{step}");
            let log = CrashingLog::open_on(disk.crash(keep), start(), small()).unwrap();
            claimed(&log);
            append(&log, b"works");
        }
    }
}
