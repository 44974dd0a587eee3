//! Pure: the payloads of the events of numbers.

use serde::Serialize;

use super::fields;
use crate::{NumberId, Timestamp};

/// A number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NumberData {
    /// The number.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
}

/// A number of which something is otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NumberChangedData {
    /// The number.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
    /// What: `pace`, `quality`, `name_status` or `limit`.
    pub field: &'static str,
    /// What it was, a number in digits; null if that was not known.
    #[cfg_attr(feature = "schema", schema(required))]
    pub previous: Option<Box<str>>,
    /// What it is, a number in digits.
    pub value: Box<str>,
}

/// A portfolio of numbers that may write to nobody else for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LimitReachedData {
    /// The portfolio.
    pub portfolio_id: Box<str>,
    /// How many people it may write to first within 24 hours.
    #[cfg_attr(feature = "schema", schema(required))]
    pub daily_recipients: Option<u32>,
    /// When it may write to the next one.
    #[serde(serialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(required, value_type = Option<String>, format = DateTime))]
    pub frees_at: Option<Timestamp>,
}

/// A portfolio of numbers that may write to others again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LimitFreedData {
    /// The portfolio.
    pub portfolio_id: Box<str>,
    /// How many people it may write to first within 24 hours; null for as many as one likes.
    #[cfg_attr(feature = "schema", schema(required))]
    pub daily_recipients: Option<u32>,
}

/// A number whose account cannot send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NumberStoppedData {
    /// The number.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
    /// The channel's own error code, where it gave one.
    #[cfg_attr(feature = "schema", schema(required))]
    pub error_code: Option<u32>,
    /// What the channel says.
    pub reason: Box<str>,
}

/// An error of the channel that concerns more than one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChannelErrorData {
    /// The number that it happened to.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
    /// The channel's own error code, where it gave one.
    #[cfg_attr(feature = "schema", schema(required))]
    pub error_code: Option<u32>,
    /// The channel's name for the error, where it gave one.
    #[cfg_attr(feature = "schema", schema(required))]
    pub title: Option<Box<str>>,
    /// The channel's explanation; empty where it gave none.
    pub details: Box<str>,
}

/// Items of callbacks that nothing was taken from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChannelIgnoredData {
    /// The number that they were about.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
    /// The field of the callbacks: one that the channel documents, or `other`.
    pub field: &'static str,
    /// Why nothing was taken: `unknown_field`, `unknown_type`, `unreadable` or `no_sender`.
    pub reason: &'static str,
    /// How many came since the last such event of the number, field and reason.
    pub count: u64,
}
