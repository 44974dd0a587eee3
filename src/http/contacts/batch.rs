//! Creates many contacts with one request.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::StatusCode;
use postrider_actors::{
    Contact, ContactWritten, NewContactRow, OnConflict, Permission, Replayable, Route,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::ContactRow;
use super::body::{ContactInput, ContactUpdate};
use crate::http::pipeline::{
    Answer, ApiError, BodySize, Call, Key, Principal, Reply, Routes, Takes, json,
    known_fields::BodyFields, object, route,
};

/// The path that creates one contact. The contacts of a batch have the same fields.
const CONTACTS_PATH: &str = "/v1/contacts";
/// The size from which on a body counts as large, in bytes.
const LARGE_BYTES: usize = 256 << 10;
/// The maximum number of contacts of a request.
const CONTACTS_MAX: usize = 1000;

pub(crate) fn routes() -> Routes {
    Routes::default().routes(
        route!(create)
            .takes(Takes::Json(BodySize::ContactsBatch))
            .guarded(Key::of(Permission::ContactsWrite)),
    )
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
async fn create(call: Call<Principal>) -> Answer {
    // As in a broadcast, long bodies are parsed outside of the async workers, a few at a time. The
    // parsed contacts take a multiple of the body's size until the answer.
    let is_large = call.raw().len() > LARGE_BYTES;
    let permit = match is_large {
        true => Some(Arc::clone(&call.edge.parsers).acquire_owned().await),
        false => None,
    };
    let permit = permit.transpose().map_err(|_| ApiError::internal())?;
    let Parsed { call, checked, new, on_conflict } = match is_large {
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
struct Parsed {
    call: Call<Principal>,
    /// For each contact `Ok`, or the reason why it is invalid.
    checked: Vec<Result<(), ApiError>>,
    /// The contacts that are valid, in the same order.
    new: Vec<NewContactRow>,
    on_conflict: OnConflict,
}

fn parse(call: Call<Principal>) -> Result<Parsed, ApiError> {
    let (mut checked, mut new) = (Vec::new(), Vec::new());
    let on_conflict = {
        let body: BatchBody<'_> = call.json()?;
        let on_conflict = on_conflict(body.on_conflict.as_deref())?;
        if !(1..=CONTACTS_MAX).contains(&body.contacts.len()) {
            return Err(ApiError::field("contacts", "must be 1 to 1000 contacts"));
        }
        let fields = call.edge.fields.of_body(CONTACTS_PATH, "POST");
        for contact in body.contacts {
            checked.push(check(contact, fields).map(|row| new.push(row)));
        }
        on_conflict
    };
    Ok(Parsed { call, checked, new, on_conflict })
}

fn on_conflict(text: Option<&str>) -> Result<OnConflict, ApiError> {
    match text {
        None | Some("refuse") => Ok(OnConflict::Refuse),
        Some("skip") => Ok(OnConflict::Skip),
        Some("update") => Ok(OnConflict::Update),
        Some(_) => Err(ApiError::field("on_conflict", "must be `refuse`, `skip` or `update`")),
    }
}

fn check(contact: &RawValue, fields: BodyFields<'_>) -> Result<NewContactRow, ApiError> {
    if !contact.get().starts_with('{') {
        return Err(ApiError::invalid("a contact must be a JSON object"));
    }
    let new = json::parse_known::<ContactInput>(contact.get().as_bytes(), || fields)?.check()?;
    // Fields that are left out stay unchanged in an existing contact.
    let change = json::parse::<ContactUpdate>(contact.get().as_bytes())?.check()?;
    Ok(NewContactRow { new, change })
}
