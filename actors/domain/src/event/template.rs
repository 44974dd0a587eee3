//! Pure: the payload of the events of templates.

use serde::Serialize;

use crate::template::{TemplateCategory, TemplateStatus};

/// A template whose status has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateStatusData {
    /// Its name.
    pub name: Box<str>,
    /// Its language.
    pub language: Box<str>,
    /// `utility`, `marketing` or `authentication`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub category: TemplateCategory,
    /// Its status now.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub status: TemplateStatus,
    /// Its status before.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub previous_status: TemplateStatus,
}
