//! Creates, reads, updates, deletes, lists and searches contacts.

mod batch;
mod body;
mod export;
mod query;

use axum::http::StatusCode;
use postrider_actors::domain::ContactId;
use postrider_actors::{
    Contact, CreateContactError, DeleteContactError, Permission, ReadContactError, Replayable,
    Route, SortContactsError, UpdateContactError,
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::pipeline::{Answer, ApiError, Call, Code, Key, Page, Principal, Reply, Routes, route};
use body::{ContactInput, ContactUpdate};

/// The maximum length of a search term, in characters.
const SEARCH_CHARS_MAX: usize = 200;

pub(crate) const NO_SUCH_CONTACT: &str = "no such contact";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(read).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(create).guarded(Key::of(Permission::ContactsWrite)))
        .routes(route!(update).guarded(Key::of(Permission::ContactsWrite)))
        .routes(route!(delete).guarded(Key::of(Permission::ContactsWrite)))
        .merge(batch::routes())
        .merge(export::routes())
}

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

#[utoipa::path(
    post,
    path = "/v1/contacts",
    operation_id = "createContact",
    tag = "Contacts",
    summary = "Make a contact",
    description = "A phone belongs to one contact of a workspace at the most (409). At most 500 \
                   contacts in a minute unless the workspace's limits say otherwise (429). Answered \
                   once it is durable. Honours `Idempotency-Key`.",
    request_body = ContactInput,
    responses((status = 201, description = "The contact", body = ContactRow))
)]
async fn create(call: Call<Principal>) -> Answer {
    let new = call.json::<ContactInput>()?.check()?;
    let key = call.idempotency_key(Route::CreateContact)?;
    let Replayable { answer, replayed } = call.caller.workspace().create_contact(new, key).await?;
    Ok(Reply::json(StatusCode::CREATED, &ContactRow::from(answer)).replayed(replayed))
}

#[utoipa::path(
    get,
    path = "/v1/contacts",
    operation_id = "listContacts",
    tag = "Contacts",
    summary = "List or search contacts",
    description = "Only those with a custom field of a value: `custom_fields.<name>=<value>`, where \
                   the value is a text, or what the text is as JSON.",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most contacts of \
         a page, 50 by default"),
        ("search" = Option<String>, Query, max_length = 200, description = "A part of the name, \
         the phone or the e-mail address; upper and lower case are the same"),
        ("tags_any" = Option<String>, Query, description = "Only contacts with one of these tags, \
         with commas between them"),
        ("tags_all" = Option<String>, Query, description = "Only contacts with all of these tags"),
        ("tags_none" = Option<String>, Query, description = "Only contacts with none of these tags"),
        ("sort" = Option<String>, Query, description = "`name`, `created_at` or `updated_at`, and \
         with `-` before it the other way around; newest first by default. By name the first \
         100,000 can be seen, by `updated_at` as many can match: else 422"),
    ),
    responses((status = 200, description = "Contacts, in that order", body = ContactsAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let page = Page::of(&query)?;
    let search = search_term("search", query.text("search")?)?;
    let (filter, sort) = (query::filter(&query, search)?, query::sort(&query)?);
    let workspace = call.caller.workspace();
    let found = workspace.sorted_contacts(filter, sort, page.skip(), page.limit()).await?;
    let rows: Vec<_> = found.contacts.into_iter().map(ContactRow::from).collect();
    Ok(Reply::ok(&page.of_rows(rows, found.total)))
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

#[utoipa::path(
    get,
    path = "/v1/contacts/{contact_id}",
    operation_id = "readContact",
    tag = "Contacts",
    summary = "Read a contact",
    params(("contact_id" = String, Path, description = "The contact's id")),
    responses((status = 200, description = "The contact", body = ContactRow))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    let id: ContactId = call.path("contact_id", NO_SUCH_CONTACT).await?;
    Ok(Reply::ok(&ContactRow::from(call.caller.workspace().contact(id).await?)))
}

#[utoipa::path(
    patch,
    path = "/v1/contacts/{contact_id}",
    operation_id = "updateContact",
    tag = "Contacts",
    summary = "Change a contact",
    description = "`name` is required. Other fields that are left out stay as they are, `null` \
                   clears them, and what is given replaces all that was there.",
    params(("contact_id" = String, Path, description = "The contact's id")),
    request_body = ContactInput,
    responses((status = 200, description = "The contact", body = ContactRow))
)]
async fn update(mut call: Call<Principal>) -> Answer {
    let change = call.json::<ContactUpdate>()?.check()?;
    let id: ContactId = call.path("contact_id", NO_SUCH_CONTACT).await?;
    call.keeps(&["user_id", "username"], async || {
        Ok(ContactRow::from(call.caller.workspace().contact(id).await?))
    })
    .await?;
    let contact = call.caller.workspace().update_contact(id, change).await?;
    Ok(Reply::ok(&ContactRow::from(contact)))
}

#[utoipa::path(
    delete,
    path = "/v1/contacts/{contact_id}",
    operation_id = "deleteContact",
    tag = "Contacts",
    summary = "Delete a contact",
    description = "Its phone is free again. Its conversations are deleted, what was written in them is \
                   deleted soon after, and free text to the phone needs a new message of it. A mail \
                   to it that still waits does not leave any more; a message that was accepted \
                   does. What stays: an opt-out; of messages to the phone that they were sent and \
                   what became of them, but not what they said; a hash of the phone with this \
                   moment, so that a late report brings nothing back; the broadcasts that the phone was \
                   in and the event log, as long as the settings keep them.",
    params(("contact_id" = String, Path, description = "The contact's id")),
    responses((status = 204, description = "Deleted"))
)]
async fn delete(mut call: Call<Principal>) -> Answer {
    let id: ContactId = call.path("contact_id", NO_SUCH_CONTACT).await?;
    call.caller.workspace().delete_contact(id).await?;
    Ok(Reply::no_content())
}

impl From<CreateContactError> for ApiError {
    fn from(error: CreateContactError) -> Self {
        match error {
            CreateContactError::PhoneTaken => Self::new(Code::Conflict, error.to_string()),
            CreateContactError::RateLimited { retry_after } => {
                Self::rate_limited(retry_after, "too many contacts were made in a minute")
            }
            CreateContactError::Unavailable(error) => error.into(),
        }
    }
}

impl From<SortContactsError> for ApiError {
    fn from(error: SortContactsError) -> Self {
        match error {
            SortContactsError::TooMany => {
                Self::new(Code::Unprocessable, error.to_string()).because("too_many_to_sort")
            }
            SortContactsError::Unavailable(error) => error.into(),
        }
    }
}

impl From<UpdateContactError> for ApiError {
    fn from(error: UpdateContactError) -> Self {
        match error {
            UpdateContactError::NotFound => Self::not_found(NO_SUCH_CONTACT),
            UpdateContactError::PhoneTaken => Self::new(Code::Conflict, error.to_string()),
            UpdateContactError::Unavailable(error) => error.into(),
        }
    }
}

impl From<DeleteContactError> for ApiError {
    fn from(error: DeleteContactError) -> Self {
        match error {
            DeleteContactError::NotFound => Self::not_found(NO_SUCH_CONTACT),
            DeleteContactError::Unavailable(error) => error.into(),
        }
    }
}

impl From<ReadContactError> for ApiError {
    fn from(error: ReadContactError) -> Self {
        match error {
            ReadContactError::NotFound => Self::not_found(NO_SUCH_CONTACT),
            ReadContactError::Unavailable(error) => error.into(),
        }
    }
}
