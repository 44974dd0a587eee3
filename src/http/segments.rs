//! Serves segments, which are saved filters of contacts.

use axum::http::StatusCode;
use postrider_actors::domain::{ContactName, CustomFields, SegmentId, Tags};
use postrider_actors::{
    ContactFilter, ContactsCount, CreateSegmentError, Permission, Segment, SegmentError,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::contacts::{self, ContactRow, ContactsAnswer};
use super::pipeline::{Answer, ApiError, Call, Code, Key, Page, Principal, Reply, Routes, route};

/// The maximum length of a custom field's name in a filter, in characters.
const FIELD_NAME_CHARS_MAX: usize = 200;

pub(crate) const NO_SUCH_SEGMENT: &str = "no such segment";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(read).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(members).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(count).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(create).guarded(Key::of(Permission::ContactsWrite)))
        .routes(route!(update).guarded(Key::of(Permission::ContactsWrite)))
        .routes(route!(delete).guarded(Key::of(Permission::ContactsWrite)))
}

/// A filter to be saved.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct SegmentBody {
    /// What the segment is called.
    #[schema(example = "Gold customers", min_length = 1, max_length = 200)]
    name: String,
    /// What its contacts are like.
    #[serde(deserialize_with = "super::pipeline::object::required")]
    filter: FilterBody,
}

/// Changes of a segment. What is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct SegmentUpdate {
    /// What the segment is called.
    #[schema(example = "Gold customers", min_length = 1, max_length = 200)]
    name: Option<String>,
    /// What its contacts are like.
    #[serde(default, deserialize_with = "super::pipeline::object::optional")]
    filter: Option<FilterBody>,
}

/// A filter whose contacts are counted.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CountBody {
    /// What the contacts are like.
    #[serde(deserialize_with = "super::pipeline::object::required")]
    filter: FilterBody,
}

/// How many contacts there are of a kind.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CountAnswer {
    /// All of them.
    #[schema(example = 120)]
    contacts: usize,
    /// Those that have a phone, which a broadcast needs.
    #[schema(example = 118)]
    with_phone: usize,
    /// Those of these whose phone has opted out, whom no broadcast reaches.
    #[schema(example = 3)]
    suppressed: usize,
}

/// What contacts are like; what is left out asks for nothing, so `{}` is every contact. No part of
/// it may be empty.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[schema(
    as = ContactFilter,
    example = json!({"tags_any": ["vip"], "custom_fields": {"plan": "gold"}})
)]
pub(crate) struct FilterBody {
    /// They have one of these tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 50, example = json!(["vip", "partner"]))]
    tags_any: Option<Vec<String>>,
    /// They have all of these tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 50)]
    tags_all: Option<Vec<String>>,
    /// They have none of these tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 50, example = json!(["churned"]))]
    tags_none: Option<Vec<String>>,
    /// This is a part of the name, the phone or the e-mail address, in upper or lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    search: Option<String>,
    /// They have these custom fields with these values. A text and what the text is as JSON are the
    /// same: `"3"` and `3` find both.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"plan": "gold"}))]
    custom_fields: Option<Value>,
    /// They have these custom fields, whatever their values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 50)]
    custom_fields_exist: Option<Vec<String>>,
}

/// A segment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Segment)]
pub(crate) struct SegmentRow {
    /// Names it in every call.
    #[schema(example = "seg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// What it is called.
    #[schema(example = "Gold customers")]
    name: String,
    /// What its contacts are like.
    filter: FilterBody,
    /// When it was made.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    created_at: String,
    /// How many contacts it has now; when one segment is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    contacts_count: Option<usize>,
}

/// A page of segments.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what `list` writes")]
pub(crate) struct SegmentsAnswer {
    /// Newest first.
    data: Vec<SegmentRow>,
    /// How many there are on all pages.
    total: u64,
    /// The page's number.
    page: u64,
}

impl FilterBody {
    /// Checks the filter.
    pub(crate) fn check(self) -> Result<ContactFilter, ApiError> {
        // Of an empty part it is not clear whether it means everybody or nobody.
        let is_empty_list = |list: &Option<Vec<String>>| list.as_ref().is_some_and(Vec::is_empty);
        let fields = self.custom_fields.as_ref().and_then(Value::as_object);
        for (name, is_empty) in [
            ("tags_any", is_empty_list(&self.tags_any)),
            ("tags_all", is_empty_list(&self.tags_all)),
            ("tags_none", is_empty_list(&self.tags_none)),
            ("custom_fields_exist", is_empty_list(&self.custom_fields_exist)),
            ("custom_fields", fields.is_some_and(Map::is_empty)),
            ("search", self.search.as_ref().is_some_and(|text| text.trim().is_empty())),
        ] {
            if is_empty {
                let field = format!("filter.{name}");
                return Err(ApiError::field(&field, "must not be empty; leave it out"));
            }
        }
        let tags = |given: Option<Vec<String>>, field: &str| -> Result<Vec<String>, ApiError> {
            let tags = Tags::new(given.unwrap_or_default().iter())
                .map_err(|error| ApiError::field(field, error))?;
            Ok(tags.iter().map(str::to_owned).collect())
        };
        let field = "filter.custom_fields";
        let fields = self.custom_fields.as_ref().map(CustomFields::new).transpose();
        fields.map_err(|error| ApiError::field(field, error))?;
        let fields = self.custom_fields.as_ref().and_then(Value::as_object);
        let fields = fields.into_iter().flatten();
        let search = self.search.as_deref();
        let search = contacts::search_term("filter.search", search)?;
        let fields_exist = self.custom_fields_exist.unwrap_or_default();
        let is_long = |name: &String| name.chars().count() > FIELD_NAME_CHARS_MAX;
        if fields_exist.len() > 50 || fields_exist.iter().any(is_long) {
            let rule = "must be at most 50 names of at most 200 characters";
            return Err(ApiError::field("filter.custom_fields_exist", rule));
        }
        Ok(ContactFilter {
            search: search.map(str::to_owned),
            tags_any: tags(self.tags_any, "filter.tags_any")?,
            tags_all: tags(self.tags_all, "filter.tags_all")?,
            tags_none: tags(self.tags_none, "filter.tags_none")?,
            fields: fields.map(|(name, value)| (name.clone(), value.to_string())).collect(),
            fields_exist,
        })
    }
}

impl From<ContactFilter> for FilterBody {
    fn from(filter: ContactFilter) -> Self {
        let some = |texts: Vec<String>| (!texts.is_empty()).then_some(texts);
        let fields = filter.fields.into_iter().map(|(name, json)| {
            // The value was stored as JSON.
            (name, serde_json::from_str(&json).unwrap_or_default())
        });
        let fields: Map<_, _> = fields.collect();
        Self {
            tags_any: some(filter.tags_any),
            tags_all: some(filter.tags_all),
            tags_none: some(filter.tags_none),
            search: filter.search,
            custom_fields: (!fields.is_empty()).then_some(fields.into()),
            custom_fields_exist: some(filter.fields_exist),
        }
    }
}

impl From<Segment> for SegmentRow {
    fn from(segment: Segment) -> Self {
        Self {
            id: segment.id.to_string(),
            name: segment.name,
            filter: segment.filter.into(),
            created_at: segment.created_at.to_string(),
            contacts_count: None,
        }
    }
}

#[utoipa::path(
    post,
    path = "/v1/segments",
    operation_id = "createSegment",
    tag = "Segments",
    summary = "Save a filter of contacts",
    description = "A workspace has at most 1,000 segments (422, `reason: \"segment_limit\"`).",
    request_body = SegmentBody,
    responses((status = 201, description = "The segment", body = SegmentRow))
)]
async fn create(call: Call<Principal>) -> Answer {
    let SegmentBody { name, filter } = call.json()?;
    // The name of a segment follows the rule for names of contacts.
    let name = ContactName::new(&name).map_err(|error| ApiError::field("name", error))?;
    let name = name.as_str().to_owned();
    let segment = call.caller.workspace().create_segment(name, filter.check()?).await?;
    Ok(Reply::json(StatusCode::CREATED, &SegmentRow::from(segment)))
}

#[utoipa::path(
    get,
    path = "/v1/segments",
    operation_id = "listSegments",
    tag = "Segments",
    summary = "List the segments",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most segments of \
         a page, 50 by default"),
    ),
    responses((status = 200, description = "Segments, newest first", body = SegmentsAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let found = call.caller.workspace().segments(page.skip(), page.limit()).await?;
    let rows: Vec<_> = found.segments.into_iter().map(SegmentRow::from).collect();
    Ok(Reply::ok(&page.of_rows(rows, found.total)))
}

#[utoipa::path(
    get,
    path = "/v1/segments/{segment_id}",
    operation_id = "readSegment",
    tag = "Segments",
    summary = "Read a segment, and how many contacts it has",
    params(("segment_id" = String, Path, description = "The segment's id")),
    responses((status = 200, description = "The segment", body = SegmentRow))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    let id: SegmentId = call.path("segment_id", NO_SUCH_SEGMENT).await?;
    let (segment, count) = call.caller.workspace().segment(id).await?;
    Ok(Reply::ok(&SegmentRow { contacts_count: Some(count), ..segment.into() }))
}

#[utoipa::path(
    post,
    path = "/v1/segments/count",
    operation_id = "countContacts",
    tag = "Segments",
    summary = "Count the contacts that a filter matches",
    description = "Now, and without saving it.",
    request_body = CountBody,
    responses((status = 200, description = "How many there are", body = CountAnswer))
)]
async fn count(call: Call<Principal>) -> Answer {
    let filter = call.json::<CountBody>()?.filter.check()?;
    let count = call.caller.workspace().count_contacts(filter).await?;
    let ContactsCount { contacts, with_phone, suppressed } = count;
    Ok(Reply::ok(&CountAnswer { contacts, with_phone, suppressed }))
}

#[utoipa::path(
    patch,
    path = "/v1/segments/{segment_id}",
    operation_id = "updateSegment",
    tag = "Segments",
    summary = "Give a segment another name or filter",
    description = "Broadcasts that were made from it keep their recipients.",
    params(("segment_id" = String, Path, description = "The segment's id")),
    request_body = SegmentUpdate,
    responses((status = 200, description = "The segment", body = SegmentRow))
)]
async fn update(mut call: Call<Principal>) -> Answer {
    let SegmentUpdate { name, filter } = call.json()?;
    let name = name.map(|name| ContactName::new(&name)).transpose();
    let name = name.map_err(|error| ApiError::field("name", error))?;
    let name = name.map(|name| name.as_str().to_owned());
    let filter = filter.map(FilterBody::check).transpose()?;
    let id: SegmentId = call.path("segment_id", NO_SUCH_SEGMENT).await?;
    let segment = call.caller.workspace().update_segment(id, name, filter).await?;
    Ok(Reply::ok(&SegmentRow::from(segment)))
}

#[utoipa::path(
    delete,
    path = "/v1/segments/{segment_id}",
    operation_id = "deleteSegment",
    tag = "Segments",
    summary = "Delete a segment",
    description = "Its contacts stay.",
    params(("segment_id" = String, Path, description = "The segment's id")),
    responses((status = 204, description = "Deleted"))
)]
async fn delete(mut call: Call<Principal>) -> Answer {
    let id: SegmentId = call.path("segment_id", NO_SUCH_SEGMENT).await?;
    call.caller.workspace().delete_segment(id).await?;
    Ok(Reply::no_content())
}

#[utoipa::path(
    get,
    path = "/v1/segments/{segment_id}/contacts",
    operation_id = "listSegmentContacts",
    tag = "Segments",
    summary = "List the contacts of a segment",
    description = "Those that its filter matches now.",
    params(
        ("segment_id" = String, Path, description = "The segment's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most contacts of \
         a page, 50 by default"),
    ),
    responses((status = 200, description = "Contacts, newest first", body = ContactsAnswer))
)]
async fn members(mut call: Call<Principal>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let id: SegmentId = call.path("segment_id", NO_SUCH_SEGMENT).await?;
    let found = call.caller.workspace().segment_contacts(id, page.skip(), page.limit()).await?;
    let rows: Vec<_> = found.contacts.into_iter().map(ContactRow::from).collect();
    Ok(Reply::ok(&page.of_rows(rows, found.total)))
}

impl From<CreateSegmentError> for ApiError {
    fn from(error: CreateSegmentError) -> Self {
        match error {
            CreateSegmentError::TooMany => {
                Self::new(Code::Unprocessable, error.to_string()).because("segment_limit")
            }
            CreateSegmentError::Unavailable(error) => error.into(),
        }
    }
}

impl From<SegmentError> for ApiError {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::NotFound => Self::not_found(NO_SUCH_SEGMENT),
            SegmentError::Unavailable(error) => error.into(),
        }
    }
}
