//! The model of an engine's possible answers.
//!
//! An acknowledged change holds; a change with an unknown outcome may hold or not.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    EventEntry, MessageSent, MessageState, MessageStatus, OtpSent, OtpState, OtpStatus,
    ReadOtpError, ResendOtpError, SendMessageError, SendOtpError, VerifyOtpError,
};
use postrider_domain::event::OtpFailure;
use postrider_domain::{MessageId, PublicEvent, RequestId};

use super::emitted_messages::EmittedMessages;
use super::*;

const TEN_MINUTES: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);

/// A command and its answer.
#[derive(Debug)]
pub(super) enum Answer {
    Send(Phone, Result<OtpSent, SendOtpError>),
    Verify(RequestId, bool, Result<Verification, VerifyOtpError>),
    Resend(RequestId, Result<OtpSent, ResendOtpError>),
    Read(RequestId, Result<OtpState, ReadOtpError>),
    /// A limit of each phone in ten minutes and of the workspace in an hour, and whether it was
    /// set.
    Limits((u32, u32), bool),
    /// Credits to be added, and whether they were.
    Credits(u64, bool),
    Message(Result<MessageSent, SendMessageError>),
    /// A report on a message; its effect shows in the log.
    Reported,
}

#[derive(Debug)]
struct Request {
    phone: Phone,
    expires_at: Timestamp,
    /// The smallest and the largest possible number of wrong codes.
    missed: (u8, u8),
    verified: Truth,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    No,
    Maybe,
    Yes,
}

#[derive(Debug)]
pub(super) struct Model {
    requests: BTreeMap<RequestId, Request>,
    /// Every send that was acknowledged (`true`) or has an unknown outcome (`false`).
    sends: Vec<(Timestamp, Phone, bool)>,
    resends: BTreeMap<RequestId, (usize, usize)>,
    /// The acknowledged messages.
    messages: BTreeSet<MessageId>,
    /// The possible values of the two limits.
    limits: BTreeSet<(u32, u32)>,
    /// The possible balances without sends and refunds.
    balances: BTreeSet<u64>,
    /// The log as it was last read.
    log: Vec<EventEntry>,
}

impl Model {
    pub(super) fn new(limits: (u32, u32), credits: u64) -> Self {
        Self {
            requests: BTreeMap::new(),
            sends: Vec::new(),
            resends: BTreeMap::new(),
            messages: BTreeSet::new(),
            limits: BTreeSet::from([limits]),
            balances: BTreeSet::from([credits]),
            log: Vec::new(),
        }
    }

    /// Returns the acknowledged requests, and their phones.
    pub(super) fn acknowledged(&self) -> Vec<(RequestId, Phone)> {
        self.requests.iter().map(|(id, request)| (*id, request.phone)).collect()
    }

    /// Returns the acknowledged messages.
    pub(super) fn messages(&self) -> Vec<MessageId> {
        self.messages.iter().copied().collect()
    }

    pub(super) fn apply(&mut self, now: Timestamp, answer: Answer) {
        match answer {
            Answer::Send(phone, Ok(sent)) => {
                self.sent(now, phone, true);
                let expires_at = now.plus(Duration::from_secs(300));
                assert_eq!(sent.expires_at, expires_at);
                let missed = (0, 0);
                let request = Request { phone, expires_at, missed, verified: Truth::No };
                assert!(self.requests.insert(sent.request_id, request).is_none());
            }
            Answer::Send(phone, Err(error)) => self.refused(now, phone, &error),
            Answer::Resend(id, Ok(sent)) => {
                let request = &self.requests[&id];
                assert_eq!((sent.request_id, sent.expires_at), (id, request.expires_at));
                assert!(now < request.expires_at && request.verified != Truth::Yes);
                self.sent(now, self.requests[&id].phone, true);
                self.resends.entry(id).or_default().0 += 1;
            }
            Answer::Resend(id, Err(ResendOtpError::Ended(why))) => self.ended(now, id, &why),
            Answer::Resend(id, Err(ResendOtpError::Refused(error))) => {
                if matches!(error, SendOtpError::Unavailable(_)) {
                    self.resends.entry(id).or_default().1 += 1;
                }
                self.refused(now, self.requests[&id].phone, &error);
            }
            Answer::Verify(id, right, answer) => self.verified(now, id, right, answer),
            Answer::Read(id, Ok(state)) => self.read(now, id, state),
            Answer::Read(id, Err(ReadOtpError::NotFound)) => {
                self.ended(now, id, &VerifyOtpError::NotFound);
            }
            Answer::Read(_, Err(ReadOtpError::Unavailable(_))) => {}
            Answer::Limits(limits, known) => {
                if known {
                    self.limits.clear();
                }
                self.limits.insert(limits);
            }
            Answer::Credits(add, known) => {
                let added: Vec<_> = self.balances.iter().map(|balance| balance + add).collect();
                if known {
                    self.balances.clear();
                }
                self.balances.extend(added);
            }
            Answer::Message(Ok(sent)) => {
                assert_eq!(sent.status, MessageStatus::Queued);
                assert!(self.messages.insert(sent.message_id));
            }
            Answer::Message(Err(SendMessageError::InsufficientCredits { available, .. })) => {
                assert_eq!(available, 0);
            }
            Answer::Message(Err(SendMessageError::Unavailable(_))) | Answer::Reported => {}
            Answer::Message(Err(why)) => panic!("{why}"),
        }
    }

    /// Counts sends in the window that ends now, to one phone or to all: acknowledged, and
    /// possible.
    fn inside(&self, now: Timestamp, window: Duration, to: Option<Phone>) -> (usize, usize) {
        let inside = |(at, phone, _): &&(Timestamp, Phone, bool)| {
            at.plus(window) > now && to.is_none_or(|to| to == *phone)
        };
        let sends: Vec<_> = self.sends.iter().filter(inside).collect();
        (sends.iter().filter(|(_, _, known)| *known).count(), sends.len())
    }

    fn sent(&mut self, now: Timestamp, phone: Phone, known: bool) {
        self.sends.push((now, phone, known));
        if known {
            let of_phone = self.inside(now, TEN_MINUTES, Some(phone)).0;
            let of_all = self.inside(now, HOUR, None).0;
            let within = |limit: u32, sends: usize| limit == 0 || sends <= limit as usize;
            let allowed = |(own, all): &(u32, u32)| within(*own, of_phone) && within(*all, of_all);
            assert!(self.limits.iter().any(allowed), "{of_phone}, {of_all}: {:?}", self.limits);
        }
    }

    fn refused(&mut self, now: Timestamp, phone: Phone, error: &SendOtpError) {
        match error {
            SendOtpError::PhoneLimit { .. } => {
                let sends = self.inside(now, TEN_MINUTES, Some(phone)).1;
                assert!(self.limits.iter().any(|(own, _)| *own > 0 && sends >= *own as usize));
            }
            SendOtpError::WorkspaceLimit { .. } => {
                let sends = self.inside(now, HOUR, None).1;
                assert!(self.limits.iter().any(|(_, all)| *all > 0 && sends >= *all as usize));
            }
            SendOtpError::NotConnected | SendOtpError::UnknownNumber => {
                panic!("a number was acknowledged")
            }
            SendOtpError::Template(_) => panic!("no template is needed"),
            SendOtpError::DestinationBlocked(_) => panic!("every destination is allowed"),
            SendOtpError::CallerLimit { .. } => panic!("no caller is named"),
            SendOtpError::ChannelNotConfigured(_)
            | SendOtpError::EmailMissing
            | SendOtpError::NoEmail => panic!("no channel is named"),
            SendOtpError::InsufficientCredits { available, .. } => assert_eq!(*available, 0),
            SendOtpError::Unavailable(_) => self.sent(now, phone, false),
        }
    }

    fn verified(
        &mut self,
        now: Timestamp,
        id: RequestId,
        right: bool,
        answer: Result<Verification, VerifyOtpError>,
    ) {
        let request = self.requests.get_mut(&id).unwrap();
        let (fewest, most) = request.missed;
        let active = now < request.expires_at && fewest < 5;
        match answer {
            Ok(Verification::Verified) => {
                assert!(right && active, "{request:?}");
                // Also not if the unknown outcome of an earlier one turns out to be this one.
                assert_ne!(request.verified, Truth::Yes, "a code is accepted once");
                request.verified = Truth::Yes;
            }
            Ok(Verification::Wrong { attempts_remaining }) => {
                let missed = 5 - attempts_remaining;
                assert!(!right && active && request.verified != Truth::Yes, "{request:?}");
                assert!((fewest + 1..=most + 1).contains(&missed), "{missed}: {request:?}");
                (request.missed, request.verified) = ((missed, missed), Truth::No);
            }
            Err(VerifyOtpError::MaxAttempts) => {
                assert!(most + u8::from(!right) >= 5, "{request:?}");
                assert_ne!(request.verified, Truth::Yes);
                (request.missed, request.verified) = ((5, 5), Truth::No);
            }
            Err(VerifyOtpError::Unavailable(_)) if right => {
                if request.verified == Truth::No {
                    request.verified = Truth::Maybe;
                }
            }
            Err(VerifyOtpError::Unavailable(_)) => request.missed.1 = (most + 1).min(5),
            Err(why) => self.ended(now, id, &why),
        }
    }

    fn ended(&mut self, now: Timestamp, id: RequestId, why: &VerifyOtpError) {
        let request = self.requests.get_mut(&id).unwrap();
        match why {
            VerifyOtpError::NotFound => assert!(now >= request.expires_at.plus(HOUR)),
            VerifyOtpError::Expired => assert!(now >= request.expires_at),
            VerifyOtpError::MaxAttempts => {
                assert!(request.missed.1 == 5);
                request.missed = (5, 5);
            }
            VerifyOtpError::AlreadyVerified => {
                assert_ne!(request.verified, Truth::No);
                request.verified = Truth::Yes;
            }
            VerifyOtpError::Cancelled => panic!("nothing is cancelled"),
            VerifyOtpError::InboundOnly => panic!("nobody writes a code to us"),
            VerifyOtpError::Unavailable(_) => {}
        }
    }

    fn read(&mut self, now: Timestamp, id: RequestId, state: OtpState) {
        let request = self.requests.get_mut(&id).unwrap();
        assert_eq!(state.expires_at, request.expires_at);
        let missed = 5 - state.attempts_remaining;
        assert!((request.missed.0..=request.missed.1).contains(&missed), "{missed}: {request:?}");
        request.missed = (missed, missed);
        match state.status {
            OtpStatus::Verified => assert_ne!(request.verified, Truth::No),
            _ => assert_ne!(request.verified, Truth::Yes, "{state:?}"),
        }
        let verified = state.status == OtpStatus::Verified;
        request.verified = if verified { Truth::Yes } else { Truth::No };
        match state.status {
            OtpStatus::Active => assert!(now < request.expires_at && missed < 5),
            OtpStatus::Expired => assert!(now >= request.expires_at && missed < 5),
            OtpStatus::Invalidated => assert_eq!(missed, 5),
            OtpStatus::Verified => {}
            OtpStatus::Cancelled => panic!("nothing is cancelled"),
        }
    }

    /// Compares the model with the durable state: the log and the balance.
    pub(super) fn check(&mut self, log: Vec<EventEntry>, credits: u64, states: &[MessageState]) {
        let sequences: Vec<_> = log.iter().map(|entry| entry.sequence).collect();
        assert_eq!(sequences, (1..=log.len() as u64).collect::<Vec<_>>(), "gapless");
        assert!(log.starts_with(&self.log), "the log only grows");
        let mut emitted: BTreeMap<RequestId, Emitted> = BTreeMap::new();
        let messages = EmittedMessages::of(&log);
        messages.check(&self.messages, states);
        for entry in &log {
            if matches!(entry.event, PublicEvent::Message(_)) {
                continue;
            }
            let (PublicEvent::OtpSent { request_id, .. }
            | PublicEvent::OtpVerified { request_id, .. }
            | PublicEvent::OtpExpired { request_id, .. }
            | PublicEvent::OtpFailed { request_id, .. }) = entry.event
            else {
                panic!("{:?} is about no one-time password", entry.event);
            };
            emitted.entry(request_id).or_default().add(&entry.event);
        }
        for (id, emitted) in &emitted {
            assert_eq!(emitted.sent, 1, "{id}: {emitted:?}");
            assert!(emitted.verified + emitted.expired + emitted.used_up <= 1, "{id}: {emitted:?}");
            assert!(emitted.paid_back <= emitted.sent + emitted.resent, "{id}: {emitted:?}");
        }
        for (id, request) in &self.requests {
            let emitted = emitted.get(id).unwrap_or(&Emitted::NOTHING);
            assert_eq!(emitted.sent, 1, "an acknowledged send has its otp.sent");
            let (known, unknown) = self.resends.get(id).copied().unwrap_or_default();
            assert!((known..=known + unknown).contains(&emitted.resent), "{emitted:?}");
            let impossible = if emitted.verified == 1 { Truth::No } else { Truth::Yes };
            assert_ne!(request.verified, impossible, "{request:?}");
        }
        let debits: usize = emitted.values().map(|emitted| emitted.sent + emitted.resent).sum();
        let refunds: usize = emitted.values().map(|emitted| emitted.paid_back).sum();
        let refunds = refunds + messages.count("message.failed");
        let debits = debits + messages.count("message.queued");
        let balance = credits + debits as u64 - refunds as u64;
        // A message that fails after its code was sent again is refunded without an event.
        let unemitted: usize = emitted.values().map(|emitted| emitted.resent).sum();
        let lowest = balance.saturating_sub(unemitted as u64);
        self.balances.retain(|possible| (lowest..=balance).contains(possible));
        assert!(!self.balances.is_empty(), "{balance}, or {unemitted} less, is impossible");
        self.log = log;
    }
}

/// The counts of one request's events in the log.
#[derive(Debug, Default)]
struct Emitted {
    sent: usize,
    resent: usize,
    verified: usize,
    expired: usize,
    used_up: usize,
    paid_back: usize,
}

impl Emitted {
    const NOTHING: Self =
        Self { sent: 0, resent: 0, verified: 0, expired: 0, used_up: 0, paid_back: 0 };

    fn add(&mut self, event: &PublicEvent) {
        let count = match event {
            PublicEvent::OtpSent { resend: false, .. } => &mut self.sent,
            PublicEvent::OtpSent { resend: true, .. } => &mut self.resent,
            PublicEvent::OtpVerified { .. } => &mut self.verified,
            PublicEvent::OtpExpired { .. } => &mut self.expired,
            PublicEvent::OtpFailed { reason: OtpFailure::MaxAttempts, .. } => &mut self.used_up,
            PublicEvent::OtpFailed { .. } => &mut self.paid_back,
            PublicEvent::Noted { .. } => panic!("nothing is noted beside a code"),
            PublicEvent::Message(_) | PublicEvent::Other { .. } => return,
        };
        *count += 1;
    }
}
