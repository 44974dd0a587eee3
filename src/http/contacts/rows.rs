//! The contacts in the bodies of requests and answers.

use postrider_actors::domain::contact::TAGS_MAX;
use postrider_actors::domain::{ContactName, CustomFields, Email, PartyId, Phone, Tags};
use postrider_actors::{Contact, ContactChange, NewContact, Permission, Unavailable, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::pipeline::{ApiError, Call, Principal, object};

/// The maximum length of a search term, in characters.
const SEARCH_CHARS_MAX: usize = 200;

/// A contact.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Contact)]
pub(crate) struct ContactRow {
    /// Names it in every call.
    #[schema(example = "con_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// What it is called.
    #[schema(example = "Ana Souza")]
    name: String,
    /// Its phone, in E.164, as it was written; no other contact has the same, in whatever form its
    /// country has.
    #[schema(example = "+15550123456")]
    phone: Option<String>,
    /// The channel's id of the person; the channel alone sets it.
    #[schema(example = "US.13491208655302741918")]
    user_id: Option<String>,
    /// The name that the person has chosen on the channel; the channel alone sets it.
    #[schema(example = "ana")]
    username: Option<String>,
    /// Its e-mail address.
    #[schema(example = "ana@example.com")]
    email: Option<String>,
    /// Its tags.
    #[schema(example = json!(["vip"]))]
    tags: Vec<String>,
    /// Whatever else is known of it.
    #[schema(value_type = Object, example = json!({"plan": "gold"}))]
    custom_fields: Box<RawValue>,
    /// When it was made.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    created_at: String,
    /// When it was last changed.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    updated_at: String,
}

/// The contact of a person, as rows about something else name it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NamedContact {
    /// The contact's id.
    #[schema(example = "con_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    contact_id: String,
    /// The contact's name.
    #[schema(example = "Ana Souza")]
    pub(crate) name: String,
}

/// Returns the contacts of these people in their order. A caller without `contacts:read` gets none.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn named_contacts(
    call: &Call<Principal>,
    people: Vec<Option<PartyId>>,
) -> Result<Vec<Option<NamedContact>>, ApiError> {
    if !reads_contacts(call) {
        return Ok(people.iter().map(|_| None).collect());
    }
    Ok(contacts_named(call.caller.workspace(), people).await?)
}

/// Returns the contacts of these people in their order.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn contacts_named(
    workspace: &Workspace,
    people: Vec<Option<PartyId>>,
) -> Result<Vec<Option<NamedContact>>, Unavailable> {
    let has_names: Vec<bool> = people.iter().map(Option::is_some).collect();
    let known: Vec<_> = people.into_iter().flatten().collect();
    let mut found = match known.is_empty() {
        true => Vec::new(),
        false => workspace.contacts_of(known).await?,
    }
    .into_iter();
    let named = |contact: Contact| NamedContact {
        contact_id: contact.id.to_string(),
        name: contact.name.as_str().to_owned(),
    };
    let contact = |has_name| if has_name { found.next().flatten().map(named) } else { None };
    Ok(has_names.into_iter().map(contact).collect())
}

/// Returns whether the caller may read contacts and what was written to them.
pub(crate) fn reads_contacts(call: &Call<Principal>) -> bool {
    call.caller.check(Permission::ContactsRead).is_ok()
}

impl From<Contact> for ContactRow {
    fn from(contact: Contact) -> Self {
        let custom_fields = RawValue::from_string(contact.custom_fields.as_json().to_owned());
        Self {
            id: contact.id.to_string(),
            name: contact.name.as_str().to_owned(),
            phone: contact.phone.map(|phone| phone.to_string()),
            user_id: contact.user_id.map(|id| id.to_string()),
            username: contact.username.map(Into::into),
            email: contact.email.map(|email| email.as_str().to_owned()),
            tags: contact.tags.iter().map(str::to_owned).collect(),
            // The custom fields were stored as JSON.
            custom_fields: custom_fields.unwrap_or_default(),
            created_at: contact.created_at.to_string(),
            updated_at: contact.updated_at.to_string(),
        }
    }
}

/// A page of contacts.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what `list` writes")]
pub(crate) struct ContactsAnswer {
    /// Newest first, unless sorted otherwise.
    data: Vec<ContactRow>,
    /// How many there are on all pages.
    total: u64,
    /// The page's number.
    page: u64,
}

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

/// Trims and checks a search term. A blank term is `None`.
pub(crate) fn search_term<'a>(
    field: &str,
    text: Option<&'a str>,
) -> Result<Option<&'a str>, ApiError> {
    match text.map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) if text.chars().count() > SEARCH_CHARS_MAX => {
            Err(ApiError::field(field, "must have at most 200 characters"))
        }
        text => Ok(text),
    }
}
