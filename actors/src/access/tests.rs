//! Tests that a save examines only the buckets that were used.

use super::*;
use crate::{EngineOptions, MasterKeys};
use postrider_domain::Timestamp;
use postrider_runtime::clock::Stopwatch;
use postrider_store::{Direction, Table};

const KEYS: usize = 50;

#[tokio::test(start_paused = true)]
async fn a_save_looks_at_used_buckets_until_they_are_full() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = EngineOptions {
        clock: clock.clone(),
        ..EngineOptions::in_memory(MasterKeys::single([7; 32]))
    };
    let engine = crate::Engine::start(options).await.unwrap();
    let id: WorkspaceId = "acme".parse().unwrap();
    engine.admin().create_workspace(id.clone(), String::new()).await.unwrap();
    let access = engine.access();
    let limits = LimitsOverride {
        key_requests_per_hour: Some(100),
        key_requests_per_minute: Some(10),
        ..LimitsOverride::default()
    };
    let new = NewKey { limits, ..NewKey::new("Shop", Scopes::all()) };
    let mut callers = Vec::new();
    for _ in 0..KEYS {
        let key = engine.admin().create_key(&id, new.clone()).await.unwrap();
        callers.push(access.authenticate(key.key.reveal()).unwrap());
    }
    let saved = || {
        let mut count = 0;
        let store = &access.inner.shared.store;
        store
            .scan(Table::Buckets, b"k", None, Direction::Forward, &mut |_, _| {
                count += 1;
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        count
    };
    let looked_at = || access.inner.used.lock().len();
    access.save_use().await;
    assert_eq!((looked_at(), saved()), (0, 0), "none was used");
    assert!(access.admit(&callers[3]).refused.is_none());
    assert!(access.admit(&callers[3]).refused.is_none());
    assert!(access.admit(&callers[7]).refused.is_none());
    assert_eq!(looked_at(), 2);
    access.save_use().await;
    assert_eq!((looked_at(), saved()), (2, 4), "two windows of each");
    assert_eq!(access.unsaved_use().buckets.len(), 4);
    // A revoked key leaves no bucket either.
    engine.admin().revoke_key(&id, callers[7].key_id).await.unwrap();
    clock.advance(Duration::from_secs(2 * 3600));
    access.save_use().await;
    assert_eq!((looked_at(), saved()), (0, 0), "all are full again");
}

#[tokio::test(start_paused = true)]
async fn a_last_use_is_written_once_a_minute() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = EngineOptions {
        clock: clock.clone(),
        ..EngineOptions::in_memory(MasterKeys::single([7; 32]))
    };
    let engine = crate::Engine::start(options).await.unwrap();
    let id: WorkspaceId = "acme".parse().unwrap();
    engine.admin().create_workspace(id.clone(), String::new()).await.unwrap();
    let access = engine.access();
    // The engine's own saves would come in between.
    while access.inner.saving.swap(true, Ordering::AcqRel) {
        tokio::task::yield_now().await;
    }
    let none = LimitsOverride {
        key_requests_per_hour: Some(0),
        key_requests_per_minute: Some(0),
        ..LimitsOverride::default()
    };
    let new = NewKey { limits: none, ..NewKey::new("Shop", Scopes::all()) };
    let key = engine.admin().create_key(&id, new).await.unwrap();
    let caller = access.authenticate(key.key.reveal()).unwrap();
    let writes = || access.inner.shared.writer.stats().batches;
    let before = writes();
    for minute in 1..=2 {
        for _ in 0..40 {
            assert!(access.admit(&caller).refused.is_none());
            access.save_use().await;
        }
        assert_eq!(writes(), before + minute, "one write for forty requests");
        clock.advance(MINUTE);
    }
    // A use that was noted before its key was revoked writes nothing after it. A use that a
    // save has written after the revocation is deleted.
    assert!(access.admit(&caller).refused.is_none());
    engine.admin().revoke_key(&id, key.info.id).await.unwrap();
    let late = vec![saved_use::put_last_use(key.info.id, clock.now())];
    access.inner.shared.writer.commit(late).await.unwrap();
    access.save_use().await;
    assert!(load_last_uses(access.inner.shared.store.as_ref()).unwrap().is_empty());
    let before = writes();
    access.save_use().await;
    assert_eq!(writes(), before);
}

#[tokio::test(start_paused = true)]
async fn what_is_saved_of_a_revoked_key_is_deleted_after_a_restart_too() {
    let store = postrider_store::MemoryStore::new();
    let start = async || {
        let options = EngineOptions {
            durability: crate::Durability::Custom(crate::CustomStore(Arc::new(store.clone()))),
            clock: Clock::manual(Timestamp::from_millis(1_700_000_000_000)),
            ..EngineOptions::in_memory(MasterKeys::single([7; 32]))
        };
        crate::Engine::start(options).await.unwrap()
    };
    let saved = || {
        use postrider_store::View;
        let mut count = 0;
        let mut visit = |_: &[u8], _: &[u8]| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        };
        store.scan(Table::Buckets, b"k", None, Direction::Forward, &mut visit).unwrap();
        count
    };
    // A save in the background may have taken the changes.
    let until_saved = async |expected: u32| {
        let watch = Stopwatch::start();
        while saved() != expected {
            assert!(watch.elapsed() < Duration::from_secs(60), "{} are saved", saved());
            tokio::time::sleep(Duration::from_millis(10)).await;
            std::thread::yield_now();
        }
    };
    let engine = start().await;
    let id: WorkspaceId = "acme".parse().unwrap();
    engine.admin().create_workspace(id.clone(), String::new()).await.unwrap();
    let new = NewKey::new("Shop", Scopes::all());
    let mut keys = Vec::new();
    for _ in 0..3 {
        let key = engine.admin().create_key(&id, new.clone()).await.unwrap();
        let caller = engine.access().authenticate(key.key.reveal()).unwrap();
        assert!(engine.access().admit(&caller).refused.is_none());
        keys.push(key);
    }
    engine.access().save_use().await;
    until_saved(3).await;
    engine.admin().revoke_key(&id, keys[0].info.id).await.unwrap();
    engine.access().save_use().await;
    // Long before it is full again.
    until_saved(2).await;
    // The engine stops after it has deleted a key, and before it deletes the key's buckets.
    let deletion = postrider_store::Change::delete(Table::Keys, *keys[1].info.id.as_bytes());
    engine.access().inner.shared.writer.commit(vec![deletion]).await.unwrap();
    drop(engine);
    let engine = start().await;
    engine.access().save_use().await;
    until_saved(1).await;
    assert!(engine.access().authenticate(keys[2].key.reveal()).is_some());
}
