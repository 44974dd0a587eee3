//! Tests of the group commit: order, grouping, bounds and notifications.

mod failures;
mod fair;
mod gated;

use std::ops::ControlFlow;
use std::sync::mpsc;

use super::*;
use crate::log::Log;
use crate::log::frame::FRAME_BYTES_MAX;
use crate::{Frame, Group, LogChunk, MemoryStore, Table, event_log_key, scan_event_log};
use gated::{Permit, gated};

type Heard = mpsc::Receiver<(GroupNumber, Result<(), CommitError>)>;

fn subscribe(writer: &Writer, workspace: &str) -> (Subscriber, Heard) {
    let (sender, heard) = mpsc::channel();
    let notify = move |group, result| drop(sender.send((group, result)));
    (writer.subscribe(workspace.parse().unwrap(), Box::new(notify)), heard)
}

fn events(events: &[u8]) -> Batch<'_> {
    Batch { events, ..Batch::default() }
}

/// Returns all events of a workspace in the order of the journal.
fn journal_of(store: &dyn Store, workspace: &str) -> Vec<u8> {
    let mut all = Vec::new();
    let mut last = Position::START;
    store
        .read(Position::START, &mut |frame| {
            assert!(frame.number > last);
            last = frame.number;
            let sections = frame.sections.iter().filter(|it| it.workspace.as_str() == workspace);
            sections.for_each(|section| all.extend_from_slice(&section.events));
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

#[tokio::test]
async fn what_is_acknowledged_is_in_the_store() {
    let store = MemoryStore::new();
    let writer = Writer::start(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let (subscriber, heard) = subscribe(&writer, "acme");
    let key: &[u8] = b"k";
    let changes = [ChangeRef { table: Table::Keys, key, value: Some(b"v") }];
    let batch = Batch { changes: &changes, ..events(b"event") };
    let group = subscriber.submit(batch).unwrap();
    assert_eq!(heard.recv().unwrap(), (group, Ok(())));
    assert_eq!(store.get(Table::Keys, b"k"), Ok(Some(b"v".to_vec())));
    assert_eq!(journal_of(&store, "acme"), b"event");
    assert_eq!(writer.last_position(), Position(1));
    writer.commit(vec![Change::delete(Table::Keys, *b"k")]).await.unwrap();
    assert_eq!(store.get(Table::Keys, b"k"), Ok(None));
    assert_eq!(writer.last_position(), Position(1), "no frame without events");
    assert!(writer.is_healthy());
    assert_eq!((writer.stats().groups, writer.stats().batches), (2, 2));
}

#[test]
fn the_epoch_rises_with_each_start() {
    let store = MemoryStore::new();
    for epoch in 1..=3 {
        let writer = Writer::start(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        let (subscriber, heard) = subscribe(&writer, "acme");
        subscriber.submit(events(b"e")).unwrap();
        heard.recv().unwrap().1.unwrap();
        writer.stop();
        let mut seen = 0;
        let mut visit = |frame: Frame| {
            seen = frame.epoch;
            ControlFlow::Continue(())
        };
        store.read(Position::START, &mut visit).unwrap();
        assert_eq!(seen, epoch);
    }
    assert_eq!(journal_of(&store, "acme"), b"eee");
}

#[test]
fn what_waits_becomes_one_commit_and_one_notification() {
    let (store, gate) = gated();
    let writer = gate.start(&store, WriterOptions::default());
    let (first, first_heard) = subscribe(&writer, "first");
    let (second, second_heard) = subscribe(&writer, "second");
    let started = first.submit(events(b"0")).unwrap();
    gate.entered.recv().unwrap();
    let mut groups = Vec::new();
    for at in 1..=100u8 {
        groups.push(first.submit(events(&[at])).unwrap());
        groups.push(second.submit(events(&[at])).unwrap());
    }
    assert!(groups.iter().all(|&group| group == started + 1), "{groups:?}");
    assert!(first_heard.try_recv().is_err(), "nothing is durable yet");
    drop(gate.permits);
    writer.stop();
    assert_eq!(store.hook.commits.load(Ordering::Relaxed), 3, "the epoch, two groups");
    let durable = |group| (group, Ok(()));
    assert_eq!(
        first_heard.try_iter().collect::<Vec<_>>(),
        [durable(started), durable(started + 1)]
    );
    assert_eq!(second_heard.try_iter().collect::<Vec<_>>(), [durable(started + 1)]);
    let expected: Vec<u8> = (1..=100).collect();
    assert_eq!(journal_of(&*store, "second"), expected);
    assert_eq!(store.last_position(), Ok(Position(2)));
    assert_eq!(writer.stats(), WriterStats { groups: 2, batches: 201, ..writer.stats() });
}

#[test]
fn concurrent_submits_keep_each_ones_order() {
    let store = MemoryStore::new();
    let writer = Writer::start(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let writer = &writer;
            scope.spawn(move || {
                let (subscriber, heard) = subscribe(writer, name);
                let mut last = 0;
                for at in 0..5_000u32 {
                    let group = subscriber.submit(events(&at.to_be_bytes())).unwrap();
                    assert!(group >= last);
                    last = group;
                }
                let mut notified = 0;
                while notified != last {
                    let (group, result) = heard.recv().unwrap();
                    assert!(group > notified, "{group} after {notified}");
                    notified = group;
                    result.unwrap();
                }
            });
        }
    });
    let expected: Vec<u8> = (0..5_000u32).flat_map(u32::to_be_bytes).collect();
    for name in ["a", "b", "c"] {
        assert!(journal_of(&store, name) == expected, "{name}");
    }
}

#[test]
fn the_last_change_of_a_record_holds() {
    let (store, gate) = gated();
    let writer = gate.start(&store, WriterOptions::default());
    let (subscriber, _heard) = subscribe(&writer, "acme");
    subscriber.submit(events(b"0")).unwrap();
    gate.entered.recv().unwrap();
    for value in ["one", "two", "three"] {
        let change = |key: &'static [u8], value| ChangeRef { table: Table::Keys, key, value };
        let changes = [change(b"k", Some(value.as_bytes())), change(b"gone", Some(b"x"))];
        subscriber.submit(Batch { changes: &changes, ..Batch::default() }).unwrap();
    }
    let deleted = [ChangeRef { table: Table::Keys, key: b"gone", value: None }];
    subscriber.submit(Batch { changes: &deleted, ..Batch::default() }).unwrap();
    drop(gate.permits);
    writer.stop();
    assert_eq!(store.get(Table::Keys, b"k"), Ok(Some(b"three".to_vec())));
    assert_eq!(store.get(Table::Keys, b"gone"), Ok(None));
}

#[test]
fn a_group_never_passes_a_frame() {
    let (store, gate) = gated();
    let writer = gate.start(&store, WriterOptions::default());
    let (first, _heard) = subscribe(&writer, "first");
    let (second, second_heard) = subscribe(&writer, "second");
    let started = first.submit(events(b"0")).unwrap();
    gate.entered.recv().unwrap();
    let bytes = vec![7; 1000];
    let mut last = started;
    for _ in 0..1000 {
        last = first.submit(events(&bytes)).unwrap().max(second.submit(events(&bytes)).unwrap());
    }
    drop(gate.permits);
    writer.stop();
    // 261 batches of 1,000 bytes fill a frame.
    assert_eq!(last - started, 8);
    assert_eq!(second_heard.try_iter().count(), 8);
    assert_eq!(journal_of(&*store, "first").len(), 1_000_001);
    let mut frames = 0;
    store
        .read(Position::START, &mut |frame| {
            let mut bytes = Vec::new();
            frame.encode_into(&mut bytes);
            assert!(bytes.len() <= FRAME_BYTES_MAX);
            frames += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(frames, 9);
}

#[test]
fn a_group_that_is_used_again_is_empty() {
    let (store, gate) = gated();
    let writer = gate.start(&store, WriterOptions::default());
    let (subscriber, _heard) = subscribe(&writer, "acme");
    let bytes = vec![7; 16_000];
    subscriber.submit(events(b"0")).unwrap();
    for _ in 0..6 {
        gate.entered.recv().unwrap();
        let [one, other] = [(); 2].map(|()| subscriber.submit(events(&bytes)).unwrap());
        assert_eq!(one, other, "both fit into one group");
        gate.permits.send(Permit::Go).unwrap();
    }
    drop(gate.permits);
    writer.stop();
    assert_eq!(journal_of(&*store, "acme").len(), 192_001);
}

#[test]
fn a_batch_fills_a_frame_or_is_too_large() {
    let store = MemoryStore::new();
    let options = WriterOptions { queued_bytes_max: 1 << 20 };
    let writer = Writer::start(Arc::new(store.clone()), options).unwrap();
    let (subscriber, heard) = subscribe(&writer, "acme");
    let bytes = vec![7; FRAME_BYTES_MAX];
    let most = FRAME_BYTES_MAX - 20 - 5 - "acme".len();
    assert_eq!(subscriber.submit(events(&bytes[..=most])), Err(CommitError::TooLarge));
    subscriber.submit(events(&bytes[..most])).unwrap();
    heard.recv().unwrap().1.unwrap();
    assert_eq!(journal_of(&store, "acme").len(), most);
    let value = vec![0; 1 << 20];
    let changes = [ChangeRef { table: Table::Keys, key: b"k", value: Some(&value) }];
    let batch = Batch { changes: &changes, ..Batch::default() };
    assert_eq!(subscriber.submit(batch), Err(CommitError::TooLarge));
}

#[tokio::test]
async fn a_full_queue_refuses_and_takes_again_later() {
    let (store, gate) = gated();
    let writer = gate.start(&store, WriterOptions { queued_bytes_max: 10_000 });
    let (subscriber, heard) = subscribe(&writer, "acme");
    subscriber.submit(events(b"0")).unwrap();
    gate.entered.recv().unwrap();
    let mut queued = 0;
    while writer.has_room() {
        subscriber.submit(events(&[1; 100])).unwrap();
        queued += 1;
    }
    assert!((35..75).contains(&queued), "three quarters are for commands: {queued}");
    let one = || vec![Change::put(Table::Keys, *b"k", vec![0; 3000])];
    assert_eq!(writer.commit(one()).await, Err(CommitError::Full));
    // A change that is already part of a state is never refused, nor a write of the engine.
    for _ in 0..100 {
        subscriber.submit(events(&[1; 100])).unwrap();
        queued += 1;
    }
    let must = tokio::spawn({
        let writer = writer.clone();
        async move { writer.commit_own(one()).await }
    });
    tokio::task::yield_now().await;
    drop(gate.permits);
    writer.barrier().await.unwrap();
    must.await.unwrap().unwrap();
    assert_eq!(heard.try_iter().count(), 2);
    // The group's bytes are released shortly after its notifications. A barrier settles after that.
    writer.barrier().await.unwrap();
    assert!(writer.has_room());
    subscriber.submit(events(&[1; 100])).unwrap();
    writer.stop();
    assert_eq!(journal_of(&*store, "acme").len(), 1 + 100 * (queued + 1));
}

#[test]
fn the_event_log_goes_in_chunks() {
    let (store, gate) = gated();
    let writer = gate.start(&store, WriterOptions::default());
    let (subscriber, _heard) = subscribe(&writer, "acme");
    let (other, _other_heard) = subscribe(&writer, "acme-2");
    let log = |log, log_first, log_count| Batch { log, log_first, log_count, ..Batch::default() };
    other.submit(log(b"other", 1, 1)).unwrap();
    gate.entered.recv().unwrap();
    subscriber.submit(Batch { log_before: 258, ..log(b"one", 1, 1) }).unwrap();
    subscriber.submit(log(b"two,three", 2, 2)).unwrap();
    // It does not follow the last one: a chunk has no gaps.
    subscriber.submit(log(b"ten", 10, 1)).unwrap();
    let large = vec![b'x'; 40_000];
    subscriber.submit(log(&large, 11, 1)).unwrap();
    subscriber.submit(log(&large, 12, 1)).unwrap();
    drop(gate.permits);
    writer.stop();
    let chunk = store.get(Table::Events, &event_log_key(subscriber.workspace(), 1)).unwrap();
    assert_eq!(chunk.unwrap(), b"\0\0\0\x03\0\0\0\0\0\0\x01\x02onetwo,three");
    let firsts = |from| {
        let mut firsts = Vec::new();
        let mut visit = |chunk: LogChunk| {
            firsts.push((chunk.first, chunk.count));
            ControlFlow::Continue(())
        };
        scan_event_log(&*store, subscriber.workspace(), from, &mut visit).unwrap();
        firsts
    };
    let all = [(1, 3), (10, 2), (12, 1)];
    for (from, skipped) in [(0, 0), (1, 0), (3, 0), (4, 1), (10, 1), (11, 1), (12, 2), (13, 3)] {
        assert_eq!(firsts(from), all[skipped..], "from {from}");
    }
}

/// A deferrable batch is committed without a waiting caller, together with later batches.
#[tokio::test]
async fn patient_batches_wait_for_company() {
    let store = Arc::new(MemoryStore::new());
    let writer = Writer::start(store, WriterOptions::default()).unwrap();
    let (sender, mut settled) = tokio::sync::mpsc::unbounded_channel();
    let notify = move |group, result| sender.send((group, result)).unwrap();
    let subscriber = writer.subscribe("acme".parse().unwrap(), Box::new(notify));
    let deferrable = Batch { deferrable: true, ..events(b"deferrable") };
    let first = subscriber.submit(deferrable).unwrap();
    assert_eq!(settled.recv().await, Some((first, Ok(()))), "alone, after a moment");
    let second = subscriber.submit(deferrable).unwrap();
    subscriber.hurry();
    assert_eq!(settled.recv().await, Some((second, Ok(()))), "at once, when hurried");
    let third = subscriber.submit(deferrable).unwrap();
    let with = subscriber.submit(events(b"urgent")).unwrap();
    assert!(with >= third, "in the order of the calls");
    while settled.recv().await.unwrap().0 < with {}
    subscriber.submit(deferrable).unwrap();
    writer.stop();
    assert!(settled.recv().await.is_some(), "before the end");
}

#[test]
fn the_moment_is_stored_as_ever() {
    let at = Timestamp::from_millis(1_700_000_000_123);
    assert_eq!(encode_moment(at), [1, 0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0x7b]);
    let store = MemoryStore::new();
    assert_eq!(last_moment(&store), Ok(None));
    let put = |value: [u8; 9]| Change::put(Table::Meta, LAST_MOMENT, value);
    store.commit(Group::new(None, &[put(encode_moment(at))])).unwrap();
    assert_eq!(last_moment(&store), Ok(Some(at)));
    store.commit(Group::new(None, &[put([2; 9])])).unwrap();
    assert!(last_moment(&store).is_err());
}
