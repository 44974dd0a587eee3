//! Pure: requests, answers and refusals of the operations on one-time passwords.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use postrider_domain::code::{CodeLength, Expiry};
use postrider_domain::event::chain::{ChainStep, OtpChannel};
use postrider_domain::event::otp::{OtpLanguages, OtpNotes};
use postrider_domain::open_code::InboundCode;
use postrider_domain::otp_text::Language;
use postrider_domain::{NumberId, Phone, RequestId, Timestamp};

use crate::core::settings::UseTemplateError;
use postrider_domain::unavailable::Unavailable;

/// Asks for a one-time password to be made and sent to a phone.
#[derive(Debug, Clone)]
pub struct SendOtp {
    /// The destination; [`Phone::ANYBODY`] of a code that any phone may send.
    pub phone: Phone,
    /// The time for which the code is valid.
    pub expiry: Expiry,
    /// The number of digits.
    pub length: CodeLength,
    /// The options that few callers use.
    pub more: Option<Box<SendMore>>,
}

/// Options of a send that few callers use.
#[derive(Debug, Clone, Default)]
pub struct SendMore {
    /// The person who asked the caller for it.
    pub context: CallerContext,
    /// The caller's reference for the request.
    pub reference: Option<String>,
    /// The caller's metadata of the request.
    pub metadata: BTreeMap<String, String>,
    /// The steps of the request, in place of the workspace's.
    pub channels: Option<Vec<ChainStep>>,
    /// The address for a step by mail.
    pub email: Option<String>,
    /// Set if nothing is sent: the person sends the code to a number of the workspace.
    pub inbound: bool,
    /// The language in which the code is to be written.
    pub language: Option<Language>,
    /// The languages of the template and the texts for it; set when it is sent.
    pub languages: Option<OtpLanguages>,
    /// The number that it is to leave through, by its id or its phone; `None`: the contact's.
    pub from: Option<Box<str>>,
    /// The number through which it leaves, if there is a choice; set when it is sent.
    pub through: Option<NumberId>,
}

/// The person who asked the caller for a one-time password.
///
/// It is counted, and stored as a keyed hash only; so its `Debug` does not show it.
#[derive(Clone, Default)]
pub struct CallerContext {
    /// The address of the person.
    pub ip: Option<IpAddr>,
    /// The session of the person.
    pub session: Option<String>,
}

impl fmt::Debug for CallerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerContext(…)")
    }
}

/// The property that distinguishes callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerKind {
    /// An address, of IPv6 its /64.
    Ip,
    /// A session.
    Session,
    /// The address of mail that the code may go to.
    Email,
}

impl CallerKind {
    /// Returns its name in a refusal: `ip`, `session` or `email`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Session => "session",
            Self::Email => "email",
        }
    }
}

impl SendOtp {
    /// Requests a code of letters and digits that any phone may send to a number of the workspace.
    #[must_use]
    pub fn from_anybody() -> Self {
        let more = SendMore { inbound: true, ..SendMore::default() };
        Self { more: Some(Box::new(more)), ..Self::to(Phone::ANYBODY) }
    }

    /// Requests a six-digit code that is valid for five minutes.
    #[must_use]
    pub fn to(phone: Phone) -> Self {
        Self { phone, expiry: Expiry::default(), length: CodeLength::default(), more: None }
    }
}

/// A one-time password was accepted: durable, and on its way to the phone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtpSent {
    /// The id of the request in every later call.
    pub request_id: RequestId,
    /// The time at which the code expires.
    pub expires_at: Timestamp,
    /// The number that it leaves through; `None` where it leaves through none.
    pub number: Option<NumberId>,
}

/// The result of a verification.
///
/// Each answer is durable: a crash does not give an attempt back, nor lets a code be accepted
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// It is the code. No other verification of this request is ever answered so.
    Verified,
    /// It is not the code.
    Wrong {
        /// Wrong codes that are still allowed, the last of which ends the request: 1 to 4.
        attempts_remaining: u8,
    },
}

/// The state of a request for a one-time password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtpState {
    /// The request.
    pub request_id: RequestId,
    /// The status: whether it can still be verified, and if not, why.
    pub status: OtpStatus,
    /// Wrong codes that are still allowed: 0 to 5.
    pub attempts_remaining: u8,
    /// The time at which the code expires, or expired.
    pub expires_at: Timestamp,
    /// The delivery of its newest message. An hour after its end it is the delivery at that end.
    pub delivery: Delivery,
    /// The number of sends.
    pub sends: u8,
    /// The time at which the right code was entered.
    pub verified_at: Option<Timestamp>,
    /// The time of its end, if it has ended.
    pub ended_at: Option<Timestamp>,
    /// The notes of the request.
    pub notes: OtpNotes,
    /// The outcome of each try to deliver its code.
    pub tries: Vec<OtpTry>,
    /// The channel that delivered it, or that of the step that started last.
    pub channel: OtpChannel,
    /// The language of the code over that channel. `None` for an ended request that used the
    /// workspace's own.
    pub language: Option<String>,
    /// The phone to which it went, or that is to send it; `None`: any phone may, and none has.
    pub phone: Option<Phone>,
    /// The code, if its person sends it and still can.
    pub inbound_code: Option<InboundCode>,
    /// Set if its person sends the code.
    pub is_inbound: bool,
    /// The number through which its messages leave; for an ended one only if there was a choice.
    pub number: Option<NumberId>,
}

pub use postrider_domain::event::otp::OtpTry;
pub use postrider_domain::event::{Delivery, OtpStatus};

/// The rule by which a destination is blocked, with its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockedBy {
    /// The workspace does not allow it.
    Destinations,
    /// Too many codes to the country were not verified in this hour.
    Unverified {
        /// The country.
        calling_code: u16,
        /// The number of codes that were not verified.
        unverified: u32,
    },
    /// Too few of the ended codes were verified.
    Conversion {
        /// A calling code, or one and the next three digits.
        prefix: String,
        /// The number of codes that have ended.
        sent: u32,
        /// The number of them that were verified.
        verified: u32,
    },
}

impl fmt::Display for BlockedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Destinations => f.write_str("the workspace does not allow it"),
            Self::Unverified { calling_code, unverified } => {
                write!(f, "{unverified} to +{calling_code} were not verified in this hour")
            }
            Self::Conversion { prefix, sent, verified } => {
                write!(f, "{verified} of {sent} to +{prefix} were verified")
            }
        }
    }
}

/// The reason why a one-time password was not sent. It consumed no quota, no credit and no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendOtpError {
    /// The phone has received as many as it may in the last ten minutes, or hour.
    #[error("too many one-time passwords to this phone")]
    PhoneLimit {
        /// The time until the next one is allowed.
        retry_after: Duration,
    },
    /// The person who asked for it has received as many as allowed in the last ten minutes, or
    /// hour.
    #[error("too many one-time passwords for this {}", .by.as_str())]
    CallerLimit {
        /// The kind of the caller.
        by: CallerKind,
        /// The time until the next one is allowed.
        retry_after: Duration,
    },
    /// The workspace has sent as many as it may in the last hour.
    #[error("too many one-time passwords in this workspace")]
    WorkspaceLimit {
        /// The time until the next one is allowed.
        retry_after: Duration,
    },
    /// The workspace has no messaging number.
    #[error("the workspace has no active messaging number")]
    NotConnected,
    /// It is to leave through a number that the workspace does not have.
    #[error("the workspace has no such number")]
    UnknownNumber,
    /// The template that carries one-time passwords cannot be used.
    #[error("the template of one-time passwords cannot be used: {0}")]
    Template(#[from] UseTemplateError),
    /// One-time passwords are not sent there, or not now.
    #[error("one-time passwords are not sent to this destination: {0}")]
    DestinationBlocked(BlockedBy),
    /// A channel that it is to go over is not set up.
    #[error("the channel {} is not set up", .0.as_str())]
    ChannelNotConfigured(OtpChannel),
    /// A step goes by mail, and no address was given.
    #[error("must be given for a step by email")]
    EmailMissing,
    /// It is to be sent again by mail, and its sender gave no address.
    #[error("the request has no email address")]
    NoEmail,
    /// The workspace cannot pay for it.
    #[error("not enough credits: {needed} needed, {available} available")]
    InsufficientCredits {
        /// The price.
        needed: u64,
        /// The balance.
        available: u64,
    },
    /// It cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The reason why a code could not be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyOtpError {
    /// There is no such request in this workspace, or it ended more than an hour ago.
    #[error("no such one-time password request")]
    NotFound,
    /// The code has expired.
    #[error("the one-time password has expired")]
    Expired,
    /// This was the fifth wrong code, or came after it.
    #[error("too many wrong codes; a new one-time password is needed")]
    MaxAttempts,
    /// The request has been verified before.
    #[error("the one-time password was already verified")]
    AlreadyVerified,
    /// The request has been cancelled.
    #[error("the one-time password was cancelled")]
    Cancelled,
    /// Its person sends the code to a number of the workspace.
    #[error("the code of this request is verified by the message that its person sends")]
    InboundOnly,
    /// It cannot be compared now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The reason why a one-time password was not sent again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResendOtpError {
    /// The request has ended or does not exist, with the answer of a verification.
    #[error(transparent)]
    Ended(VerifyOtpError),
    /// The send was refused.
    #[error(transparent)]
    Refused(SendOtpError),
}

/// The reason why the state of a request is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadOtpError {
    /// There is no such request in this workspace, or it ended more than an hour ago.
    #[error("no such one-time password request")]
    NotFound,
    /// The state is not known now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
