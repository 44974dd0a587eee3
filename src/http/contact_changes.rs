//! Changes many contacts with one request, and reports their tags.

use axum::http::StatusCode;
use postrider_actors::domain::{ContactId, Tags};
use postrider_actors::{ChangeContactsError, ChosenContacts, ContactsChange, Permission, TagCount};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pipeline::{Answer, ApiError, Call, Code, Key, Principal, Reply, Routes, route};
use super::segments::FilterBody;

/// The maximum number of contacts that a request names.
const IDS_MAX: usize = 1000;
/// The maximum number of tags that are listed.
const TAGS_LISTED_MAX: usize = 500;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(tags).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(change).guarded(Key::of(Permission::ContactsWrite)))
}

/// Whom to change, by `ids` or by `filter`, and how: tags, or `delete`.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct BulkBody {
    /// The contacts' ids. What is no contact's is left out.
    #[schema(min_items = 1, max_items = 1000, example = json!(["con_01jd3v0x5n8m7k2q4r6s8t0w2y"]))]
    ids: Option<Vec<String>>,
    /// What the contacts are like that are there now; `{}` is every contact.
    #[serde(default, deserialize_with = "super::pipeline::object::optional")]
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
