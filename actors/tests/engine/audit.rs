//! The audit log: with its change or not at all, kept for a time, and named callers.

use postrider_actors::store::Direction;
use postrider_actors::{AuditFilter, AuditOptions, AuditRow, EngineOptions};
use postrider_domain::{ActorKind, AuditActor, AuditContext};
use postrider_store::{CrashOutcome, Keep};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn records(engine: &Engine) -> Vec<AuditRow> {
    let filter = AuditFilter::default();
    engine.audit().page(filter, Direction::Forward, None, 1000).await.unwrap().rows
}

async fn actions(engine: &Engine) -> Vec<String> {
    records(engine).await.into_iter().map(|row| row.record.action.into()).collect()
}

fn ada() -> Arc<AuditContext> {
    let actor = AuditActor {
        kind: ActorKind::AdminToken,
        id: Some("tok_1".into()),
        name: Some("ada".into()),
    };
    let (address, request_id) = (Some("192.0.2.7".into()), Some("req_1".into()));
    Arc::new(AuditContext { actor, address, request_id })
}

#[tokio::test(start_paused = true)]
async fn a_change_is_recorded_as_its_callers() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 10).await;
    engine.admin().by(ada()).add_credits(&id("acme"), 5).await.unwrap();
    acme.by(ada()).open_email().await.unwrap();
    acme.close_email().await.unwrap();
    let rows = records(&engine).await;
    let listed: Vec<_> = rows
        .iter()
        .map(|row| (&*row.record.action, row.record.actor.name.as_deref().unwrap_or("-")))
        .collect();
    let expected = [
        ("server.start", "-"),
        ("workspace.create", "-"),
        ("credits.set", "-"),
        ("number.connect", "-"),
        ("credits.add", "ada"),
        ("email.open", "ada"),
        ("email.close", "-"),
    ];
    assert_eq!(listed, expected);
    let added = &rows[4].record;
    assert_eq!(added.workspace, Some(id("acme")));
    assert_eq!(added.address.as_deref(), Some("192.0.2.7"));
    assert_eq!(added.changes["add"], 5);
    assert_eq!(rows[6].record.actor.kind, ActorKind::System);
}

#[tokio::test(start_paused = true)]
async fn a_record_is_durable_exactly_when_its_change_is() {
    for outcome in [CrashOutcome::Lost, CrashOutcome::Kept, CrashOutcome::Unsynced] {
        let store = CrashingStore::new();
        let first = engine(&store, START).await;
        workspace(&first, "acme", 10).await;
        store.fail_next_commits(1, outcome);
        first.admin().add_credits(&id("acme"), 5).await.unwrap_err();
        until("the store is open again", async || first.health().ready).await;
        first.admin().create_workspace(id("later"), "Later".into()).await.unwrap();
        let store = store.crash(Keep::Nothing);
        drop(first);
        let second = engine(&store, START).await;
        let is_there = credits(&second, "acme").await == 15;
        let is_listed = actions(&second).await.iter().any(|action| action == "credits.add");
        assert_eq!(is_there, is_listed, "{outcome:?}");
        assert_eq!(is_there, outcome != CrashOutcome::Lost, "{outcome:?}");
        let check = second.audit().verify(None).await.unwrap();
        assert_eq!((check.fault, check.next), (None, None), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_leaves_no_record() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let before = records(&engine).await.len();
    engine.admin().create_workspace(id("acme"), "Again".into()).await.unwrap_err();
    engine.admin().add_credits(&id("acme"), u64::MAX).await.unwrap_err();
    engine.admin().add_credits(&id("none"), 1).await.unwrap_err();
    let webhook = postrider_runtime::random::webhook_id(START);
    acme.delete_webhook(webhook).await.unwrap_err();
    assert_eq!(records(&engine).await.len(), before);
}

#[tokio::test(start_paused = true)]
async fn records_are_kept_for_their_time_and_longer_while_the_clock_is_in_a_step() {
    let audit = AuditOptions { kept_for: Some(10 * DAY) };
    let store = CrashingStore::new();
    let options = EngineOptions { audit, ..options(store, START) };
    let engine = Engine::start(options).await.unwrap();
    workspace(&engine, "acme", 10).await;
    // More records than one slice removes.
    for _ in 0..600 {
        engine.admin().set_credits(&id("acme"), 1).await.unwrap();
    }
    engine.clock().set_wall(START.plus(DAY));
    engine.clock().pass(Duration::from_secs(2));
    assert!(engine.clock().deletion_rests());
    engine.pass(11 * DAY).await;
    // The engine checks the log meanwhile, and its removals are committed before these.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        engine.admin().set_credits(&id("acme"), 2).await.unwrap();
    }
    assert!(engine.clock().deletion_rests());
    let oldest = || async { records(&engine).await[0].record.action.clone() };
    assert_eq!(&*oldest().await, "server.start", "nothing goes in a step");
    engine.admin().follow_clock().await.unwrap();
    // The rest after the step has to end as well.
    engine.clock().pass(Duration::from_secs(3700));
    // Each check reads the whole log, so that there is one in each beat.
    let are_removed = async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        &*oldest().await == "clock.advance"
    };
    until("old records go", are_removed).await;
    let check = engine.audit().verify(None).await.unwrap();
    assert_eq!(check.fault, None);
    let left = records(&engine).await;
    assert!(left[0].mark.sequence > 600, "{:?}", left[0].mark);
}
