//! Numbers of two accounts: the number of a code, and that of its next message.

use std::cell::Cell;

use postrider_channel::FailureClass;
use postrider_channel::cloud_api::CloudApiAccount;
use postrider_domain::event::chain::{ChainStep, OtpChannel};
use postrider_domain::template::{TemplateCategory, TemplateStatus};
use postrider_number::record::{NumberInfo, NumberKind};
use postrider_store::{MemoryStore, Table};

use super::*;
use crate::core::command::Context;
use crate::core::message_status::Waiters;
use crate::core::otp::failover_plan::ChannelSetup;
use crate::core::otp::languages::{CodeTemplate, InLanguage};
use crate::core::otp::types::SendMore;
use crate::core::portfolio::Portfolios;
use crate::core::senders::pool::Pool;
use crate::core::senders::takeover;
use crate::core::view::{DecodedRecords, Pending, RecordView};
use crate::otp;
use crate::templates::{ChannelFacts, OfAccount, Template};

const FIRST: NumberId = NumberId::from_bytes([1; 16]);
const SECOND: NumberId = NumberId::from_bytes([2; 16]);

fn number(id: NumberId, account: &str) -> NumberInfo {
    let account = CloudApiAccount {
        phone: phone(9),
        phone_number_id: account.parse().unwrap(),
        account_id: account.parse().unwrap(),
    };
    NumberInfo {
        id,
        kind: NumberKind::CloudApi,
        created_at: START,
        messages_per_second: None,
        account: Some(account),
        pool: true,
        portfolio_id: None,
    }
}

/// Sets the status of the template of codes with the two accounts.
fn stands(bench: &mut Bench, first: TemplateStatus, second: TemplateStatus) {
    let of = |status| CodeTemplate { status, button: Default::default() };
    let others = vec![("208".into(), of(second))];
    let template = InLanguage { account: Some("107".into()), own: of(first), others };
    bench.core.code_templates.take("en", template);
}

const APPROVED: TemplateStatus = TemplateStatus::Approved;
const PAUSED: TemplateStatus = TemplateStatus::Paused;

fn bench() -> Bench {
    let mut bench = Bench::unlimited();
    let numbers = [number(FIRST, "107"), number(SECOND, "208")];
    bench.core.pool = Pool::of(&bench.core.id, &numbers, None);
    bench.core.number = bench.core.pool.first();
    stands(&mut bench, APPROVED, APPROVED);
    bench
}

/// Sends a code through a number that was chosen for it.
fn send(bench: &mut Bench, more: SendMore) -> RequestId {
    let more = SendMore { through: Some(FIRST), ..more };
    let command = SendOtp { more: Some(Box::new(more)), ..SendOtp::to(phone(1)) };
    bench.send_command(command, None).unwrap().request_id
}

fn numbers(bench: &Bench) -> Vec<NumberId> {
    bench.outbound.iter().map(|message| message.number).collect()
}

/// Returns the numbers from which a code is withdrawn as it is cancelled.
fn withdrawn(bench: &mut Bench, id: RequestId) -> Vec<NumberId> {
    let mut withdrawn = Vec::new();
    let cancel = |core: &mut Core, effects: &mut Effects| {
        cancel_otp(core, id, effects)?;
        withdrawn.extend(effects.withdrawn.iter().map(|(number, _)| *number));
        Ok::<_, VerifyOtpError>(())
    };
    bench.run(true, cancel).unwrap();
    withdrawn
}

#[test]
fn a_code_stays_where_it_went_when_its_template_is_paused_there() {
    let mut bench = bench();
    let id = send(&mut bench, SendMore::default());
    stands(&mut bench, PAUSED, APPROVED);
    assert_eq!(bench.read(id).unwrap().number, Some(FIRST));
    assert_eq!(bench.core.next_number(id), Some(SECOND));
    let again: Vec<_> = bench.core.unsent().iter().map(|message| message.number).collect();
    assert_eq!(again, [FIRST], "a number that restarts brings it to no other one");
    assert_eq!(withdrawn(&mut bench, id), [FIRST]);
}

#[test]
fn a_code_that_is_sent_again_through_another_number_is_looked_for_there() {
    let mut bench = bench();
    let id = send(&mut bench, SendMore::default());
    bench.settle(id, FinalOutcome::Sent);
    assert_eq!(bench.resend(id).unwrap().number, Some(FIRST));
    stands(&mut bench, PAUSED, APPROVED);
    assert_eq!(bench.resend(id).unwrap().number, Some(SECOND));
    assert_eq!(numbers(&bench), [FIRST, FIRST, SECOND]);
    // It is known after a crash, and in the events.
    bench.core.hot = bench.replayed();
    assert_eq!(bench.log[2].event.data()["number_id"], SECOND.to_string());
    stands(&mut bench, APPROVED, PAUSED);
    assert_eq!(bench.read(id).unwrap().number, Some(SECOND));
    assert_eq!(withdrawn(&mut bench, id), [SECOND]);
}

#[test]
fn a_repeat_and_a_step_of_a_chain_leave_through_the_number_that_has_the_template() {
    let mut bench = bench();
    let id = send(&mut bench, SendMore::default());
    bench.settle(id, FinalOutcome::Unknown);
    bench.core.channels = ChannelSetup { sms: true, ..ChannelSetup::default() };
    let step = |channel| ChainStep { channel, timeout_seconds: 30 };
    let steps = [OtpChannel::Sms, OtpChannel::Messaging].map(step);
    let more = SendMore { channels: Some(steps.to_vec()), ..SendMore::default() };
    let chained = send(&mut bench, more);
    stands(&mut bench, PAUSED, APPROVED);
    bench.pass(MINUTE);
    while bench.tick() {}
    assert_eq!(numbers(&bench), [FIRST, SECOND, SECOND]);
    for id in [id, chained] {
        stands(&mut bench, APPROVED, PAUSED);
        assert_eq!(withdrawn(&mut bench, id), [SECOND]);
    }
}

#[test]
fn what_no_other_number_can_send_is_not_asked_for() {
    let mut bench = bench();
    let third = NumberId::from_bytes([3; 16]);
    let numbers = [number(FIRST, "107"), number(SECOND, "208"), number(third, "107")];
    bench.core.pool = Pool::of(&bench.core.id, &numbers, None);
    let wanted = |bench: &Bench, up: &[NumberId]| {
        let wanted = takeover::takes_over(&bench.core, FIRST, up);
        (wanted.codes, wanted.templates)
    };
    assert_eq!(wanted(&bench, &[SECOND]), (true, false), "a message stays with its account");
    assert_eq!(wanted(&bench, &[SECOND, third]), (true, true));
    assert_eq!(wanted(&bench, &[]), (false, false));
    stands(&mut bench, APPROVED, PAUSED);
    assert_eq!(wanted(&bench, &[SECOND]), (false, false));
    let of = CodeTemplate { status: APPROVED, button: Default::default() };
    let in_portuguese = InLanguage { account: Some("208".into()), own: of, others: Vec::new() };
    bench.core.code_templates.take("pt", in_portuguese);
    assert_eq!(wanted(&bench, &[SECOND]), (true, false), "some codes are in that language");
}

/// Runs something with the bench's core, over a store that has the template of codes.
fn with_context(
    bench: &mut Bench,
    template: &Template,
    run: impl FnOnce(&mut Context<'_>),
) -> Template {
    const KEY: &[u8] = b"acme\0otp_code\0en";
    let (store, recent, reads) = (MemoryStore::new(), Default::default(), Cell::new(0));
    let portfolios = Portfolios::new(&MasterKeys::single([7; 32]));
    let records = RecordView {
        store: &store,
        pending: &Pending::default(),
        recent: &recent,
        reads: &reads,
        decoded: &DecodedRecords::default(),
    };
    bench.core.observe(bench.now);
    let mut context = Context {
        core: &mut bench.core,
        records,
        ahead: None,
        effects: &mut Effects::default(),
        numbers: &[],
        connected: &[],
        waiters: &mut Waiters::default(),
        log_next: 1,
        last_sender: |_, _| Ok(None),
        portfolios: &portfolios,
    };
    context.put_json(Table::Templates, KEY.to_vec(), template);
    run(&mut context);
    context.get_json(Table::Templates, KEY).unwrap().unwrap()
}

/// Returns the template of codes as two accounts have it.
fn template(updated_at: Timestamp) -> Template {
    let (category, facts) = (TemplateCategory::Authentication, ChannelFacts::default());
    let (account, status, components) = (Box::from("208"), APPROVED, Vec::new());
    let second = OfAccount { account, category, status, components, facts: facts.clone() };
    Template {
        name: "otp_code".into(),
        language: "en".into(),
        category,
        status,
        components: Vec::new(),
        updated_at,
        facts,
        account: Some("107".into()),
        others: vec![second],
    }
}

fn paused() -> Failure {
    Failure { class: FailureClass::TemplatePaused, ..Failure::permanent(Some(132_015)) }
}

fn statuses(template: &Template) -> [TemplateStatus; 2] {
    [template.status, template.others[0].status]
}

#[test]
fn refusals_of_one_account_say_nothing_of_what_another_has() {
    let mut bench = bench();
    let codes = [0; 3].map(|_| send(&mut bench, SendMore::default()));
    let answered = |context: &mut Context<'_>| {
        for id in codes {
            otp::note_answer(context, (id, FIRST), &FinalOutcome::Failed(paused()));
        }
    };
    let row = with_context(&mut bench, &template(START), answered);
    assert_eq!(statuses(&row), [PAUSED, APPROVED]);
    let reported = |context: &mut Context<'_>| {
        for id in codes {
            let failed = Progress::Failed(paused());
            otp::report(context, (id, 0), SECOND, (&failed, START)).unwrap();
        }
    };
    let row = with_context(&mut bench, &template(START), reported);
    assert_eq!(statuses(&row), [APPROVED, PAUSED], "it is about the number that reports it");
    // A disconnected number has no account any more, and its refusal affects no other account.
    let id = send(&mut bench, SendMore::default());
    let gone = |context: &mut Context<'_>| {
        let number = NumberId::from_bytes([3; 16]);
        otp::note_answer(context, (id, number), &FinalOutcome::Failed(paused()));
    };
    let row = with_context(&mut bench, &template(START), gone);
    assert_eq!(statuses(&row), [APPROVED, APPROVED]);
}

#[test]
fn what_is_told_late_of_a_template_changes_nothing_that_is_newer() {
    for (changed, status) in [(2 * MINUTE, APPROVED), (MINUTE, PAUSED), (Duration::ZERO, PAUSED)] {
        let mut bench = bench();
        let id = send(&mut bench, SendMore::default());
        bench.pass(HOUR);
        let failed = Progress::Failed(paused());
        let told = |context: &mut Context<'_>| {
            let at = START.plus(MINUTE);
            otp::report(context, (id, 0), FIRST, (&failed, at)).unwrap();
        };
        let row = with_context(&mut bench, &template(START.plus(changed)), told);
        assert_eq!(statuses(&row), [status, APPROVED], "{changed:?}");
    }
    // The provider's clock is behind: the code was sent after the change.
    let mut bench = bench();
    let id = send(&mut bench, SendMore::default());
    let failed = Progress::Failed(paused());
    let told = |context: &mut Context<'_>| {
        otp::report(context, (id, 0), FIRST, (&failed, START.minus(HOUR))).unwrap();
    };
    let row = with_context(&mut bench, &template(START), told);
    assert_eq!(statuses(&row), [PAUSED, APPROVED]);
}
