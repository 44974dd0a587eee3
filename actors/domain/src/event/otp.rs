//! Pure: the payloads of the events of one-time passwords.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fields;
use crate::{Phone, RequestId, Timestamp};

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
}

impl OtpNotes {
    /// As a JSON object; `None` when nothing is noted.
    #[must_use]
    pub fn to_json(&self) -> Option<Box<str>> {
        let text = serde_json::to_string(self).unwrap_or_default();
        (*self != Self::default()).then(|| text.into())
    }

    /// Reads what [`to_json`](Self::to_json) gave.
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
    /// Where it goes, in E.164.
    #[serde(serialize_with = "fields::text")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub phone: Phone,
    /// When the code stops being valid.
    #[serde(serialize_with = "fields::text")]
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
}

/// A request for a one-time password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OtpData {
    /// The request.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub request_id: RequestId,
    /// Where it went, in E.164.
    #[serde(serialize_with = "fields::text")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub phone: Phone,
    /// True for a request to a test phone; left out of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<bool>,
    /// What its sender calls it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

impl OtpData {
    /// A request of which nothing else is noted.
    #[must_use]
    pub const fn of(request_id: RequestId, phone: Phone) -> Self {
        Self { request_id, phone, test: None, reference: None, metadata: None }
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
    #[serde(serialize_with = "fields::text")]
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
    #[serde(serialize_with = "fields::text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub hour: Timestamp,
    /// Whether more are refused.
    pub refused: bool,
}
