//! Tests of failed commits, panics and the end of the writer.

use crate::Group;
use crate::{CrashOutcome, CrashingStore, Frame, Keep, Section, Table};

use super::gated::{Permit, gated};
use super::*;

#[test]
fn a_failure_fails_all_that_waits_and_is_recovered_from() {
    for outcome in [CrashOutcome::Lost, CrashOutcome::Kept, CrashOutcome::Unsynced] {
        let store = CrashingStore::new();
        store.fail_after(2, outcome);
        let writer = Writer::start(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        let (lucky, _lucky_heard) = subscribe(&writer, "lucky");
        let (subscriber, heard) = subscribe(&writer, "acme");
        subscriber.submit(events(b"1")).unwrap();
        heard.recv().unwrap().1.unwrap();
        store.fail_next_reopens(1);
        subscriber.submit(events(b"2")).unwrap();
        let (_, result) = heard.recv().unwrap();
        assert!(matches!(result, Err(CommitError::Store(_))), "{result:?}");
        // Its state is not the durable one: it is refused for good, whether the store is open or
        // not.
        let refused = subscriber.submit(events(b"3"));
        assert!(matches!(refused, Err(CommitError::Store(_))), "{refused:?}");
        while !writer.is_healthy() {
            std::thread::yield_now();
        }
        let refused = subscriber.submit(events(b"3"));
        assert!(matches!(refused, Err(CommitError::Store(_))), "{refused:?}");
        let (again, heard) = subscribe(&writer, "acme");
        again.submit(events(b"4")).unwrap();
        heard.recv().unwrap().1.unwrap();
        // Subscribers without a batch in that group continue.
        lucky.submit(events(b"5")).unwrap();
        writer.stop();
        let expected: &[u8] = if outcome == CrashOutcome::Lost { b"14" } else { b"124" };
        assert_eq!(journal_of(&store, "acme"), expected, "{outcome:?}");
        assert_eq!(journal_of(&store.crash(Keep::Nothing), "acme"), expected, "{outcome:?}");
        assert_eq!(journal_of(&store.crash(Keep::Nothing), "lucky"), b"5");
    }
}

#[tokio::test]
async fn a_failure_reaches_every_group_behind_it_once() {
    let (store, gate) = gated();
    let writer = gate.start(&store, WriterOptions::default());
    let (first, first_heard) = subscribe(&writer, "first");
    let (second, second_heard) = subscribe(&writer, "second");
    // A frame with this number already exists, so the commit is refused.
    let section = Section { workspace: "x".parse().unwrap(), events: vec![1] };
    let frame = Frame { epoch: 0, number: Position(1), sections: vec![section] };
    store.inner.commit(Group::new(Some(&frame), &[])).unwrap();
    let started = first.submit(events(b"0")).unwrap();
    gate.entered.recv().unwrap();
    let bytes = vec![7; 16_000];
    let mut groups = Vec::new();
    for _ in 0..6 {
        groups.push(second.submit(events(&bytes)).unwrap());
    }
    groups.dedup();
    assert_eq!(groups, [started + 1, started + 2, started + 3]);
    let barrier = tokio::spawn({
        let writer = writer.clone();
        async move { writer.barrier().await }
    });
    tokio::task::yield_now().await;
    drop(gate.permits);
    assert!(matches!(barrier.await.unwrap(), Err(CommitError::Store(_))));
    let notified = |heard: &Heard| {
        let results = heard.try_iter().inspect(|(_, result)| assert!(result.is_err()));
        results.map(|(group, _)| group).collect::<Vec<_>>()
    };
    assert_eq!(notified(&first_heard), [started]);
    assert_eq!(notified(&second_heard), groups);
    writer.stop();
    assert_eq!(journal_of(&*store, "first"), b"");
}

#[test]
fn stopping_finishes_what_is_queued() {
    let (store, gate) = gated();
    let writer = gate.start(&store, WriterOptions::default());
    let (subscriber, heard) = subscribe(&writer, "acme");
    subscriber.submit(events(b"0")).unwrap();
    gate.entered.recv().unwrap();
    subscriber.submit(events(b"1")).unwrap();
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| writer.stop());
        while subscriber.submit(events(b"")) != Err(CommitError::Closed) {
            std::thread::yield_now();
        }
        assert!(!stopped.is_finished());
        drop(gate.permits);
    });
    writer.stop();
    assert!(heard.try_iter().all(|(_, result)| result == Ok(())));
    assert_eq!(journal_of(&*store, "acme"), b"01");
    assert_eq!(subscriber.submit(events(b"2")), Err(CommitError::Closed));
    assert!(!writer.is_healthy());
}

#[test]
fn stopping_does_not_wait_for_a_failed_store() {
    let store = CrashingStore::new();
    store.fail_after(1, CrashOutcome::Lost);
    let writer = Writer::start(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    store.fail_next_reopens(usize::MAX);
    let (subscriber, heard) = subscribe(&writer, "acme");
    subscriber.submit(events(b"0")).unwrap();
    heard.recv().unwrap().1.unwrap_err();
    writer.stop();
}

#[test]
fn dropping_the_last_writer_ends_the_thread() {
    let writer = Writer::start(Arc::new(MemoryStore::new()), WriterOptions::default()).unwrap();
    let (subscriber, _heard) = subscribe(&writer, "acme");
    drop(writer.clone());
    subscriber.submit(events(b"0")).unwrap();
    drop(writer);
    assert_eq!(subscriber.submit(events(b"0")), Err(CommitError::Closed));
}

#[tokio::test]
async fn a_panicking_store_leaves_nobody_waiting() {
    let (store, gate) = gated();
    let writer = gate.start(&store, WriterOptions::default());
    let (subscriber, heard) = subscribe(&writer, "acme");
    subscriber.submit(events(b"0")).unwrap();
    gate.entered.recv().unwrap();
    subscriber.submit(events(b"1")).unwrap();
    let commit = tokio::spawn({
        let writer = writer.clone();
        async move { writer.commit(vec![Change::put(Table::Keys, *b"k", *b"v")]).await }
    });
    tokio::task::yield_now().await;
    gate.permits.send(Permit::Panic).unwrap();
    assert_eq!(heard.recv().unwrap().1, Err(CommitError::Closed));
    assert_eq!(heard.recv().unwrap().1, Err(CommitError::Closed));
    assert_eq!(commit.await.unwrap(), Err(CommitError::Closed));
    assert_eq!(writer.barrier().await, Err(CommitError::Closed));
    assert!(!writer.is_healthy());
    writer.stop();
}

#[tokio::test]
async fn a_panicking_notification_harms_nobody_else() {
    let writer = Writer::start(Arc::new(MemoryStore::new()), WriterOptions::default()).unwrap();
    let bad = writer.subscribe("bad".parse().unwrap(), Box::new(|_, _| panic!("a bad subscriber")));
    let (good, heard) = subscribe(&writer, "good");
    bad.submit(events(b"0")).unwrap();
    good.submit(events(b"0")).unwrap();
    heard.recv().unwrap().1.unwrap();
    writer.barrier().await.unwrap();
    assert!(writer.is_healthy());
}
