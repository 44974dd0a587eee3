//! Pure: the payloads of the events of one-time passwords.

use serde::Serialize;

use super::fields;
use crate::{Phone, RequestId, Timestamp};

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
