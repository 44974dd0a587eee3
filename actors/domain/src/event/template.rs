//! Pure: the payload of the events of templates.

use serde::Serialize;

use crate::template::{TemplateCategory, TemplateQuality, TemplateStatus};

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
    /// The account whose template it is; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<Box<str>>,
}

/// A template that the channel has put into another category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateCategoryData {
    /// Its name.
    pub name: Box<str>,
    /// Its language.
    pub language: Box<str>,
    /// Its category before.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub previous: TemplateCategory,
    /// Its category now, which the price and the opt-out rule of new messages follow.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub category: TemplateCategory,
    /// The account whose template it is; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<Box<str>>,
}

/// A template that the channel rates differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateQualityData {
    /// Its name.
    pub name: Box<str>,
    /// Its language.
    pub language: Box<str>,
    /// Its quality before: `green`, `yellow`, `red` or `unknown`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub previous: TemplateQuality,
    /// Its quality now.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub quality: TemplateQuality,
    /// The account whose template it is; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<Box<str>>,
}
