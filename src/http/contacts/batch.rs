//! Creates many contacts with one request.

use axum::http::StatusCode;
use postrider_actors::{Contact, NewContact, Permission, Replayable, Route};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::ContactRow;
use super::body::ContactInput;
use crate::http::pipeline::{
    Answer, ApiError, BodySize, Call, Key, Principal, Reply, Routes, Takes, body, route,
};

/// Most contacts of a request.
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
    /// Each as for `POST /v1/contacts`; one that is not is told of in its row of the answer.
    #[serde(borrow)]
    #[schema(value_type = Vec<serde_json::Value>, min_items = 1, max_items = 1000,
             example = json!([{"name": "Ana Souza", "phone": "+15550123456"}, {"name": "Bo"}]))]
    contacts: Vec<&'a RawValue>,
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
    /// 201; 400: it is not well formed; 409: the phone is taken; 503: whether it was made is not
    /// known.
    #[schema(example = 201)]
    status: u16,
    /// The contact, with 201.
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
    fn created(contact: Contact) -> Self {
        let contact = Some(contact.into());
        Self { status: StatusCode::CREATED.as_u16(), contact, error: None }
    }

    fn refused(error: &ApiError) -> Self {
        let code = error.code();
        let error = BatchError {
            error: code.title().to_owned(),
            message: error.message().to_owned(),
            code: code.as_str(),
        };
        Self { status: code.status().as_u16(), contact: None, error: Some(error) }
    }
}

#[utoipa::path(
    post,
    path = "/v1/contacts/batch",
    operation_id = "createContacts",
    tag = "Contacts",
    summary = "Make many contacts",
    description = "Each is made or refused by itself. The call counts once against the limit of \
                   contacts in a minute, however many it makes. Honours `Idempotency-Key`, also \
                   where a row is answered 503: the same call again makes only what was not made.",
    request_body = BatchBody,
    responses((status = 200, description = "What became of each", body = BatchAnswer))
)]
async fn create(call: Call<Principal>) -> Answer {
    let checked = {
        let body: BatchBody<'_> = call.json()?;
        if !(1..=CONTACTS_MAX).contains(&body.contacts.len()) {
            return Err(ApiError::field("contacts", "must be 1 to 1000 contacts"));
        }
        body.contacts.into_iter().map(check).collect::<Vec<_>>()
    };
    let new = checked.iter().filter_map(|checked| checked.as_ref().ok().cloned()).collect();
    let key = call.idempotency_key(Route::CreateContacts)?;
    let Replayable { answer, replayed } = call.caller.workspace().create_contacts(new, key).await?;
    let mut results = answer.into_iter();
    let rows = checked.iter().map(|checked| match checked {
        Err(error) => BatchRow::refused(error),
        Ok(_) => match results.next() {
            Some(Ok(contact)) => BatchRow::created(contact),
            Some(Err(error)) => BatchRow::refused(&error.into()),
            // The engine returns one result for each contact, so this does not happen.
            None => BatchRow::refused(&ApiError::internal()),
        },
    });
    Ok(Reply::ok(&BatchAnswer { data: rows.collect() }).replayed(replayed))
}

fn check(contact: &RawValue) -> Result<NewContact, ApiError> {
    if !contact.get().starts_with('{') {
        return Err(ApiError::invalid("a contact must be a JSON object"));
    }
    body::parse::<ContactInput>(contact.get().as_bytes())?.check()
}
