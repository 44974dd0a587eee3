//! Pure: what callers ask about one-time passwords, what is answered, and how it is refused.

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

use crate::core::records;
use crate::core::settings::UseTemplateError;
use postrider_domain::unavailable::Unavailable;

/// Asks for a one-time password to be made and sent to a phone.
#[derive(Debug, Clone)]
pub struct SendOtp {
    /// Where it goes; [`Phone::ANYBODY`] of a code that any phone may send.
    pub phone: Phone,
    /// How long it is valid.
    pub expiry: Expiry,
    /// How many digits it has.
    pub length: CodeLength,
    /// What few callers ask for.
    pub more: Option<Box<SendMore>>,
}

/// What few callers ask for when they send a one-time password.
#[derive(Debug, Clone, Default)]
pub struct SendMore {
    /// Who asked the caller for it.
    pub context: CallerContext,
    /// What the caller calls the request.
    pub reference: Option<String>,
    /// What the caller keeps with it.
    pub metadata: BTreeMap<String, String>,
    /// The steps that it goes over, in place of the workspace's.
    pub channels: Option<Vec<ChainStep>>,
    /// Where a step by mail goes.
    pub email: Option<String>,
    /// Nothing is sent: the person sends the code to a number of the workspace.
    pub inbound: bool,
    /// In which language it is to be written.
    pub language: Option<Language>,
    /// What serves that language; set when it is sent.
    pub languages: Option<OtpLanguages>,
    /// The number that it is to leave through, by its id or its phone; `None`: the contact's.
    pub from: Option<Box<str>>,
    /// The number that it leaves through, where there is a choice; set when it is sent.
    pub through: Option<NumberId>,
}

/// Who asked the caller for a one-time password. It is counted, and kept as a keyed hash only; so
/// its `Debug` does not show it.
#[derive(Clone, Default)]
pub struct CallerContext {
    /// From which address.
    pub ip: Option<IpAddr>,
    /// In which session.
    pub session: Option<String>,
}

impl fmt::Debug for CallerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerContext(…)")
    }
}

/// What a caller is distinguished by.
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
    /// Its name in a refusal: `ip`, `session` or `email`.
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
    /// A code of letters and digits that any phone may send to a number of the workspace.
    #[must_use]
    pub fn from_anybody() -> Self {
        let more = SendMore { inbound: true, ..SendMore::default() };
        Self { more: Some(Box::new(more)), ..Self::to(Phone::ANYBODY) }
    }

    /// A six-digit code that is valid for five minutes.
    #[must_use]
    pub fn to(phone: Phone) -> Self {
        Self { phone, expiry: Expiry::default(), length: CodeLength::default(), more: None }
    }
}

/// A one-time password was accepted: durable, and on its way to the phone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtpSent {
    /// Names the request in every later call.
    pub request_id: RequestId,
    /// When the code stops being valid.
    pub expires_at: Timestamp,
    /// The number that it leaves through; `None` where it leaves through none.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "records::if_kept")]
    pub number: Option<NumberId>,
}

/// What verifying a code found. Each answer is durable: a crash does not give an attempt back, nor
/// lets a code be accepted again.
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

/// Where a request for a one-time password stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtpState {
    /// The request.
    pub request_id: RequestId,
    /// Whether it can still be verified, and if not, why.
    pub status: OtpStatus,
    /// Wrong codes that are still allowed: 0 to 5.
    pub attempts_remaining: u8,
    /// When the code stops, or stopped, being valid.
    pub expires_at: Timestamp,
    /// What the channel made of the message.
    pub delivery: Delivery,
    /// What is noted of it.
    pub notes: OtpNotes,
    /// What became of each try to bring its code.
    pub tries: Vec<OtpTry>,
    /// The channel that delivered it, or that of the step that began last.
    pub channel: OtpChannel,
    /// The language that is used over that channel; `None` of an ended one where it was the
    /// workspace's own.
    pub language: Option<String>,
    /// Where it went, or who is to send it; `None`: any phone may, and none has.
    pub phone: Option<Phone>,
    /// The code, of one that its person sends while it can be.
    pub inbound_code: Option<InboundCode>,
    /// Whether its person sends the code.
    pub is_inbound: bool,
    /// The number that its messages leave through; of an ended one only where there was a choice.
    pub number: Option<NumberId>,
}

pub use postrider_domain::event::otp::OtpTry;
pub use postrider_domain::event::{Delivery, OtpStatus};

/// The rule by which a destination is blocked, with its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockedBy {
    /// The workspace does not allow it.
    Destinations,
    /// Too many of the country were not verified in this hour.
    Unverified {
        /// The country.
        calling_code: u16,
        /// Those that were not.
        unverified: u32,
    },
    /// Too few of those that have ended were verified.
    Conversion {
        /// A calling code, or one and the next three digits.
        prefix: String,
        /// Those that have ended.
        sent: u32,
        /// Those of them that were verified.
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

/// Why a one-time password was not sent. It consumed no quota, no credit and no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendOtpError {
    /// The phone has had as many as it may in the last ten minutes, or hour.
    #[error("too many one-time passwords to this phone")]
    PhoneLimit {
        /// When the next one is allowed.
        retry_after: Duration,
    },
    /// Who asked for it has had as many as they may in the last ten minutes, or hour.
    #[error("too many one-time passwords for this {}", .by.as_str())]
    CallerLimit {
        /// What they are distinguished by.
        by: CallerKind,
        /// When the next one is allowed.
        retry_after: Duration,
    },
    /// The workspace has sent as many as it may in the last hour.
    #[error("too many one-time passwords in this workspace")]
    WorkspaceLimit {
        /// When the next one is allowed.
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

/// Why a code could not be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyOtpError {
    /// There is no such request in this workspace, or it ended more than an hour ago.
    #[error("no such one-time password request")]
    NotFound,
    /// Its time has passed.
    #[error("the one-time password has expired")]
    Expired,
    /// This was the fifth wrong code, or came after it.
    #[error("too many wrong codes; a new one-time password is needed")]
    MaxAttempts,
    /// It has been verified before.
    #[error("the one-time password was already verified")]
    AlreadyVerified,
    /// It has been cancelled.
    #[error("the one-time password was cancelled")]
    Cancelled,
    /// Its person sends the code to a number of the workspace.
    #[error("the code of this request is verified by the message that its person sends")]
    InboundOnly,
    /// It cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a one-time password was not sent again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResendOtpError {
    /// The request has ended or does not exist: what a verification of it would answer.
    #[error(transparent)]
    Ended(VerifyOtpError),
    /// It could not be sent.
    #[error(transparent)]
    Refused(SendOtpError),
}

/// Why the state of a request is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadOtpError {
    /// There is no such request in this workspace, or it ended more than an hour ago.
    #[error("no such one-time password request")]
    NotFound,
    /// It is not known now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
