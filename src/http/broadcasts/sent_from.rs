//! The numbers of a pool that a broadcast is sent from: one, or a list of them.

use std::borrow::Cow;

use serde::Deserialize;
use utoipa::openapi::schema::{Array, ArrayBuilder, OneOf, Schema};
use utoipa::openapi::{ObjectBuilder, RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::http::pipeline::ApiError;

/// The maximum number of numbers that a body may name.
const NUMBERS_MAX: usize = 64;

/// One number, or several, by their ids or phones.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(crate) enum SentFrom {
    One(String),
    Several(Vec<String>),
}

impl SentFrom {
    pub(super) fn numbers(self) -> Result<Vec<Box<str>>, ApiError> {
        match self {
            Self::One(number) => Ok(vec![number.into()]),
            Self::Several(all) if (1..=NUMBERS_MAX).contains(&all.len()) => {
                Ok(all.into_iter().map(Box::from).collect())
            }
            Self::Several(_) => Err(ApiError::field("from", "must name 1 to 64 numbers")),
        }
    }
}

impl PartialSchema for SentFrom {
    fn schema() -> RefOr<Schema> {
        let number = || ObjectBuilder::new().schema_type(Type::String).build();
        let several: Array = ArrayBuilder::new()
            .items(number())
            .min_items(Some(1))
            .max_items(Some(NUMBERS_MAX))
            .build();
        let mut from = OneOf::new();
        from.items = vec![number().into(), several.into()];
        RefOr::T(Schema::OneOf(from))
    }
}

impl ToSchema for SentFrom {
    fn name() -> Cow<'static, str> {
        "SentFrom".into()
    }
}
