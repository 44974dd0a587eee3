//! Parses and checks the contacts of request bodies.

use postrider_actors::domain::contact::TAGS_MAX;
use postrider_actors::domain::{ContactName, CustomFields, Email, Phone, Tags};
use postrider_actors::{ContactChange, NewContact};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::pipeline::{ApiError, object};

/// What a contact is made of, or changed to.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ContactInput {
    /// What it is called; not only spaces.
    #[schema(example = "Ana Souza", min_length = 1, max_length = 200)]
    name: String,
    /// Its phone, in E.164; no other contact may have the same, in whatever form its country has.
    #[schema(example = "+15550123456", pattern = r"^\+[1-9][0-9]{6,14}$")]
    phone: Option<String>,
    /// Its e-mail address.
    #[schema(example = "ana@example.com", max_length = 254)]
    email: Option<String>,
    /// Its tags, of 1 to 64 characters each.
    #[serde(default, deserialize_with = "object::optional_list::<_, _, TAGS_MAX>")]
    #[schema(max_items = 50, example = json!(["vip"]))]
    tags: Option<Vec<String>>,
    /// Whatever else is known of it: at most 16 KiB of JSON, nested at most 8 levels deep,
    /// without whole numbers of more than 64 bits.
    #[schema(value_type = Option<Object>, example = json!({"plan": "gold"}))]
    custom_fields: Option<Box<RawValue>>,
}

/// A [`ContactInput`] for an update, which distinguishes a missing field from `null`.
#[derive(Debug, Deserialize)]
pub(crate) struct ContactUpdate {
    name: String,
    #[serde(default, deserialize_with = "object::nullable")]
    phone: Option<Option<String>>,
    #[serde(default, deserialize_with = "object::nullable")]
    email: Option<Option<String>>,
    #[serde(default, deserialize_with = "object::nullable_list::<_, _, TAGS_MAX>")]
    tags: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "object::nullable")]
    custom_fields: Option<Option<Box<RawValue>>>,
}

impl ContactInput {
    pub(crate) fn check(self) -> Result<NewContact, ApiError> {
        Ok(NewContact {
            name: name(&self.name)?,
            phone: self.phone.map(phone).transpose()?,
            email: self.email.map(email).transpose()?,
            tags: self.tags.map(tags).transpose()?.unwrap_or_default(),
            custom_fields: self
                .custom_fields
                .as_deref()
                .map(custom_fields)
                .transpose()?
                .unwrap_or_default(),
        })
    }
}

impl ContactUpdate {
    pub(crate) fn check(self) -> Result<ContactChange, ApiError> {
        // Null resets a field to the default of a new contact.
        let tags = |given: Option<_>| given.map(tags).transpose().map(Option::unwrap_or_default);
        let fields = |given: Option<Box<RawValue>>| {
            given.as_deref().map(custom_fields).transpose().map(Option::unwrap_or_default)
        };
        Ok(ContactChange {
            name: name(&self.name)?,
            phone: self.phone.map(|given| given.map(phone).transpose()).transpose()?,
            email: self.email.map(|given| given.map(email).transpose()).transpose()?,
            tags: self.tags.map(tags).transpose()?,
            custom_fields: self.custom_fields.map(fields).transpose()?,
        })
    }
}

fn name(text: &str) -> Result<ContactName, ApiError> {
    ContactName::new(text).map_err(|error| ApiError::field("name", error))
}

fn phone(text: String) -> Result<Phone, ApiError> {
    text.parse().map_err(|error| ApiError::field("phone", error))
}

fn email(text: String) -> Result<Email, ApiError> {
    Email::new(&text).map_err(|error| ApiError::field("email", error))
}

fn tags(texts: Vec<String>) -> Result<Tags, ApiError> {
    Tags::new(texts.iter()).map_err(|error| ApiError::field("tags", error))
}

fn custom_fields(fields: &RawValue) -> Result<CustomFields, ApiError> {
    CustomFields::parse(fields.get()).map_err(|error| ApiError::field("custom_fields", error))
}
