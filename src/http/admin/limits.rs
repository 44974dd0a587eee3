//! Sets what a workspace may use: its limits and its balance.

use std::fmt;

use postrider_actors::domain::prices::CREDITS_MAX;
use postrider_actors::domain::{Limits, LimitsOverride};
use serde::de::{Deserializer, IgnoredAny, MapAccess};
use serde::{Deserialize, Serialize, de};
use utoipa::openapi::schema::{KnownFormat, Object, ObjectBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::workspace_id;
use crate::http::pipeline::{Administrator, Answer, ApiError, Call, Integer, Reply, Routes, route};

/// The prefix of the limits that a key may override.
pub(super) const KEY_LIMITS: &str = "key_";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(set_credits).guarded(Administrator))
        .routes(route!(add_credits).guarded(Administrator))
        .routes(route!(set_limits).guarded(Administrator))
}

/// Limits of a body; `null` leaves a limit as it is.
#[derive(Debug, Default)]
pub(crate) struct LimitsBody(Vec<(&'static str, Integer)>);

impl LimitsBody {
    /// Checks the limits. `prefix` precedes the name in the message of a refusal.
    pub(crate) fn check(&self, prefix: &str) -> Result<LimitsOverride, ApiError> {
        let mut map = serde_json::Map::new();
        for (name, limit) in &self.0 {
            let limit: u64 = limit.within(&format!("{prefix}{name}"), 0, Limits::max_of(name))?;
            map.insert((*name).to_owned(), limit.into());
        }
        serde_json::from_value(map.into()).map_err(|error| ApiError::invalid(error.to_string()))
    }

    /// Returns the names of the limits in the body.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }
}

impl<'de> Deserialize<'de> for LimitsBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = LimitsBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of limits")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LimitsBody, A::Error> {
                let mut seen: Vec<&'static str> = Vec::new();
                let mut limits = Vec::new();
                while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    let Some(name) = Limits::NAMES.iter().find(|name| **name == key) else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    if seen.contains(name) {
                        return Err(de::Error::duplicate_field(name));
                    }
                    seen.push(name);
                    limits.extend(map.next_value::<Option<Integer>>()?.map(|limit| (*name, limit)));
                }
                Ok(LimitsBody(limits))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

/// The schema of the limits in force.
pub(crate) struct LimitsSchema;

/// The schema of limits that are set.
pub(crate) struct NewLimitsSchema;

/// The schema of the limits that a key may have of its own.
pub(crate) struct KeyLimitsSchema;

impl PartialSchema for LimitsSchema {
    fn schema() -> RefOr<Schema> {
        limits("", &[Type::Integer])
    }
}

impl PartialSchema for NewLimitsSchema {
    fn schema() -> RefOr<Schema> {
        limits("", &[Type::Integer, Type::Null])
    }
}

impl PartialSchema for KeyLimitsSchema {
    fn schema() -> RefOr<Schema> {
        limits(KEY_LIMITS, &[Type::Integer, Type::Null])
    }
}

/// Returns the schema of an object with the limits whose names have `prefix`, with values of
/// `types`.
fn limits(prefix: &str, types: &[Type]) -> RefOr<Schema> {
    let limit = |name: &str| -> Object {
        ObjectBuilder::new()
            .schema_type(SchemaType::from_iter(types.iter().cloned()))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0))
            .maximum(Some(Limits::max_of(name) as f64))
            .build()
    };
    let limits = Limits::NAMES
        .iter()
        .filter(|name| name.starts_with(prefix))
        .fold(ObjectBuilder::new(), |object, name| object.property(*name, limit(name)))
        .description(Some("Limits by name; 0 is no limit."));
    RefOr::T(Schema::Object(limits.build()))
}

impl ToSchema for KeyLimitsSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "KeyLimits".into()
    }
}

impl ToSchema for NewLimitsSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "NewLimits".into()
    }
}

impl ToSchema for LimitsSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "Limits".into()
    }
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/limits",
    operation_id = "setLimits",
    tag = "Administration",
    summary = "Set limits of a workspace",
    description = "Those that are left out, or null, stay as they are. Answers all that are in \
                   force. `unauthenticated_per_minute` is the server's: here it has no effect.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = NewLimitsSchema,
    responses((status = 200, description = "The limits in force", body = LimitsSchema))
)]
async fn set_limits(mut call: Call<()>) -> Answer {
    let over = call.json::<LimitsBody>()?.check("")?;
    let id = workspace_id(&mut call).await?;
    Ok(Reply::ok(&call.admin().set_limits(&id, over).await?))
}

/// A balance to be set.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct SetCredits {
    /// The new balance.
    #[schema(value_type = i64, minimum = 0, maximum = 9_007_199_254_740_991_i64, example = 1000)]
    credits: Integer,
}

/// Credits to be added.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct AddCredits {
    /// How many.
    #[schema(value_type = i64, minimum = 0, maximum = 9_007_199_254_740_991_i64, example = 500)]
    add: Integer,
}

/// A balance.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CreditsAnswer {
    /// The balance after the change.
    #[schema(example = 1500)]
    credits: u64,
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/credits",
    operation_id = "setCredits",
    tag = "Administration",
    summary = "Set the balance",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = SetCredits,
    responses((status = 200, description = "The balance", body = CreditsAnswer))
)]
async fn set_credits(mut call: Call<()>) -> Answer {
    let credits = call.json::<SetCredits>()?.credits.within("credits", 0, CREDITS_MAX)?;
    let id = workspace_id(&mut call).await?;
    let credits = call.admin().set_credits(&id, credits).await?;
    Ok(Reply::ok(&CreditsAnswer { credits }))
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/credits",
    operation_id = "addCredits",
    tag = "Administration",
    summary = "Add to the balance",
    description = "422 with the reason `credits_too_large` when the sum would be more than \
        9007199254740991.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = AddCredits,
    responses((status = 200, description = "The balance", body = CreditsAnswer))
)]
async fn add_credits(mut call: Call<()>) -> Answer {
    let add = call.json::<AddCredits>()?.add.within("add", 0, CREDITS_MAX)?;
    let id = workspace_id(&mut call).await?;
    let credits = call.admin().add_credits(&id, add).await?;
    Ok(Reply::ok(&CreditsAnswer { credits }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pipeline::json;

    fn check(text: &'static str) -> Result<LimitsOverride, String> {
        json::parse::<LimitsBody>(text.as_bytes())
            .and_then(|body| body.check(""))
            .map_err(|error| error.message().to_owned())
    }

    #[test]
    fn limits_are_read_by_name() {
        let over =
            check(r#"{"otp_per_phone_10m": 9, "otp_per_phone_hour": null, "x": "y"}"#).unwrap();
        let expected = LimitsOverride { otp_per_phone_10m: Some(9), ..Default::default() };
        assert_eq!(over, expected);
        assert_eq!(check("{}"), Ok(LimitsOverride::default()));
        let bytes = LimitsOverride { bytes_max: Some(20 << 30), ..Default::default() };
        assert_eq!(check(r#"{"bytes_max": 21474836480}"#), Ok(bytes));
        for (text, expected) in [
            (r#"{"otp_per_phone_10m": -1}"#, "`otp_per_phone_10m` must be a whole number from 0"),
            (r#"{"otp_per_phone_10m": 4294967296}"#, "`otp_per_phone_10m` must be a whole number"),
            (r#"{"otp_per_phone_10m": 1.5}"#, "`otp_per_phone_10m`: invalid type: floating point"),
            (r#"{"otp_per_phone_10m": 1, "otp_per_phone_10m": 2}"#, "duplicate field `otp_per_ph"),
        ] {
            let message = check(text).unwrap_err();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }
}
