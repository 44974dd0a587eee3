//! Tests that messages held back by a portfolio's budget are sent once there is room.

use std::ops::ControlFlow;

use postrider_channel::{AttemptOutcome, Failure};
use postrider_number::Claims;
use postrider_number::record::NumberChange;
use postrider_store::{Change, Direction, Group, MemoryStore, Table, View};
use postrider_workspace::mailbox::message::WorkspaceMessage;

use super::message_commands::send_message;
use super::scripted::Rig;
use super::*;
use crate::{
    DailyLimit, MessageStatus, NewNumber, NewProvider, PortfolioSetting, SendMessageError,
};

/// The portfolio of the number.
const PORTFOLIO: &str = "biz";

/// Returns the setting of a portfolio that may write to so many people first.
fn up_to(people: u32) -> PortfolioSetting {
    PortfolioSetting {
        daily_recipients: Some(DailyLimit::People(people)),
        ..PortfolioSetting::default()
    }
}

/// Starts an engine whose number is in the portfolio.
async fn rig(store: &MemoryStore) -> Rig {
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    let number = rig.engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let portfolio_id = Some(Some(PORTFOLIO.into()));
    let change = NumberChange { portfolio_id, ..NumberChange::default() };
    rig.engine.admin().update_number(&id("acme"), number, change).await.unwrap();
    rig
}

/// Returns the number of a table's rows with this prefix.
fn count(store: &MemoryStore, table: Table, prefix: &[u8]) -> usize {
    let mut count = 0;
    let mut visit = |_: &[u8], _: &[u8]| {
        count += 1;
        ControlFlow::Continue(())
    };
    store.scan(table, prefix, None, Direction::Forward, &mut visit).unwrap();
    count
}

/// The number requests the claim of a message twice, because the answer was slow. Room is made in
/// between.
#[tokio::test(start_paused = true)]
async fn what_is_denied_and_asked_for_again_is_sent_once_there_is_room() {
    // The message is still among the waiting ones, or is read again for its dispatch.
    for is_called_back in [false, true] {
        let rig = rig(&MemoryStore::new()).await;
        rig.acme.set_portfolio(PORTFOLIO, up_to(1)).await.unwrap();
        let first = rig.send(1).await;
        rig.becomes(first, MessageStatus::Sent).await;
        let held = rig.send(2).await;
        rig.settle().await;
        assert_eq!(rig.state(held).await.status, MessageStatus::Queued);
        let number = rig.engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
        let workspaces = &rig.engine.shared().workspaces;
        let cast = |message| assert!(workspaces.cast_live(&id("acme"), message));
        let ask = || {
            let asked = Some((1000, vec![held]));
            cast(WorkspaceMessage::Claims(Claims { number, released: Vec::new(), asked }));
        };
        ask();
        let then = async {
            if is_called_back {
                cast(WorkspaceMessage::Tick);
            }
            ask();
        };
        let (set, ()) = tokio::join!(biased; rig.acme.set_portfolio(PORTFOLIO, up_to(2)), then);
        set.unwrap();
        rig.settle().await;
        rig.becomes(held, MessageStatus::Sent).await;
        assert_eq!(rig.count(held), 1, "{is_called_back}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_who_was_counted_days_ago_and_failed() {
    let store = MemoryStore::new();
    let rig = rig(&store).await;
    let rows = || count(&store, Table::Portfolios, b"acme\0");
    for day in 0..3 {
        for number in 0..5 {
            let failure = Failure::permanent(Some(131_026));
            rig.script.answers.lock().push_back(AttemptOutcome::Failed(failure));
            let message = rig.send(10 * day + number).await;
            rig.becomes(message, MessageStatus::Failed).await;
        }
        assert_eq!(rows(), 10, "one that counts each, and one that gives it back");
        rig.engine.clock().advance(Duration::from_secs(25 * 3600));
        // The actor may passivate itself.
        drop(rig.acme.otp(RequestId::from_parts(START, 0)).await);
        rig.engine.beat().await;
        assert_eq!(rows(), 0, "on day {day}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_message_whose_budget_cannot_be_read() {
    let store = MemoryStore::new();
    let rig = rig(&store).await;
    let number = NewNumber::of(NewProvider::Custom);
    rig.engine.admin().connect_number(&id("acme"), number).await.unwrap();
    // Both numbers have started.
    for number in 0..20 {
        let message = rig.send(number).await;
        rig.becomes(message, MessageStatus::Sent).await;
    }
    let noted = || count(&store, Table::Windows, b"acme\0");
    let (before, credits) = (noted(), rig.credits().await);
    // An administrator's setting is damaged.
    let portfolio = [b"acme\0s".as_slice(), PORTFOLIO.as_bytes()].concat();
    store.commit(Group::new(None, &[Change::put(Table::Portfolios, portfolio, b"{")])).unwrap();
    rig.acme.set_portfolio("other", up_to(9)).await.unwrap();
    let mut refused = 0;
    for number in 20..40 {
        match send_message(&rig.acme, phone(number)).await {
            Ok(_) => {}
            Err(SendMessageError::Unavailable(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    rig.settle().await;
    assert!((1..20).contains(&refused), "some leave through the other number: {refused}");
    assert_eq!(rig.credits().await, credits - (20 - refused));
    assert_eq!(noted() - before, 20 - refused as usize);
}
