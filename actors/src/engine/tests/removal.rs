//! Tests of deleted workspaces: at once for callers, part by part in the store, and for ever.

use crate::{CreateWorkspaceError, DeleteWorkspaceError, SendOtpError, WorkspaceState};
use postrider_store::{Change, Keep, Table, Usage, View};
use postrider_workspace::core::records;
use postrider_workspace::removal;

use super::support::broadcasts::{broadcast_to, create, with_template};
use super::*;

/// Creates a workspace `acme` with some of everything, and `other` beside it.
async fn begin(store: &CrashingStore) -> (Engine, Workspace) {
    let engine = engine(store, START).await;
    let acme = with_template(&engine).await;
    let other = workspace(&engine, "other", 10).await;
    create(&acme, broadcast_to(9000)).await;
    for _ in 0..5 {
        acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    }
    other.send_otp(SendOtp::to(phone(1))).await.unwrap();
    (engine, acme)
}

/// Waits until the last row of `acme` is deleted.
async fn removed(store: &CrashingStore) {
    until("it is removed", async || !removal::is_marked(store, &id("acme")).unwrap()).await;
}

/// Checks that nothing is left of `acme`, and that `other` is whole.
fn check_removed(store: &CrashingStore) {
    assert_eq!(Usage::scan(store, &id("acme")).unwrap(), Usage::default());
    assert_eq!(store.get(Table::Meta, &Usage::key(&id("acme"))).unwrap(), None);
    let other = Usage::of(store, &id("other")).unwrap();
    assert_eq!(Usage::scan(store, &id("other")).unwrap(), other);
    assert!(other.bytes > 100, "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn its_traffic_ends_at_once_and_its_id_can_be_used_again() {
    let store = CrashingStore::new();
    let (engine, acme) = begin(&store).await;
    let admin = engine.admin();
    for (name, wrong) in [("acme", "Acme"), ("nobody", "nobody")] {
        let refused = admin.delete_workspace(&id(name), wrong).await.unwrap_err();
        let expected = match name {
            "acme" => DeleteWorkspaceError::WrongName,
            _ => DeleteWorkspaceError::NoSuchWorkspace,
        };
        assert_eq!(refused, expected);
    }
    acme.send_otp(SendOtp::to(phone(2))).await.unwrap();
    admin.delete_workspace(&id("acme"), "acme").await.unwrap();
    assert!(engine.workspace(&id("acme")).is_none());
    let refused = acme.send_otp(SendOtp::to(phone(2))).await.unwrap_err();
    assert!(matches!(refused, SendOtpError::Unavailable(_)), "{refused}");
    let again = admin.create_workspace(id("acme"), "Acme".into()).await.unwrap_err();
    assert_eq!(again, CreateWorkspaceError::BeingRemoved);
    removed(&store).await;
    check_removed(&store);
    // A new workspace of that id has no data of it, after a restart either.
    let acme = with_template(&engine).await;
    assert!(acme.broadcasts(0, 10).await.unwrap().0.is_empty());
    assert!(engine.sandbox().messages(&id("acme"), None, 10).is_empty());
    for _ in 0..4 {
        acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    }
    let sent = log(&acme).await.len();
    engine.shutdown(LONG).await.unwrap();
    let engine = Engine::start(options(store.clone(), START)).await.unwrap();
    let acme = engine.workspace(&id("acme")).unwrap();
    assert_eq!(log(&acme).await.len(), sent);
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    let refused = acme.send_otp(SendOtp::to(phone(1))).await.unwrap_err();
    assert!(matches!(refused, SendOtpError::PhoneLimit { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_parked_can_be_deleted_and_its_id_works_again() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    until("it rests", async || engine.actor("acme").is_none()).await;
    let damaged = Change::put(Table::Workspaces, records::profile_key(&id("acme")), *b"{");
    engine.shared().writer.commit(vec![damaged]).await.unwrap();
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap_err();
    let state = engine.admin().workspace(&id("acme")).await.unwrap().state;
    assert!(matches!(state, WorkspaceState::Parked(_)), "{state:?}");
    engine.admin().delete_workspace(&id("acme"), "acme").await.unwrap();
    removed(&store).await;
    let acme = workspace(&engine, "acme", 10).await;
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_goes_on_with_what_is_left() {
    let store = CrashingStore::new();
    let (engine, _acme) = begin(&store).await;
    engine.admin().delete_workspace(&id("acme"), "acme").await.unwrap();
    let store = store.crash(Keep::Nothing);
    drop(engine);
    assert!(removal::is_marked(&store, &id("acme")).unwrap(), "it was not given the time");
    let engine = Engine::start(options(store.clone(), START)).await.unwrap();
    assert!(engine.workspace(&id("acme")).is_none());
    removed(&store).await;
    check_removed(&store);
    assert!(engine.workspace(&id("other")).is_some());
    let acme = workspace(&engine, "acme", 10).await;
    for _ in 0..5 {
        acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    }
}
