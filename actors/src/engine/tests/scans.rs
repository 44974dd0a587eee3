//! Tests of reads that scan: they are bounded, workspaces take turns, and nothing else waits.

use parking_lot::{Condvar, Mutex};
use postrider_domain::{ContactName, CustomFields, Tags};
use postrider_store::hooked::{Hook, Hooked};
use postrider_store::{MemoryStore, Table};
use tokio::task::JoinSet;

use crate::{ContactFilter, ContactsPage, NewContact, Unavailable};

use super::*;

/// More scans than may run and wait for one workspace.
const FLOOD: usize = 400;

/// Holds back searches of contacts, and records whose scans went on, in order.
#[derive(Debug, Clone, Default)]
struct HeldScans(Arc<(Mutex<Held>, Condvar)>);

#[derive(Debug, Default)]
struct Held {
    is_shut: bool,
    went_on: Vec<Vec<u8>>,
}

impl Hook for HeldScans {
    fn before_scan(&self, table: Table, prefix: &[u8], _from: Option<&[u8]>) {
        // The start scans the whole table.
        if table == Table::ContactIndex && !prefix.is_empty() {
            let mut held = self.0.0.lock();
            self.0.1.wait_while(&mut held, |held| held.is_shut);
            held.went_on.push(prefix.to_vec());
        }
    }
}

impl HeldScans {
    fn set(&self, is_shut: bool) {
        self.0.0.lock().is_shut = is_shut;
        self.0.1.notify_all();
    }

    /// Returns the number of others' scans that ran before the first of this workspace.
    fn before(&self, name: &str) -> usize {
        let held = self.0.0.lock();
        held.went_on.iter().position(|prefix| prefix.starts_with(name.as_bytes())).unwrap()
    }
}

fn ana() -> NewContact {
    NewContact {
        name: ContactName::new("Ana").unwrap(),
        phone: Some(phone(1)),
        email: None,
        tags: Tags::default(),
        custom_fields: CustomFields::default(),
    }
}

fn search(of: &Workspace) -> impl Future<Output = Result<ContactsPage, Unavailable>> + use<> {
    let of = of.clone();
    async move { of.contacts(ContactFilter::search(Some("ana")), 0, 10).await }
}

/// Waits for a fact that needs no time: the clock does not move while a scan is held.
async fn at_last(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1_000_000 {
        if is_so() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("this never came: {what}");
}

#[tokio::test(start_paused = true)]
async fn searches_of_one_workspace_are_bounded_and_nothing_waits_for_them() {
    let hook = HeldScans::default();
    let store = Hooked { inner: MemoryStore::new(), hook: hook.clone() };
    let engine = Engine::start(options(store, START)).await.unwrap();
    let loud = workspace(&engine, "loud", 100).await;
    let quiet = workspace(&engine, "quiet", 100).await;
    let contact = loud.create_contact(ana(), None).await.unwrap().answer;
    let figures = || engine.shared().scans.figures();

    hook.set(true);
    let mut flood: JoinSet<_> = (0..FLOOD).map(|_| search(&loud)).collect();
    at_last("each runs, waits or is refused", || {
        let it = figures();
        it.running > 0 && it.running + it.waiting + it.refused as usize == FLOOD
    })
    .await;
    let held = figures();
    // Some may have started before all of them had arrived.
    assert_eq!(held.running + held.waiting + held.refused as usize, FLOOD);
    assert!((100..=128).contains(&held.waiting), "{held:?}");
    assert!(held.running < 128, "a place for each core at the most");
    // Refused ones are answered while nothing else runs.
    for _ in 0..held.refused {
        let refused = flood.join_next().await.unwrap().unwrap().unwrap_err();
        assert_eq!(refused, Unavailable::because(UnavailableReason::Overloaded));
        assert!(refused.retry_after >= Duration::from_secs(1));
    }
    // No scan runs, so each answer now has waited for none.
    let others = tokio::spawn(search(&quiet));
    at_last("the other's waits", || figures().waiting > held.waiting).await;
    for workspace in [&loud, &quiet] {
        let sent = workspace.send_otp(SendOtp::to(phone(1))).await.unwrap();
        let code = code(workspace.id(), sent.request_id, phone(1));
        let verified = workspace.verify_otp(sent.request_id, &code).await.unwrap();
        assert_eq!(verified, Verification::Verified);
    }
    assert_eq!(loud.contact(contact.id).await.unwrap(), contact);
    assert_eq!(loud.webhooks().await.unwrap(), []);
    assert_eq!(figures().finished, held.finished, "nothing went on meanwhile");

    hook.set(false);
    assert_eq!(others.await.unwrap().unwrap().total, 0);
    let (before, at_once) = (hook.before("quiet"), held.running);
    assert!(before <= at_once + 1, "{before} came before it, {at_once} of them ran already");
    while let Some(found) = flood.join_next().await {
        assert_eq!(found.unwrap().unwrap().total, 1);
    }
    assert_eq!(engine.shared().admission.in_flight(), 0, "every permit came back");
    engine.shutdown(LONG).await.unwrap();
}
