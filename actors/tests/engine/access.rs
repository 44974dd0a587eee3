//! Keys and token buckets, over restarts.

use postrider_store::View;
use std::net::IpAddr;

use postrider_actors::{
    AdminError, Admission, BucketState, CreatedKey, NewAdminToken, NewKey, Secret,
};
use postrider_domain::{AuditContext, LimitsOverride, Scope, Scopes};
use postrider_store::{Keep, Table};

use super::*;

const PER_MINUTE: u32 = 6;

/// Returns limits by the hour and by the minute. The usual ones are none by the hour and six a
/// minute.
fn limits(per_hour: u32, per_minute: u32) -> LimitsOverride {
    LimitsOverride {
        key_requests_per_hour: Some(per_hour),
        key_requests_per_minute: Some(per_minute),
        ..LimitsOverride::default()
    }
}

async fn key(engine: &Engine, over: LimitsOverride) -> CreatedKey {
    let new = NewKey { limits: over, ..NewKey::new("ours", Scopes::default()) };
    engine.admin().create_key(&id("acme"), new).await.unwrap()
}

fn take(engine: &Engine, key: &Secret) -> Admission {
    let caller = engine.access().authenticate(key.reveal()).unwrap();
    engine.access().admit(&caller)
}

fn bucket(engine: &Engine, key: &Secret) -> BucketState {
    take(engine, key).bucket.unwrap()
}

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

async fn rig() -> (CrashingStore, Engine) {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    workspace(&engine, "acme", 10).await;
    engine.admin().set_limits(&id("acme"), limits(0, PER_MINUTE)).await.unwrap();
    (store, engine)
}

#[tokio::test(start_paused = true)]
async fn a_key_works_and_is_revoked_at_once_and_for_good() {
    let (store, engine) = rig().await;
    let new = NewKey::new("ours", [Scope::ContactsRead].into_iter().collect());
    let made = engine.admin().create_key(&id("acme"), new).await.unwrap();
    // Ids of one millisecond come in no order.
    engine.clock().advance(Duration::from_millis(1));
    let other = key(&engine, LimitsOverride::default()).await;
    let caller = engine.access().authenticate(made.key.reveal()).unwrap();
    assert_eq!((caller.key_id, caller.workspace.id()), (made.info.id, &id("acme")));
    assert!(caller.scopes.contains(Scope::ContactsRead));
    assert!(!caller.scopes.contains(Scope::MessagingSend));
    assert!(made.key.reveal().starts_with(&made.info.prefix));
    assert_eq!(format!("{:?}", made.key), "Secret(…)");
    let listed = engine.admin().keys(&id("acme")).await.unwrap();
    assert_eq!(listed, [made.info.clone(), other.info.clone()]);
    for bad in ["", "pr_", &made.key.reveal()[1..], &format!("{}x", made.key.reveal())] {
        assert!(engine.access().authenticate(bad).is_none(), "{bad}");
    }

    let unknown = engine.admin().revoke_key(&id("b"), made.info.id).await;
    assert_eq!(unknown, Err(AdminError::NoSuchWorkspace));
    engine.admin().revoke_key(&id("acme"), made.info.id).await.unwrap();
    assert!(engine.access().authenticate(made.key.reveal()).is_none());
    let again = engine.admin().revoke_key(&id("acme"), made.info.id).await;
    assert_eq!(again, Err(AdminError::NoSuchKey));

    let store = store.crash(Keep::Nothing);
    let engine = super::engine(&store, START).await;
    assert!(engine.access().authenticate(made.key.reveal()).is_none());
    assert!(engine.access().authenticate(other.key.reveal()).is_some());
    assert_eq!(engine.admin().keys(&id("acme")).await.unwrap(), [other.info]);
}

#[tokio::test(start_paused = true)]
async fn another_workspaces_key_is_no_key() {
    let (_, engine) = rig().await;
    workspace(&engine, "b", 10).await;
    let ours = key(&engine, LimitsOverride::default()).await;
    let theirs = engine.admin().revoke_key(&id("b"), ours.info.id).await;
    assert_eq!(theirs, Err(AdminError::NoSuchKey));
    assert!(engine.access().authenticate(ours.key.reveal()).is_some());
    assert_eq!(engine.admin().keys(&id("b")).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn no_key_is_stored_in_clear() {
    let (store, engine) = rig().await;
    let made = key(&engine, LimitsOverride::default()).await;
    let record = store.get(Table::Keys, made.info.id.as_bytes()).unwrap().unwrap();
    let record = String::from_utf8(record).unwrap();
    assert!(record.contains("ours"));
    assert!(!record.contains(&made.key.reveal()[8..]), "{record}");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_is_as_it_was_after_a_clean_restart() {
    let (store, first) = rig().await;
    let made = key(&first, LimitsOverride::default()).await;
    for left in [5, 4, 3] {
        assert_eq!(bucket(&first, &made.key).remaining, left);
    }
    first.shutdown(LONG).await.unwrap();
    let second = engine(&store, START.plus(Duration::from_secs(10))).await;
    let state = bucket(&second, &made.key);
    assert_eq!(state.remaining, 3, "one came back in ten seconds, and one was taken");
    assert_eq!(state.full_at, START.plus(Duration::from_secs(40)));
    assert_eq!((state.limit, state.window_s), (PER_MINUTE, 60));
    second.shutdown(LONG).await.unwrap();
    let third = engine(&store, START.plus(Duration::from_secs(600))).await;
    assert_eq!(bucket(&third, &made.key).remaining, 5, "full again, and not above");
}

#[tokio::test(start_paused = true)]
async fn a_crash_forgets_no_more_than_the_last_beat() {
    let (store, first) = rig().await;
    let made = key(&first, LimitsOverride::default()).await;
    for _ in 0..3 {
        assert_eq!(take(&first, &made.key).refused, None);
        assert_eq!(first.access().admit_address(address(1)).refused, None);
    }
    let commits = store.commits();
    until("a beat has saved it", async || store.commits() > commits).await;
    assert_eq!(take(&first, &made.key).refused, None);
    let store = store.crash(Keep::Nothing);
    drop(first);
    let second = engine(&store, START).await;
    assert_eq!(bucket(&second, &made.key).remaining, PER_MINUTE - 4);
    let mut left = 0;
    while second.access().admit_address(address(1)).refused.is_none() {
        left += 1;
    }
    assert_eq!(left, 60 - 3);
}

#[tokio::test(start_paused = true)]
async fn an_empty_bucket_refuses_and_says_how_long() {
    let (_, engine) = rig().await;
    let made = key(&engine, LimitsOverride::default()).await;
    for _ in 0..PER_MINUTE {
        assert_eq!(take(&engine, &made.key).refused, None);
    }
    assert_eq!(take(&engine, &made.key).refused, Some(Duration::from_secs(10)));
    assert_eq!(take(&engine, &made.key).refused, Some(Duration::from_secs(10)), "it takes none");
    engine.clock().advance(Duration::from_millis(9_999));
    assert_eq!(take(&engine, &made.key).refused, Some(Duration::from_millis(1)));
    engine.clock().advance(Duration::from_millis(1));
    assert_eq!(take(&engine, &made.key).refused, None);
}

#[tokio::test(start_paused = true)]
async fn changed_limits_apply_to_what_was_used() {
    let (_, engine) = rig().await;
    let made = key(&engine, LimitsOverride::default()).await;
    let set = |per_hour, per_minute| {
        let over = limits(per_hour, per_minute);
        let engine = engine.clone();
        async move { engine.admin().set_limits(&id("acme"), over).await.unwrap() }
    };
    for _ in 0..3 {
        assert_eq!(take(&engine, &made.key).refused, None);
    }
    set(0, 60).await;
    assert_eq!(bucket(&engine, &made.key).remaining, 29, "half of it was used");
    set(2, 60).await;
    assert_eq!(bucket(&engine, &made.key).limit, 60, "the one with the least share left");
    assert_eq!(bucket(&engine, &made.key).limit, 2, "and now this one has it");
    let refused = take(&engine, &made.key).refused;
    assert_eq!(refused, Some(Duration::from_secs(1800)), "the hour is used up, the minute is not");
    set(0, 0).await;
    let Admission { refused, bucket } = take(&engine, &made.key);
    assert_eq!((refused, bucket), (None, None), "no limit is on");
}

#[tokio::test(start_paused = true)]
async fn a_key_has_limits_of_its_own() {
    let (store, first) = rig().await;
    let own = key(&first, limits(0, 2)).await;
    let none = key(&first, limits(0, 0)).await;
    let plain = key(&first, LimitsOverride::default()).await;
    first.admin().set_limits(&id("acme"), limits(0, 10)).await.unwrap();
    for engine in [first.clone(), {
        first.shutdown(LONG).await.unwrap();
        engine(&store, START).await
    }] {
        assert_eq!(bucket(&engine, &own.key).limit, 2);
        assert_eq!(take(&engine, &none.key).bucket, None);
        assert_eq!(bucket(&engine, &plain.key).limit, 10);
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_has_a_bucket_whatever_keys_do() {
    let (_, engine) = rig().await;
    let made = key(&engine, LimitsOverride::default()).await;
    for _ in 0..60 {
        assert_eq!(engine.access().admit_address(address(1)).refused, None);
    }
    let refused = engine.access().admit_address(address(1));
    assert_eq!(refused.refused, Some(Duration::from_secs(1)));
    assert_eq!(refused.bucket.unwrap().remaining, 0);
    assert_eq!(engine.access().admit_address(address(2)).refused, None);
    assert_eq!(take(&engine, &made.key).refused, None, "a good key is not refused for it");
}

#[tokio::test(start_paused = true)]
async fn full_buckets_are_not_kept() {
    let (store, engine) = rig().await;
    let made = key(&engine, LimitsOverride::default()).await;
    assert_eq!(take(&engine, &made.key).refused, None);
    assert_eq!(engine.access().admit_address(address(1)).refused, None);
    let saved = || {
        let mut count = 0;
        let visit = &mut |name: &[u8], _: &[u8]| {
            // A last use is no bucket, and stays.
            count += usize::from(!name.starts_with(b"u"));
            std::ops::ControlFlow::Continue(())
        };
        store.scan(Table::Buckets, &[], None, postrider_store::Direction::Forward, visit).unwrap();
        count
    };
    until("both are saved", async || saved() == 2).await;
    engine.clock().advance(Duration::from_secs(60));
    until("neither is kept", async || saved() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_ends_when_it_expires_and_after_a_restart_too() {
    let (store, engine) = rig().await;
    let expires_at = Some(START.plus(Duration::from_secs(60)));
    let new = NewKey { expires_at, ..NewKey::new("short", Scopes::all()) };
    let made = engine.admin().create_key(&id("acme"), new).await.unwrap();
    assert_eq!(made.info.expires_at, expires_at);
    engine.clock().advance(Duration::from_millis(59_999));
    assert!(engine.access().authenticate(made.key.reveal()).is_some());
    engine.clock().advance(Duration::from_millis(1));
    assert!(engine.access().authenticate(made.key.reveal()).is_none());
    assert_eq!(engine.admin().keys(&id("acme")).await.unwrap(), [made.info], "it is listed");
    let store = store.crash(Keep::Nothing);
    let engine = super::engine(&store, START.plus(Duration::from_secs(60))).await;
    assert!(engine.access().authenticate(made.key.reveal()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_last_use_is_kept_to_the_minute_over_a_crash_and_goes_with_its_key() {
    let (store, engine) = rig().await;
    let made = key(&engine, limits(0, 0)).await;
    let last_use =
        async |engine: &Engine| engine.admin().keys(&id("acme")).await.unwrap()[0].last_used_at;
    assert_eq!(last_use(&engine).await, None);
    take(&engine, &made.key);
    engine.clock().advance(Duration::from_secs(60));
    let minute = Timestamp::from_millis(engine.clock().now().as_millis() / 60_000 * 60_000);
    take(&engine, &made.key);
    assert_eq!(last_use(&engine).await, Some(minute));
    engine.shutdown(LONG).await.unwrap();
    let store = store.crash(Keep::Nothing);
    let engine = super::engine(&store, START.plus(Duration::from_secs(60))).await;
    assert_eq!(last_use(&engine).await, Some(minute));
    engine.admin().revoke_key(&id("acme"), made.info.id).await.unwrap();
    engine.shutdown(LONG).await.unwrap();
    let mut rows = 0;
    let mut count = |_: &[u8], _: &[u8]| {
        rows += 1;
        std::ops::ControlFlow::Continue(())
    };
    let forward = postrider_store::Direction::Forward;
    store.scan(Table::Buckets, b"u", None, forward, &mut count).unwrap();
    assert_eq!(rows, 0);
}

#[tokio::test(start_paused = true)]
async fn admin_tokens_are_made_and_revoked_at_once_and_for_good() {
    let (store, engine) = rig().await;
    let token = |name: &str, expires_at| NewAdminToken { name: name.to_owned(), expires_at };
    let kept = engine.access().create_admin_token(token("kept", None), system()).await.unwrap();
    engine.clock().advance(Duration::from_millis(1));
    let end = engine.clock().now().plus(Duration::from_secs(60));
    let short =
        engine.access().create_admin_token(token("short", Some(end)), system()).await.unwrap();
    engine.clock().advance(Duration::from_millis(1));
    let revoked =
        engine.access().create_admin_token(token("revoked", None), system()).await.unwrap();
    let is = |engine: &Engine, token: &Secret| engine.access().authenticate_admin(token.reveal());
    assert_eq!(is(&engine, &kept.token), Some(kept.info.clone()));
    assert!(engine.access().authenticate(kept.token.reveal()).is_none(), "it is no key");
    assert!(engine.access().authenticate_admin(&kept.token.reveal()[1..]).is_none());
    assert!(engine.access().revoke_admin_token(revoked.info.id, system()).await.unwrap());
    assert_eq!(is(&engine, &revoked.token), None);
    assert!(!engine.access().revoke_admin_token(revoked.info.id, system()).await.unwrap());
    assert_eq!(engine.access().admin_tokens(), [kept.info.clone(), short.info.clone()]);
    let store = store.crash(Keep::Nothing);
    let engine = super::engine(&store, START).await;
    assert_eq!(is(&engine, &kept.token), Some(kept.info));
    assert!(is(&engine, &short.token).is_some() && is(&engine, &revoked.token).is_none());
    engine.clock().advance(Duration::from_secs(61));
    assert_eq!(is(&engine, &short.token), None);
}

/// A context in which nobody in particular makes the change.
fn system() -> Arc<AuditContext> {
    Arc::new(AuditContext::system())
}
