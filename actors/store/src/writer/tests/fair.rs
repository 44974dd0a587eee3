//! Tests of the assignment to groups: bulk of one subscriber delays no other.

use proptest::prelude::*;

use super::gated::{Gate, Gated};
use super::*;
use crate::Change;

/// The bytes of a bulk batch, and of a small one.
const BULK: usize = 12_000;
const SMALL: usize = 200;

/// Returns a writer that commits a group of another workspace until the gate opens.
fn busy() -> (Arc<Gated>, Gate, Writer, GroupNumber) {
    let (store, gate) = gated();
    let writer = gate.start(&store, WriterOptions::default());
    let (other, _heard) = subscribe(&writer, "busy");
    let started = other.submit(events(b"0")).unwrap();
    gate.entered.recv().unwrap();
    (store, gate, writer, started)
}

#[test]
fn bulk_of_one_puts_nobody_behind_it() {
    let (store, gate, writer, started) = busy();
    let [(importer, _a), (other, _b), (quiet, _c)] =
        ["importer", "other", "quiet"].map(|name| subscribe(&writer, name));
    let put = |of: &Subscriber, bytes: usize| {
        let value = vec![7; bytes];
        let changes = [ChangeRef { table: Table::Keys, key: b"k", value: Some(&value) }];
        of.submit(Batch { changes: &changes, ..Batch::default() }).unwrap()
    };
    let groups: Vec<_> = (0..10).map(|_| put(&importer, BULK)).collect();
    assert_eq!(groups, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5].map(|group| started + group));
    assert_eq!(put(&other, BULK), started + 1, "bulk of others shares the groups");
    assert_eq!(put(&quiet, SMALL), started + 1, "and whoever has little goes first");
    assert_eq!(put(&importer, SMALL), started + 5, "but nobody before what they had queued");
    let (late, _late) = subscribe(&writer, "importer");
    assert_eq!(put(&late, SMALL), started + 5, "and nobody new before what was there");
    drop(gate.permits);
    writer.stop();
    assert_eq!(store.get(Table::Keys, b"k"), Ok(Some(vec![7; SMALL])));
}

#[test]
fn a_group_has_room_for_bulk_of_several() {
    let (_store, gate, writer, started) = busy();
    let value = vec![7; 30_000];
    let changes = [ChangeRef { table: Table::Keys, key: b"k", value: Some(&value) }];
    let groups: Vec<_> = (0..9)
        .map(|n| {
            let (one, _heard) = subscribe(&writer, &format!("importer-{n}"));
            // A new subscriber starts behind the queue, so each of them has queued before.
            (one, Batch { changes: &changes, ..Batch::default() })
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|(one, batch)| one.submit(batch).unwrap() - started)
        .collect();
    assert_eq!(groups, [1, 1, 1, 1, 2, 2, 2, 2, 3]);
    drop(gate.permits);
    writer.stop();
}

#[test]
fn who_is_alone_fills_groups_until_somebody_comes() {
    let (_store, gate, writer, started) = busy();
    let [(importer, _a), (other, _b)] = ["importer", "other"].map(|name| subscribe(&writer, name));
    let put = |of: &Subscriber, bytes: usize| {
        let value = vec![7; bytes];
        let changes = [ChangeRef { table: Table::Keys, key: b"k", value: Some(&value) }];
        of.submit(Batch { changes: &changes, ..Batch::default() }).unwrap() - started
    };
    // Each of its groups is taken before the next one is filled.
    let commit = || {
        gate.permits.send(Permit::Go).unwrap();
        gate.entered.recv().unwrap();
    };
    for group in 1..8 {
        assert_eq!(put(&importer, BULK), group);
        commit();
    }
    let groups: Vec<_> = (0..3).map(|_| put(&importer, BULK)).collect();
    assert_eq!(groups, [8, 8, 9], "somebody was there of late");
    commit();
    let groups: Vec<_> = (0..30).map(|_| put(&importer, BULK)).collect();
    assert_eq!(groups, [[9; 20].as_slice(), &[10; 10]].concat());
    // A new subscriber shares the first group, and bulk is held back from then on.
    assert_eq!(put(&other, SMALL), 9);
    let groups: Vec<_> = (0..3).map(|_| put(&importer, BULK)).collect();
    assert_eq!(groups, [11, 11, 12]);
    drop(gate.permits);
    writer.stop();
}

/// A step of a random history.
#[derive(Debug, Clone)]
enum Step {
    /// Submits a batch of a subscriber: bytes of its events, of its log entry and of its change.
    Submit(usize, [usize; 3]),
    /// Stages changes of no subscriber.
    Changes(usize),
    /// The store commits a group.
    Commit,
}

/// The expected data of one workspace in the store.
#[derive(Debug, Clone, Default)]
struct Expected {
    journal: Vec<u8>,
    /// Entries of the event log, and their bytes.
    entries: u64,
    log_bytes: u64,
    /// Its record.
    value: Option<Vec<u8>>,
}

impl Expected {
    fn check(&self, store: &Gated, n: usize, of: &Subscriber) -> Result<(), TestCaseError> {
        prop_assert_eq!(&journal_of(store, of.workspace().as_str()), &self.journal);
        let (mut next, mut bytes) = (1, 0);
        let mut visit = |chunk: LogChunk| {
            assert_eq!(chunk.first, next, "the log has no gap");
            (next, bytes) = (next + u64::from(chunk.count), bytes + chunk.entries.len() as u64);
            ControlFlow::Continue(())
        };
        scan_event_log(store, of.workspace(), 0, &mut visit).unwrap();
        prop_assert_eq!((next - 1, bytes), (self.entries, self.log_bytes));
        let key = [b'0' + u8::try_from(n).unwrap()];
        prop_assert_eq!(&store.get(Table::Keys, &key).unwrap(), &self.value);
        Ok(())
    }
}

fn step() -> impl Strategy<Value = Step> {
    let size = || prop_oneof![4 => 0..400_usize, 1 => 5_000..90_000_usize];
    prop_oneof![
        8 => (0..4_usize, [size(), size(), size()]).prop_map(|(who, sizes)| Step::Submit(who, sizes)),
        2 => size().prop_map(Step::Changes),
        1 => Just(Step::Commit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the sizes, the batches of each are committed in their order and without a gap.
    ///
    /// The last change of each record holds, and a barrier settles behind all.
    #[test]
    fn each_ones_order_holds(steps in prop::collection::vec(step(), 1..120)) {
        let (store, gate, writer, _) = busy();
        let subscribers: Vec<_> =
            (0..4).map(|n| subscribe(&writer, &format!("workspace-{n}"))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut expected = vec![Expected::default(); 4];
        let (mut unowned, mut last, mut waiting) = (None, [0; 4], Vec::new());
        for (at, step) in steps.iter().enumerate() {
            let byte = u8::try_from(at).unwrap();
            match step {
                Step::Submit(who, [events, log, change]) => {
                    let expected = &mut expected[*who];
                    let (events, log) = (vec![byte; *events], vec![byte; *log]);
                    let key = [b'0' + u8::try_from(*who).unwrap()];
                    let stored = vec![byte; *change];
                    let changes =
                        [ChangeRef { table: Table::Keys, key: &key, value: Some(&stored) }];
                    let batch = Batch {
                        events: &events,
                        log: &log,
                        log_first: expected.entries + 1,
                        log_before: expected.log_bytes,
                        log_count: u32::from(!log.is_empty()),
                        changes: &changes,
                        deferrable: false,
                    };
                    let group = subscribers[*who].0.submit(batch).unwrap();
                    prop_assert!(group >= last[*who], "batches of one never go back");
                    last[*who] = group;
                    expected.journal.extend_from_slice(&events);
                    expected.entries += u64::from(!log.is_empty());
                    expected.log_bytes += log.len() as u64;
                    expected.value = Some(stored);
                }
                Step::Changes(bytes) => {
                    let value = vec![byte; *bytes];
                    let change = Change::put(Table::Keys, *b"unowned", value.clone());
                    let mut commit = Box::pin(writer.commit_own(vec![change]));
                    // It is staged at its first poll.
                    runtime.block_on(async {
                        tokio::select! { biased; _ = &mut commit => {}, () = async {} => {} }
                    });
                    waiting.push(commit);
                    unowned = Some(value);
                }
                Step::Commit => drop(gate.permits.send(Permit::Go)),
            }
        }
        drop(gate.permits);
        runtime.block_on(writer.barrier()).unwrap();
        for (n, expected) in expected.iter().enumerate() {
            expected.check(&store, n, &subscribers[n].0)?;
        }
        prop_assert_eq!(store.get(Table::Keys, b"unowned").unwrap(), unowned);
        drop(waiting);
        writer.stop();
    }
}
