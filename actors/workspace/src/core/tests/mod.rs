//! Tests of the rules of a workspace, without a runtime: each test sets the time.

mod cancel;
mod claims;
mod conversion_holds;
mod conversions;
mod failover;
mod inbound;
mod pending;
mod replay;
mod resend;
mod retries;
mod send;
mod settle;
mod tick;
mod two_accounts;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use postrider_channel::callback::Progress;
use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, Outbound};
use postrider_domain::event::chain::OtpChannel;
use postrider_domain::event::{Delivery, Repeat};
use postrider_domain::keys::MasterKeys;
use postrider_domain::template::TemplateName;
use postrider_domain::{
    Destinations, Event, Limits, LogEntry, MessageId, NumberId, Phone, Prefix, Prices, PublicEvent,
    RequestId, Timestamp,
};

use crate::core::effects::Effects;
use crate::core::hot_state::HotState;
use crate::core::otp::cancel::cancel_otp;
use crate::core::otp::conversion_counts::Conversion;
use crate::core::otp::delivery;
use crate::core::otp::pumping_guard::PrefixCount;
use crate::core::otp::read::otp_state;
use crate::core::otp::requests::{Otp, OtpMessage};
use crate::core::otp::resend::resend_otp;
use crate::core::otp::send::send_otp;
use crate::core::otp::types::{
    OtpSent, OtpState, OtpStatus, ReadOtpError, ResendOtpError, SendOtp, SendOtpError,
    Verification, VerifyOtpError,
};
use crate::core::otp::verify::verify_otp;
use crate::core::settings::{CreditsChange, GuardOptions, MessageOptions, OtpOptions, Rules};
use crate::core::unsent::Unsent;
use crate::core::{Core, credits};

/// The time at which every test starts.
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const MS: Duration = Duration::from_millis(1);

/// A core, and all effects of its commands.
struct Bench {
    core: Core,
    now: Timestamp,
    /// All journal events.
    journal: Vec<u8>,
    /// All entries of the event log.
    log: Vec<LogEntry>,
    /// The balance as the effects last reported it.
    stored_credits: u64,
    outbound: Vec<Outbound>,
    unique: u128,
}

/// A state, in an order that does not depend on the order in memory.
#[derive(Debug, PartialEq, Eq)]
struct Image {
    otps: Vec<Otp>,
    sends: Vec<(Timestamp, RequestId)>,
    prefixes: Vec<(u16, PrefixCount)>,
    conversions: Vec<(Prefix, Conversion)>,
    messages: Vec<(MessageId, Unsent, Vec<u8>)>,
    repeats: Vec<(RequestId, Repeat)>,
    /// By request and number.
    earlier: Vec<(RequestId, Vec<OtpMessage>)>,
}

fn image(hot: &HotState) -> Image {
    let mut otps: Vec<Otp> = hot.otps.iter().map(|(_, otp)| *otp).collect();
    otps.sort_unstable_by_key(|otp| otp.id);
    assert_eq!(otps.len(), hot.otps.len());
    let sends = hot.sends.iter().map(|(at, slot)| (at, hot.otps.at(slot).id)).collect();
    let with_bytes = |(id, unsent): (MessageId, Unsent)| {
        (id, unsent, hot.messages.unwritten(id).unwrap_or_default().to_vec())
    };
    let messages = hot.messages.iter().map(with_bytes).collect();
    let prefixes = hot.prefixes.all(hot.now());
    let earlier = otps.iter().map(|otp| {
        let numbers = 1..=hot.otps.earlier.newest(otp.id);
        (otp.id, numbers.map(|number| hot.otps.earlier.message(otp, number)).collect())
    });
    let earlier = earlier.collect();
    let conversions = hot.conversions.all(hot.now());
    let repeats = hot.repeats.iter().collect();
    Image { otps, sends, prefixes, conversions, messages, repeats, earlier }
}

/// Returns the acceptance of a message that has no records.
fn queued(id: MessageId, give_up_at: Timestamp) -> Event {
    let unwritten = id.to_string().into_bytes().into();
    Event::MessageQueued { id, give_up_at, claimed: false, unwritten }
}

fn phone(number: u32) -> Phone {
    format!("+1555{number:07}").parse().unwrap()
}

impl Bench {
    /// Creates a bench with a number, 1,000 credits and these limits.
    fn with(limits: Limits) -> Self {
        let id = "acme".parse().unwrap();
        let (prices, messages) = (Prices::default(), MessageOptions::default());
        let guard = GuardOptions::default();
        let otp = OtpOptions::default();
        let rules = Rules { limits, prices, otps_max: 10_000, messages, guard, otp };
        let core = Core {
            keys: MasterKeys::single([7; 32]).code_keys(&id),
            id,
            hot: HotState::default(),
            credits: 1000,
            rules,
            number: Some(NumberId::from_bytes([9; 16])),
            pool: Default::default(),
            destinations: Destinations::default(),
            otp_template: Arc::new(TemplateName { name: "otp_code".into(), language: "en".into() }),
            code_templates: Default::default(),
            needs_template: false,
            otp_days: Default::default(),
            channels: Default::default(),
            test_phones: Arc::default(),
            full: Default::default(),
            opt_out: Arc::default(),
        };
        Self {
            core,
            now: START,
            journal: Vec::new(),
            log: Vec::new(),
            stored_credits: 1000,
            outbound: Vec::new(),
            unique: 0,
        }
    }

    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn unlimited() -> Self {
        Self::with(Limits { otp_per_phone_10m: 0, otp_per_workspace_hour: 0, ..Limits::default() })
    }

    fn pass(&mut self, step: Duration) {
        self.now = self.now.plus(step);
    }

    /// Runs a command now and applies its effects.
    ///
    /// A command that is `Err` must have had none, unless it `may_act`.
    fn run<T, E>(
        &mut self,
        may_act: bool,
        command: impl FnOnce(&mut Core, &mut Effects) -> Result<T, E>,
    ) -> Result<T, E> {
        self.core.observe(self.now);
        let before = (image(&self.core.hot), self.core.credits);
        let mut effects = Effects::default();
        let result = command(&mut self.core, &mut effects);
        if result.is_err() && !may_act {
            assert!(effects.is_empty() && effects.outbound.is_empty(), "a refusal has no effects");
            assert_eq!((image(&self.core.hot), self.core.credits), before, "nor changes anything");
        }
        self.journal.extend_from_slice(&effects.events);
        let emitted: Vec<_> = LogEntry::decode_all(&effects.log).map(Result::unwrap).collect();
        assert_eq!(emitted.len(), effects.log_count as usize);
        assert!(emitted.iter().all(|entry| entry.at == self.now));
        self.log.extend(emitted);
        self.stored_credits = effects.credits.unwrap_or(self.stored_credits);
        assert_eq!(self.stored_credits, self.core.credits);
        self.outbound.extend(effects.outbound.drain(..).map(|handed| handed.message));
        result
    }

    fn send(&mut self, to: Phone) -> Result<OtpSent, SendOtpError> {
        self.send_command(SendOtp::to(to), None)
    }

    fn send_command(
        &mut self,
        command: SendOtp,
        down: Option<Duration>,
    ) -> Result<OtpSent, SendOtpError> {
        self.unique += 1;
        let id = RequestId::from_parts(self.now, self.unique);
        self.run(false, |core, effects| send_otp(core, command, id, down, effects))
    }

    fn resend(&mut self, id: RequestId) -> Result<OtpSent, ResendOtpError> {
        self.unique += 1;
        let message = MessageId::from_parts(self.now, self.unique);
        self.run(false, |core, effects| {
            resend_otp(core, (id, None), message, (None, None), effects)
        })
    }

    fn resend_over(
        &mut self,
        id: RequestId,
        channel: OtpChannel,
    ) -> Result<OtpSent, ResendOtpError> {
        self.unique += 1;
        let message = MessageId::from_parts(self.now, self.unique);
        let over = (id, Some(channel));
        self.run(false, |core, effects| resend_otp(core, over, message, (None, None), effects))
    }

    fn verify(&mut self, id: RequestId, code: &str) -> Result<Verification, VerifyOtpError> {
        self.run(true, |core, effects| verify_otp(core, id, code, effects))
    }

    /// Settles a request's newest message with the channel's outcome.
    fn settle(&mut self, id: RequestId, settled: FinalOutcome) {
        self.settle_message(id, 0, settled);
    }

    /// Settles the message of this number.
    fn settle_message(&mut self, id: RequestId, number: u8, settled: FinalOutcome) {
        let settle = |core: &mut Core, effects: &mut Effects| {
            delivery::settle(core, id, number, &settled, effects);
            Ok::<_, ()>(())
        };
        self.run(true, settle).unwrap();
    }

    /// Applies the provider's report on a request's message of this number.
    fn report(&mut self, id: RequestId, number: u8, progress: &Progress) {
        let report = |core: &mut Core, effects: &mut Effects| {
            delivery::report(core, id, number, progress, effects);
            Ok::<_, ()>(())
        };
        self.run(true, report).unwrap();
    }

    /// Performs an event of a command beside the core.
    fn event(&mut self, event: Event) {
        let perform = |core: &mut Core, effects: &mut Effects| {
            core.perform(event, effects);
            Ok::<_, ()>(())
        };
        self.run(true, perform).unwrap();
    }

    /// Runs one tick; returns whether there is more to do.
    fn tick(&mut self) -> bool {
        self.run(true, |core, effects| Ok::<_, ()>(core.tick(effects))).unwrap()
    }

    fn credits(&mut self, change: CreditsChange) {
        self.run(true, |core, effects| credits::change(core, change, effects)).unwrap();
    }

    fn read(&mut self, id: RequestId) -> Result<OtpState, ReadOtpError> {
        self.core.observe(self.now);
        otp_state(&self.core, id)
    }

    /// Returns the code of a request, as its phone got it.
    fn code(&self, id: RequestId) -> String {
        let otp = self.core.hot.otps.get(id).unwrap();
        self.core.keys.code(otp.key_version, id, otp.phone, otp.length).unwrap().reveal()
    }

    /// Returns a code of the same length that is not the request's.
    fn wrong_code(&self, id: RequestId) -> String {
        let right = self.code(id);
        let first = (right.as_bytes()[0] - b'0' + 1) % 10;
        format!("{first}{}", &right[1..])
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.log.iter().map(|entry| entry.event.kind()).collect()
    }

    /// Returns the state after a replay of the whole journal.
    fn replayed(&self) -> HotState {
        let mut hot = HotState::default();
        hot.replay(&self.journal).unwrap();
        hot.advance(self.now);
        hot
    }

    /// Returns the image without forgotten requests, which may remain on one side.
    fn known(&self, hot: &HotState) -> Image {
        let mut image = image(hot);
        image.otps.retain(|otp| hot.otps.forgotten_at(otp) > self.now);
        let is_known = |id: &RequestId| image.otps.iter().any(|otp| otp.id == *id);
        image.repeats.retain(|(id, _)| is_known(id));
        image.earlier.retain(|(id, _)| is_known(id));
        image
    }

    fn events(&self) -> Vec<Event> {
        Event::decode_all(&self.journal).map(Result::unwrap).collect()
    }
}
