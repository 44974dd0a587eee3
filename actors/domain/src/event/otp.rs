//! Pure: the payloads of the events of one-time passwords, and the notes of a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::chain::{OtpChannel, TryStatus};
use super::payload::{as_text, phone_or_null, text_or_null};
use crate::{ContactId, NumberId, Phone, RequestId, Timestamp};

/// What is known of a request beside its own fields. Every event and row about it shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct OtpNotes {
    /// True for a request to a test phone, which nothing was sent for. Left out of others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub test: bool,
    /// What its sender calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The number that its messages leave through, where the workspace has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub number_id: Option<NumberId>,
    /// Who sent the code, of one that its person sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub contact_id: Option<ContactId>,
    /// The notes that events do not show.
    #[serde(rename = "_", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub own: Option<Box<OtpOwnNotes>>,
}

/// Postrider's own notes of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OtpOwnNotes {
    /// The languages that it uses, if its sender asked for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub languages: Option<OtpLanguages>,
    /// Set if its person sends the code.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inbound: bool,
    /// Set if its sender has named the number that it leaves through.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The phone that has sent the code, if any phone may send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<Phone>,
    /// The decision on its newest send, if its destination is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<OtpDecision>,
    /// The status of its tries at its end, if it used several channels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<OtpTry>,
}

/// One try to deliver a code to its person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtpTry {
    /// The number of the try, from 1.
    pub step: u8,
    /// The channel of the try.
    pub channel: OtpChannel,
    /// The status of the try.
    pub status: TryStatus,
    /// The channel's error code, if it gave one.
    pub error: Option<u32>,
    /// The price; 0 once it was refunded.
    pub price: u64,
    /// The time of its start.
    pub started_at: Timestamp,
    /// The time at which the chain went on from it, or ended.
    pub ended_at: Option<Timestamp>,
}

/// The languages of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtpLanguages {
    /// The language of the template of messages.
    pub template: Box<str>,
    /// The language of SMS and mails.
    pub text: Box<str>,
}

impl OtpNotes {
    /// Returns the notes that events show, as a JSON object, or `None` if there are none.
    #[must_use]
    pub fn shown(&self) -> Option<Box<str>> {
        Self { own: None, ..self.clone() }.to_json()
    }

    /// Returns the notes as a JSON object, or `None` if there are none.
    #[must_use]
    pub fn to_json(&self) -> Option<Box<str>> {
        let text = serde_json::to_string(self).unwrap_or_default();
        (*self != Self::default()).then(|| text.into())
    }

    /// Returns the decision on its newest send, if its destination is limited.
    #[must_use]
    pub fn decision(&self) -> Option<OtpDecision> {
        self.own.as_ref().and_then(|own| own.decision)
    }

    /// Reads the output of [`to_json`](Self::to_json).
    #[must_use]
    pub fn from_json(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// A one-time password on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OtpSentData {
    /// The request.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub request_id: RequestId,
    /// Where it goes, in E.164; null of a code that any phone may send.
    #[serde(serialize_with = "phone_or_null")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub phone: Phone,
    /// When the code stops being valid.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
    /// Whether it was sent before, and now once more.
    pub resend: bool,
    /// True for a request to a test phone; left out of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<bool>,
    /// What its sender calls it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The number that its messages leave through, where the workspace has several; left out where
    /// there is no choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub number_id: Option<NumberId>,
}

/// A request for a one-time password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OtpData {
    /// The request.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub request_id: RequestId,
    /// Where it went, or who sent it, in E.164; null of a code that anybody may send until somebody
    /// has, and of a person whose phone the channel hides.
    #[serde(serialize_with = "phone_or_null")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub phone: Phone,
    /// The channel that delivered it, of a request with a chain: `messaging`, `sms` or `email`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<&'static str>,
    /// Who sent the code, in `otp.verified` of one that its person sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub contact_id: Option<ContactId>,
    /// True for a request to a test phone; left out of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<bool>,
    /// What its sender calls it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The number that its messages leave through, where the workspace has several; left out where
    /// there is no choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub number_id: Option<NumberId>,
}

impl OtpData {
    /// Creates a request without notes.
    #[must_use]
    pub const fn of(request_id: RequestId, phone: Phone) -> Self {
        Self {
            request_id,
            phone,
            channel: None,
            contact_id: None,
            test: None,
            reference: None,
            metadata: None,
            number_id: None,
        }
    }
}

/// A request for a one-time password that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OtpFailedData {
    /// The request.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub request_id: RequestId,
    /// Where it was to go, in E.164.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub phone: Phone,
    /// `max_attempts`, `channel_refused` or `not_sent_in_time`.
    pub reason: &'static str,
    /// The channel's own error code, where it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<u32>,
    /// True for a request to a test phone; left out of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<bool>,
    /// What its sender calls it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The number that its messages leave through, where the workspace has several; left out where
    /// there is no choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub number_id: Option<NumberId>,
}

/// Codes that nobody submits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OtpPumpingData {
    /// The calling code of the country, without `+`.
    pub calling_code: String,
    /// Codes of this hour that were not submitted.
    pub unverified: u32,
    /// When the hour began.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub hour: Timestamp,
    /// Whether more are refused.
    pub refused: bool,
}

/// A step of a request begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OtpTryStartedData {
    /// The request.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub request_id: RequestId,
    /// Where the code goes, in E.164.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub phone: Phone,
    /// Which of the request's tries, from 1.
    pub step: u8,
    /// `messaging`, `sms` or `email`.
    pub channel: &'static str,
    /// True for a request to a test phone; left out of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<bool>,
    /// What its sender calls it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The number that its messages leave through, where the workspace has several; left out where
    /// there is no choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub number_id: Option<NumberId>,
}

/// A step of a request is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OtpTryEndedData {
    /// The request.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub request_id: RequestId,
    /// Where the code goes, in E.164.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub phone: Phone,
    /// Which of the request's tries, from 1.
    pub step: u8,
    /// `messaging`, `sms` or `email`.
    pub channel: &'static str,
    /// What is known of it: `queued`, `sent`, `delivered`, `read`, `failed`, `unknown` or
    /// `skipped`.
    pub status: &'static str,
    /// The channel's own error code, where it gave one.
    pub error_code: Option<u32>,
    /// The channel of the step that begins now; null at the end.
    pub next: Option<&'static str>,
    /// True for a request to a test phone; left out of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<bool>,
    /// What its sender calls it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The number that its messages leave through, where the workspace has several; left out where
    /// there is no choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub number_id: Option<NumberId>,
}

/// The decision on a send to a destination whose codes are rarely verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtpDecision {
    /// The workspace lists the destination as safe.
    Allowed,
    /// It is one of the few that are sent, to notice that the destination has recovered.
    Probe,
    /// It was not sent.
    Refused,
    /// It was sent, because the guard only reports.
    WouldRefuse,
}

impl OtpDecision {
    /// All decisions.
    pub const ALL: [Self; 4] = [Self::Allowed, Self::Probe, Self::Refused, Self::WouldRefuse];

    /// Returns the decision of this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|decision| decision.as_str() == word)
    }

    /// Returns the decision's word in events and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Probe => "probe",
            Self::Refused => "refused",
            Self::WouldRefuse => "would_refuse",
        }
    }
}

/// Why a one-time password was let through or refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OtpDecidedData {
    /// The request; null where it was refused, so that there is none.
    #[serde(serialize_with = "text_or_null")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub request_id: Option<RequestId>,
    /// Where it goes, in E.164.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub phone: Phone,
    /// The destination that is limited: a calling code, or one and the next three digits.
    pub prefix: String,
    /// `country` where that is a calling code, else `prefix`.
    pub rule: &'static str,
    /// How many codes to it have ended within the window; of a country, without those of its
    /// regions that are limited themselves.
    pub sent: u32,
    /// How many of them were verified.
    pub verified: u32,
    /// `allowed` (a safe destination), `probe`, `refused` or `would_refuse`.
    pub decision: &'static str,
}
