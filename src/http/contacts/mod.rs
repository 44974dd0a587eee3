//! Creates, reads, updates, deletes, lists and searches contacts, and shows the history of one.

mod bulk;
mod rows;

use axum::http::StatusCode;
use postrider_actors::domain::{ContactId, PublicEvent, Tags};
use postrider_actors::{
    ContactFilter, ContactOrder, ContactSort, CreateContactError, DeleteContactError, EventFilter,
    Permission, ReadContactError, Replayable, Route, SortContactsError, UpdateContactError,
};
use serde_json::Value;

use super::events::{self, EventsAnswer};
use super::pipeline::{
    Answer, ApiError, Call, Code, Key, LIMIT_DEFAULT, LIMIT_MAX, Page, Principal, Query, Reply,
    Routes, route,
};
use rows::{ContactInput, ContactUpdate};

pub(crate) use rows::{
    ContactRow, ContactsAnswer, NamedContact, contacts_named, named_contacts, reads_contacts,
    search_term,
};

pub(crate) const NO_SUCH_CONTACT: &str = "no such contact";
/// The prefix of a custom field's name.
const FIELD: &str = "custom_fields.";
/// The maximum number of custom fields of a query.
const FIELDS_MAX: usize = 50;
/// The maximum length of a custom field's name or value, in characters.
const FIELD_CHARS_MAX: usize = 200;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(read).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(create).guarded(Key::of(Permission::ContactsWrite)))
        .routes(route!(update).guarded(Key::of(Permission::ContactsWrite)))
        .routes(route!(delete).guarded(Key::of(Permission::ContactsWrite)))
        .merge(bulk::routes())
        .routes(route!(timeline).guarded(Key::of(Permission::ContactsRead)))
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
    let (filter, sort) = (list_filter(&query, search)?, list_order(&query)?);
    let workspace = call.caller.workspace();
    let found = workspace.sorted_contacts(filter, sort, page.skip(), page.limit()).await?;
    let rows: Vec<_> = found.contacts.into_iter().map(ContactRow::from).collect();
    Ok(Reply::ok(&page.of_rows(rows, found.total)))
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

/// The words of `sort`; `-` before a word reverses the order.
const SORTS: [&str; 6] =
    ["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"];

/// Parses the filter of a list of contacts; `search` is its search term.
fn list_filter(query: &Query, search: Option<&str>) -> Result<ContactFilter, ApiError> {
    let fields: Vec<_> = query.below(FIELD).collect();
    let is_long = |(name, value): &(&str, &str)| {
        let chars = name.chars().count();
        !(1..=FIELD_CHARS_MAX).contains(&chars) || value.chars().count() > FIELD_CHARS_MAX
    };
    if fields.len() > FIELDS_MAX || fields.iter().any(is_long) {
        let rule = "must be at most 50 fields, whose names and values have at most 200 characters";
        return Err(ApiError::field("custom_fields", rule));
    }
    let own = |(name, text): (&str, &str)| (name.to_owned(), Value::from(text).to_string());
    Ok(ContactFilter {
        tags_any: listed_tags(query, "tags_any")?,
        tags_all: listed_tags(query, "tags_all")?,
        tags_none: listed_tags(query, "tags_none")?,
        fields: fields.into_iter().map(own).collect(),
        ..ContactFilter::search(search)
    })
}

/// Parses tags that are separated by commas.
fn listed_tags(query: &Query, name: &str) -> Result<Vec<String>, ApiError> {
    let texts = query.text(name)?.unwrap_or_default().split(',');
    let texts: Vec<_> = texts.filter(|tag| !tag.trim().is_empty()).collect();
    let tags = Tags::new(texts.iter()).map_err(|error| ApiError::field(name, error))?;
    Ok(tags.iter().map(str::to_owned).collect())
}

/// Parses the order of the list.
fn list_order(query: &Query) -> Result<ContactSort, ApiError> {
    let Some(text) = query.text("sort")? else { return Ok(ContactSort::default()) };
    let (descending, by) = match text.strip_prefix('-') {
        Some(by) => (true, by),
        None => (false, text),
    };
    let by = match by {
        "name" => ContactOrder::Name,
        "created_at" => ContactOrder::Created,
        "updated_at" => ContactOrder::Updated,
        _ => {
            let rule = format_args!("must be one of {}", SORTS.join(", ")).to_string();
            return Err(ApiError::field("sort", rule));
        }
    };
    Ok(ContactSort { by, descending })
}

#[utoipa::path(
    get,
    path = "/v1/contacts/{contact_id}/timeline",
    operation_id = "readContactTimeline",
    tag = "Contacts",
    summary = "What happened to a contact",
    description = "Events about the contact, its phone and its ids on the channel, of the types \
                   that the caller may read: `otp.*` with `otp:read` or the scope \
                   `messaging:send`, and so on. They are found by an index. A part is short of \
                   rows, or empty, while a long log is not indexed yet; `next_cursor` goes on \
                   then. The log keeps events for a time.",
    params(
        ("contact_id" = String, Path, description = "The contact's id"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most events, \
         50 by default"),
    ),
    responses((status = 200, description = "Events, newest first", body = EventsAnswer))
)]
async fn timeline(mut call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let before = events::after_cursor(&query)?;
    let id: ContactId = call.path("contact_id", NO_SUCH_CONTACT).await?;
    let contact = call.caller.workspace().contact(id).await?;
    // A contact that was merged into this one was reported by its own id.
    let mut about = vec![id.to_string(), contact.id.to_string()];
    about.extend(contact.phone.into_iter().flat_map(events::in_all_forms));
    about.extend(contact.user_id.iter().chain(&contact.former_ids).map(ToString::to_string));
    about.dedup();
    let kinds = PublicEvent::KINDS.iter().map(|(kind, _)| *kind);
    let types = kinds.filter(|kind| events::may_read(&call.caller, kind)).map(str::to_owned);
    let filter = EventFilter { types: Some(types.collect()), about };
    events::newest_first(&call, before, limit, filter).await
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
