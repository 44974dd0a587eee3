//! Tests the effects of a send of a one-time password, and the reasons for its refusal.

use postrider_domain::code::{CodeLength, Expiry};
use postrider_domain::template::{CodeButton, TemplateStatus};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};

use crate::core::otp::languages::{CodeTemplate, CodeTemplates, InLanguage};
use crate::core::settings::UseTemplateError;
use crate::core::tests::*;

fn phone_limit(wait: Duration) -> Result<OtpSent, SendOtpError> {
    Err(SendOtpError::PhoneLimit { retry_after: wait })
}

#[test]
fn a_send_has_all_its_effects_at_once() {
    let mut bench = Bench::new();
    let command = SendOtp {
        expiry: Expiry::from_seconds(90).unwrap(),
        length: CodeLength::from_digits(8).unwrap(),
        ..SendOtp::to(phone(1))
    };
    let sent = bench.send_command(command, None).unwrap();
    let expires_at = START.plus(Duration::from_secs(90));
    assert_eq!(sent.expires_at, expires_at);
    assert_eq!(bench.core.credits, 999);
    let event = PublicEvent::OtpSent {
        request_id: sent.request_id,
        phone: phone(1),
        expires_at,
        resend: false,
    };
    assert_eq!(bench.log, [LogEntry { at: START, event }]);
    let [message] = &bench.outbound[..] else { panic!("one message goes out") };
    assert_eq!((message.to.phone(), message.give_up_at), (Some(phone(1)), expires_at));
    assert_eq!(message.code().unwrap().reveal(), bench.code(sent.request_id));
    assert_eq!(bench.code(sent.request_id).len(), 8);
    assert_eq!(bench.events().len(), 1);
    let state = bench.read(sent.request_id).unwrap();
    assert_eq!(
        (state.status, state.attempts_remaining, state.delivery),
        (OtpStatus::Active, 5, Delivery::Queued)
    );
}

#[test]
fn the_sixth_to_a_phone_in_ten_minutes_waits_exactly() {
    let mut bench = Bench::new();
    for _ in 0..5 {
        bench.send(phone(1)).unwrap();
        bench.pass(Duration::from_secs(10));
    }
    assert_eq!(bench.send(phone(1)), phone_limit(Duration::from_secs(550)));
    bench.send(phone(2)).unwrap();
    bench.pass(Duration::from_secs(550) - MS);
    assert_eq!(bench.send(phone(1)), phone_limit(MS));
    bench.pass(MS);
    bench.send(phone(1)).unwrap();
    assert_eq!(bench.send(phone(1)), phone_limit(Duration::from_secs(10)));
    assert_eq!(bench.core.credits, 1000 - 7, "a refusal costs nothing");
}

#[test]
fn the_hour_of_a_phone_is_another_limit_and_the_longer_wait_is_reported() {
    let limits = Limits { otp_per_phone_10m: 2, otp_per_phone_hour: 3, ..Limits::default() };
    let mut bench = Bench::with(limits);
    bench.send(phone(1)).unwrap();
    bench.pass(10 * MINUTE);
    bench.send(phone(1)).unwrap();
    bench.send(phone(1)).unwrap();
    assert_eq!(bench.send(phone(1)), phone_limit(50 * MINUTE), "not the ten minutes");
    bench.pass(50 * MINUTE);
    bench.send(phone(1)).unwrap();
    assert_eq!(bench.send(phone(1)), phone_limit(10 * MINUTE));
}

#[test]
fn the_workspace_has_an_hour_of_its_own() {
    let limits = Limits { otp_per_workspace_hour: 3, ..Limits::default() };
    let mut bench = Bench::with(limits);
    for number in 0..3 {
        bench.send(phone(number)).unwrap();
        bench.pass(MINUTE);
    }
    let refused = |wait| Err(SendOtpError::WorkspaceLimit { retry_after: wait });
    assert_eq!(bench.send(phone(9)), refused(57 * MINUTE));
    bench.pass(57 * MINUTE - MS);
    assert_eq!(bench.send(phone(9)), refused(MS));
    bench.pass(MS);
    bench.send(phone(9)).unwrap();
    assert_eq!(bench.send(phone(9)), refused(MINUTE));
}

#[test]
fn zero_turns_each_limit_off() {
    let mut bench = Bench::unlimited();
    bench.credits(CreditsChange::Set(5000));
    for _ in 0..2000 {
        bench.send(phone(1)).unwrap();
    }
}

#[test]
fn a_changed_limit_counts_what_was_sent_before() {
    let mut bench = Bench::unlimited();
    for _ in 0..7 {
        bench.send(phone(1)).unwrap();
    }
    bench.core.rules.limits.otp_per_phone_10m = 5;
    assert_eq!(bench.send(phone(1)), phone_limit(10 * MINUTE));
    bench.core.rules.limits.otp_per_phone_10m = 8;
    bench.send(phone(1)).unwrap();
}

#[test]
fn without_a_number_or_credits_nothing_is_sent() {
    let mut bench = Bench::new();
    let number = bench.core.number.take();
    assert_eq!(bench.send(phone(1)), Err(SendOtpError::NotConnected));
    bench.core.number = number;
    bench.credits(CreditsChange::Set(0));
    let refused = SendOtpError::InsufficientCredits { needed: 1, available: 0 };
    assert_eq!(bench.send(phone(1)), Err(refused));
    bench.credits(CreditsChange::Add(1));
    bench.send(phone(1)).unwrap();
    assert_eq!(bench.core.credits, 0);
    bench.core.rules.prices.otp = 0;
    bench.send(phone(1)).unwrap();
}

#[test]
fn memory_has_a_bound() {
    let mut bench = Bench::unlimited();
    bench.core.rules.otps_max = 3;
    for number in 0..3 {
        bench.send(phone(number)).unwrap();
    }
    let overloaded = Unavailable::because(UnavailableReason::Overloaded);
    assert_eq!(bench.send(phone(9)), Err(overloaded.clone().into()));
    let first = bench.core.hot.otps.iter().next().unwrap().1.id;
    for _ in 0..3 {
        bench.resend(first).unwrap();
    }
    let refused = ResendOtpError::Refused(SendOtpError::Unavailable(overloaded));
    assert_eq!(bench.resend(first), Err(refused), "resends are bounded too");
}

#[test]
fn a_failing_channel_is_reported_only_to_who_could_send() {
    let mut bench = Bench::with(Limits { otp_per_phone_10m: 1, ..Limits::default() });
    let wait = Duration::from_secs(4);
    let command = SendOtp::to(phone(1));
    let down = Unavailable { reason: UnavailableReason::ChannelDown, retry_after: wait };
    assert_eq!(bench.send_command(command.clone(), Some(wait)), Err(down.into()));
    bench.send_command(command.clone(), None).unwrap();
    assert_eq!(bench.send_command(command.clone(), Some(wait)), phone_limit(10 * MINUTE));
    bench.credits(CreditsChange::Set(0));
    assert!(matches!(
        bench.send_command(command.clone(), Some(wait)),
        Err(SendOtpError::InsufficientCredits { .. })
    ));
}

#[test]
fn a_clock_that_goes_back_is_not_followed() {
    let mut bench = Bench::new();
    bench.core.observe(START.plus(HOUR));
    assert_eq!(bench.core.observe(START), START.plus(HOUR));
}

#[test]
fn credits_are_set_and_added_within_bounds() {
    use crate::core::settings::ChangeError;
    let mut bench = Bench::new();
    let mut effects = Effects::default();
    assert_eq!(credits::change(&mut bench.core, CreditsChange::Add(5), &mut effects), Ok(1005));
    assert_eq!(effects.credits, Some(1005));
    let too_many = credits::change(&mut bench.core, CreditsChange::Add(u64::MAX), &mut effects);
    assert_eq!(too_many, Err(ChangeError::TooManyCredits));
    let most = postrider_domain::prices::CREDITS_MAX - 1005;
    let too_many = credits::change(&mut bench.core, CreditsChange::Add(most + 1), &mut effects);
    assert_eq!(too_many, Err(ChangeError::TooManyCredits));
    assert_eq!(bench.core.credits, 1005);
    assert!(credits::change(&mut bench.core, CreditsChange::Add(most), &mut effects).is_ok());
}

#[test]
fn the_template_of_codes_must_be_approved_and_known_where_it_is_needed() {
    use TemplateStatus::{Approved, Paused};
    let mut bench = Bench::new();
    let refused = |error: UseTemplateError| Err(SendOtpError::Template(error));
    for (status, needed, expected) in [
        (None, false, Ok(())),
        (None, true, refused(UseTemplateError::NoSuchTemplate)),
        (Some(Paused), false, refused(UseTemplateError::NotApproved(Paused))),
        (Some(Paused), true, refused(UseTemplateError::NotApproved(Paused))),
        (Some(Approved), true, Ok(())),
    ] {
        bench.core.code_templates = CodeTemplates::default();
        if let Some(status) = status {
            let own = CodeTemplate { status, button: CodeButton::default() };
            let template = InLanguage { account: None, own, others: Vec::new() };
            let language = bench.core.otp_template.language.clone();
            bench.core.code_templates.take(&language, template);
        }
        bench.core.needs_template = needed;
        assert_eq!(bench.send(phone(1)).map(drop), expected, "{status:?} {needed}");
    }
    assert_eq!(bench.core.credits, 1000 - 2, "a refusal costs nothing");
}
