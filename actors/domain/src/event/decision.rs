//! Pure: the payload of `otp.decided`: the reason for allowing or refusing a one-time password.

use serde::{Deserialize, Serialize};

use super::fields;
use crate::{Phone, RequestId};

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
    #[serde(serialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub request_id: Option<RequestId>,
    /// Where it goes, in E.164.
    #[serde(serialize_with = "fields::text")]
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
