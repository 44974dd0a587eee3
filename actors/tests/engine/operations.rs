//! An operator's actions on a workspace that cannot start.

use postrider_actors::WorkspaceState;
use postrider_domain::AuditContext;
use postrider_store::{Change, Group, Store as _, Table};

use super::*;

const CREDITS: &[u8] = b"acme\0credits";

#[tokio::test(start_paused = true)]
async fn a_parked_workspace_starts_again_once_it_is_mended() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    workspace(&engine, "acme", 7).await;
    engine.shutdown(LONG).await.unwrap();
    let put = |value: &[u8]| {
        let change = Change::put(Table::Workspaces, CREDITS, value);
        store.commit(Group::new(None, &[change])).unwrap();
    };
    put(b"?");
    let engine = Engine::start(options(store.clone(), START)).await.unwrap();
    let acme = engine.workspace(&id("acme")).unwrap();
    acme.settings().await.unwrap_err();
    let state = async || engine.operations().overview(0, 10).await.0[0].state.clone();
    let parked = async || matches!(state().await, WorkspaceState::Parked(_));
    until("it is parked", parked).await;
    let warnings = || engine.health().warnings;
    assert_eq!(warnings(), ["damaged: the data of workspace acme cannot be read"]);
    let unpark = async || {
        let caller = Arc::new(AuditContext::system());
        engine.operations().unpark(&id("acme"), caller).await.unwrap()
    };
    unpark().await;
    until("it is parked again", parked).await;
    put(&7_u64.to_be_bytes());
    acme.settings().await.unwrap_err();
    assert!(parked().await, "nobody tries it meanwhile");
    unpark().await;
    assert_eq!(acme.settings().await.unwrap().credits, 7);
    assert!(warnings().is_empty());
    let (rows, total) = engine.operations().overview(0, 10).await;
    assert_eq!((rows[0].credits, rows[0].codes_last_hour, total), (Some(7), Some(0), 1));
}
