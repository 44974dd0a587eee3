//! Creates, exports and changes many contacts with one request, and reports their tags.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::StatusCode;
use postrider_actors::domain::{ContactId, Tags};
use postrider_actors::{
    ChangeContactsError, ChosenContacts, Contact, ContactWritten, ContactsChange, ContactsWalk,
    NewContactRow, OnConflict, Permission, Replayable, Route, TagCount, Unavailable, Workspace,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::rows::{ContactInput, ContactRow, ContactUpdate};
use crate::http::audited_reads::ReadingKind;
use crate::http::pipeline::known_fields::BodyFields;
use crate::http::pipeline::{
    Answer, ApiError, BodyKind, BodySize, Call, Code, Key, Principal, Reply, Routes, json, object,
    route,
};
use crate::http::segments::FilterBody;
use crate::http::streamed;
use crate::http::streamed::{AnswerParts, JSON_LINES};

/// The path that creates one contact. The contacts of a batch have the same fields.
const CONTACTS_PATH: &str = "/v1/contacts";
/// The size from which on a body counts as large, in bytes.
const LARGE_BYTES: usize = 256 << 10;
/// The maximum number of contacts of a request.
const CONTACTS_MAX: usize = 1000;
/// The number of contacts that are read at a time.
const PAGE_CONTACTS: usize = 200;
/// The maximum number of contacts that a request names.
const IDS_MAX: usize = 1000;
/// The maximum number of tags that are listed.
const TAGS_LISTED_MAX: usize = 500;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(
            route!(create_many)
                .takes(BodyKind::Json(BodySize::ContactsBatch))
                .guarded(Key::of(Permission::ContactsWrite)),
        )
        .routes(route!(export).guarded(Key::of(Permission::ContactsExport)))
        .routes(route!(tags).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(change).guarded(Key::of(Permission::ContactsWrite)))
}

/// Contacts to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct BatchBody<'a> {
    /// Each as for `POST /v1/contacts`; one that is not is reported in its row of the answer.
    #[serde(borrow, deserialize_with = "object::list::<_, _, CONTACTS_MAX>")]
    #[schema(value_type = Vec<serde_json::Value>, min_items = 1, max_items = 1000,
             example = json!([{"name": "Ana Souza", "phone": "+15550123456"}, {"name": "Bo"}]))]
    contacts: Vec<&'a RawValue>,
    /// What becomes of a contact whose phone another one has: `refuse`; `skip`: the other one stays
    /// as it is; `update`: the other one is changed to it, as by `PATCH /v1/contacts/{contact_id}`.
    #[serde(borrow)]
    #[schema(default = "refuse", example = "refuse")]
    on_conflict: Option<Cow<'a, str>>,
}

/// What became of the contacts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchAnswer {
    /// In the order of the call.
    data: Vec<BatchRow>,
}

/// What became of one contact.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchRow {
    /// 201; 200: another one had the phone, and was changed or skipped; 400: it is not well formed;
    /// 409: the phone is taken; 503: whether it was made is not known.
    #[schema(example = 201)]
    status: u16,
    /// `created`, `updated`, `skipped` or `refused`.
    #[schema(example = "created")]
    outcome: &'static str,
    /// The contact that is there now, unless it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    contact: Option<ContactRow>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<BatchError>,
}

/// Why a contact was not made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchError {
    /// The status in words.
    #[schema(example = "Conflict")]
    error: String,
    /// For a person; of a bad value it names the field.
    message: String,
    /// For a program.
    #[schema(example = "CONFLICT")]
    code: &'static str,
}

impl BatchRow {
    fn written(written: ContactWritten, contact: Contact) -> Self {
        let (status, outcome) = match written {
            ContactWritten::Created => (StatusCode::CREATED, "created"),
            ContactWritten::Updated => (StatusCode::OK, "updated"),
            ContactWritten::Skipped => (StatusCode::OK, "skipped"),
        };
        Self { status: status.as_u16(), outcome, contact: Some(contact.into()), error: None }
    }

    fn refused(error: &ApiError) -> Self {
        let code = error.code();
        let error = BatchError {
            error: code.title().to_owned(),
            message: error.message().to_owned(),
            code: code.as_str(),
        };
        let status = code.status().as_u16();
        Self { status, outcome: "refused", contact: None, error: Some(error) }
    }
}

#[utoipa::path(
    post,
    path = "/v1/contacts/batch",
    operation_id = "createContacts",
    tag = "Contacts",
    summary = "Make many contacts",
    description = "Each is made or refused by itself; `on_conflict` says what becomes of one whose \
                   phone another contact has, also one of the same call. The call counts once against the limit of \
                   contacts in a minute, however many it makes. Honours `Idempotency-Key`, also \
                   where a row is answered 503: the same call again makes only what was not made.",
    request_body = BatchBody,
    responses((status = 200, description = "What became of each", body = BatchAnswer))
)]
async fn create_many(call: Call<Principal>) -> Answer {
    // As in a broadcast, long bodies are parsed outside of the async workers, a few at a time. The
    // parsed contacts take a multiple of the body's size until the answer.
    let is_large = call.raw().len() > LARGE_BYTES;
    let permit = match is_large {
        true => Some(Arc::clone(&call.edge.parsers).acquire_owned().await),
        false => None,
    };
    let permit = permit.transpose().map_err(|_| ApiError::internal())?;
    let ParsedBatch { call, checked, new, on_conflict } = match is_large {
        true => tokio::task::spawn_blocking(move || parse(call))
            .await
            .map_err(|_| ApiError::internal())??,
        false => parse(call)?,
    };
    let key = call.idempotency_key(Route::CreateContacts)?;
    let made = call.caller.workspace().upsert_contacts(new, on_conflict, key).await?;
    let Replayable { answer, replayed } = made;
    let mut results = answer.into_iter();
    let rows = checked.iter().map(|checked| match checked {
        Err(error) => BatchRow::refused(error),
        Ok(()) => match results.next() {
            Some(Ok((written, contact))) => BatchRow::written(written, contact),
            Some(Err(error)) => BatchRow::refused(&error.into()),
            // The engine returns one result for each contact, so this does not happen.
            None => BatchRow::refused(&ApiError::internal()),
        },
    });
    let reply = Reply::ok(&BatchAnswer { data: rows.collect() }).replayed(replayed);
    drop(permit);
    Ok(reply)
}

/// A parsed request.
struct ParsedBatch {
    call: Call<Principal>,
    /// For each contact `Ok`, or the reason why it is invalid.
    checked: Vec<Result<(), ApiError>>,
    /// The contacts that are valid, in the same order.
    new: Vec<NewContactRow>,
    on_conflict: OnConflict,
}

fn parse(call: Call<Principal>) -> Result<ParsedBatch, ApiError> {
    let (mut checked, mut new) = (Vec::new(), Vec::new());
    let on_conflict = {
        let body: BatchBody<'_> = call.json()?;
        let on_conflict = on_conflict(body.on_conflict.as_deref())?;
        if !(1..=CONTACTS_MAX).contains(&body.contacts.len()) {
            return Err(ApiError::field("contacts", "must be 1 to 1000 contacts"));
        }
        let fields = call.edge.fields.of_body(CONTACTS_PATH, "POST");
        for contact in body.contacts {
            checked.push(check_row(contact, fields).map(|row| new.push(row)));
        }
        on_conflict
    };
    Ok(ParsedBatch { call, checked, new, on_conflict })
}

fn on_conflict(text: Option<&str>) -> Result<OnConflict, ApiError> {
    match text {
        None | Some("refuse") => Ok(OnConflict::Refuse),
        Some("skip") => Ok(OnConflict::Skip),
        Some("update") => Ok(OnConflict::Update),
        Some(_) => Err(ApiError::field("on_conflict", "must be `refuse`, `skip` or `update`")),
    }
}

fn check_row(contact: &RawValue, fields: BodyFields<'_>) -> Result<NewContactRow, ApiError> {
    if !contact.get().starts_with('{') {
        return Err(ApiError::invalid("a contact must be a JSON object"));
    }
    let new = json::parse_known::<ContactInput>(contact.get().as_bytes(), || fields)?.check()?;
    // Fields that are left out stay unchanged in an existing contact.
    let change = json::parse::<ContactUpdate>(contact.get().as_bytes())?.check()?;
    Ok(NewContactRow { new, change })
}

#[utoipa::path(
    get,
    path = "/v1/contacts/export",
    operation_id = "exportContacts",
    tag = "Contacts",
    summary = "Read every contact",
    description = "One contact a line, each as `GET /v1/contacts/{contact_id}` shows it, oldest \
                   first. It has every contact that was there at the beginning, and is not \
                   deleted until its turn, exactly once; of none that is made meanwhile. An answer \
                   that breaks off is continued by `after` with the last id. Each reading is in the \
                   audit log.",
    params(("after" = Option<String>, Query, description = "Only the contacts after this one")),
    responses((status = 200, description = "Contacts, one a line", body = String,
        content_type = "application/x-ndjson"))
)]
async fn export(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let after = query.text("after")?.map(str::parse::<ContactId>).transpose();
    let after = after.map_err(|_| ApiError::field("after", "must be a contact's id"))?;
    call.reads_all(ReadingKind::Contacts).await?;
    let walk = call.caller.workspace().walk_contacts(after).await?;
    Ok(streamed::stream(&call, JSON_LINES, ContactLines(walk)))
}

struct ContactLines(ContactsWalk);

impl AnswerParts for ContactLines {
    async fn next(&mut self, workspace: &Workspace) -> Result<Option<Vec<u8>>, Unavailable> {
        let part = workspace.next_contacts(&mut self.0, PAGE_CONTACTS).await?;
        Ok((!part.is_empty()).then(|| part.into_iter().flat_map(line).collect()))
    }
}

fn line(contact: Contact) -> Vec<u8> {
    // A row always has a JSON form, and writing to a vector cannot fail.
    let mut line = serde_json::to_vec(&ContactRow::from(contact)).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Whom to change, by `ids` or by `filter`, and how: tags, or `delete`.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct BulkBody {
    /// The contacts' ids. What is no contact's is left out.
    #[schema(min_items = 1, max_items = 1000, example = json!(["con_01jd3v0x5n8m7k2q4r6s8t0w2y"]))]
    ids: Option<Vec<String>>,
    /// What the contacts are like that are there now; `{}` is every contact.
    #[serde(default, deserialize_with = "object::optional")]
    filter: Option<FilterBody>,
    /// Tags that they get. A contact that would have more than 50 then stays as it is.
    #[schema(max_items = 50, example = json!(["vip"]))]
    add_tags: Option<Vec<String>>,
    /// Tags that they lose.
    #[schema(max_items = 50)]
    remove_tags: Option<Vec<String>>,
    /// Whether they are deleted, as by `DELETE /v1/contacts/{contact_id}`; not beside tags.
    #[schema(default = false)]
    delete: Option<bool>,
}

/// How many contacts are being changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkAnswer {
    /// Those that were chosen.
    #[schema(example = 120)]
    contacts: usize,
}

/// A tag, and how many contacts have it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TagRow {
    /// The tag.
    #[schema(example = "vip")]
    tag: String,
    /// Contacts that have it.
    #[schema(example = 120)]
    contacts: usize,
}

/// The tags of the contacts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TagsAnswer {
    /// What the most contacts have first.
    data: Vec<TagRow>,
}

impl From<TagCount> for TagRow {
    fn from(TagCount { tag, contacts }: TagCount) -> Self {
        Self { tag, contacts }
    }
}

#[utoipa::path(
    get,
    path = "/v1/contacts/tags",
    operation_id = "listContactTags",
    tag = "Contacts",
    summary = "List the tags of contacts",
    description = "The 500 that the most contacts have.",
    responses((status = 200, description = "Tags, that of the most contacts first", body = TagsAnswer))
)]
async fn tags(call: Call<Principal>) -> Answer {
    let found = call.caller.workspace().contact_tags(TAGS_LISTED_MAX).await?;
    Ok(Reply::ok(&TagsAnswer { data: found.into_iter().map(TagRow::from).collect() }))
}

#[utoipa::path(
    post,
    path = "/v1/contacts/bulk",
    operation_id = "changeContacts",
    tag = "Contacts",
    summary = "Change or delete many contacts",
    description = "Which contacts is settled at once; they are changed soon after, one by one, also \
                   if the server is started anew meanwhile. Each that changes has its event. \
                   Changes are made in the order in which they were asked for; where too much waits, \
                   one is refused (422, `reason: \"bulk_limit\"`).",
    request_body = BulkBody,
    responses((status = 202, description = "They are being changed", body = BulkAnswer))
)]
async fn change(call: Call<Principal>) -> Answer {
    let body: BulkBody = call.json()?;
    if body.add_tags.is_none() && body.remove_tags.is_none() && body.delete.is_none() {
        let rule = "or `remove_tags` or `delete` must say what is to be done";
        return Err(ApiError::field("add_tags", rule));
    }
    let change = ContactsChange {
        add_tags: given_tags("add_tags", body.add_tags)?,
        remove_tags: given_tags("remove_tags", body.remove_tags)?,
        delete: body.delete.unwrap_or(false),
    };
    let has_tags = change.add_tags.iter().len() + change.remove_tags.iter().len() > 0;
    if change.delete && has_tags {
        return Err(ApiError::field("delete", "must not be beside tags"));
    }
    let whom = match (body.ids, body.filter) {
        (Some(ids), None) => ChosenContacts::Ids(contact_ids(&ids)?),
        (None, Some(filter)) => ChosenContacts::Filter(filter.check()?),
        (Some(_), Some(_)) => return Err(ApiError::field("ids", "must not be beside `filter`")),
        (None, None) => return Err(ApiError::field("ids", "or `filter` must say which contacts")),
    };
    let contacts = call.caller.workspace().change_contacts(whom, change).await?;
    Ok(Reply::json(StatusCode::ACCEPTED, &BulkAnswer { contacts }))
}

fn given_tags(field: &str, tags: Option<Vec<String>>) -> Result<Tags, ApiError> {
    let tags = Tags::new(tags.unwrap_or_default().iter());
    tags.map_err(|error| ApiError::field(field, error))
}

fn contact_ids(texts: &[String]) -> Result<Vec<ContactId>, ApiError> {
    let ids: Option<Vec<_>> = texts.iter().map(|id| id.parse().ok()).collect();
    ids.filter(|ids| (1..=IDS_MAX).contains(&ids.len()))
        .ok_or_else(|| ApiError::field("ids", "must be 1 to 1000 ids of contacts"))
}

impl From<ChangeContactsError> for ApiError {
    fn from(error: ChangeContactsError) -> Self {
        match error {
            ChangeContactsError::TooMany => {
                Self::new(Code::Unprocessable, error.to_string()).because("bulk_limit")
            }
            ChangeContactsError::Unavailable(error) => error.into(),
        }
    }
}
