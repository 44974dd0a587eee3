//! Pure: the payloads of the events of numbers.

use serde::Serialize;

use crate::NumberId;

/// A number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NumberData {
    /// The number.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
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
