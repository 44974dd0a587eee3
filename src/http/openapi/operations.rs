//! The parts of the OpenAPI document that several operations have in common.
//!
//! These are headers and refusals with their reasons, the `Idempotency-Key`, answers that are also
//! available as files, and bodies that may be left out.

use utoipa::Modify;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{
    ContentBuilder, Header, ObjectBuilder, OpenApi, Ref, RefOr, Required, Response, Type,
};

use crate::http::pipeline::Code;
use crate::http::streamed::{CSV, JSON_LINES};

/// Operations that do less without a body.
const BODY_OPTIONAL: [&str; 1] = ["markConversationRead"];

pub(super) fn refusal(status: u16) -> Response {
    let codes = Code::ALL.iter().filter(|code| code.status().as_u16() == status);
    let codes: Vec<_> = codes.map(|code| format!("`{}`", code.as_str())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    let mut response = ResponseBuilder::new()
        .description(codes.join(", "))
        .content("application/json", content)
        .build();
    let page = header("The page about the code, as `<URL>; rel=\"help\"` (`server.errors_url`)");
    response.headers.insert("Link".to_owned(), page);
    if matches!(status, 429 | 500 | 503) {
        let wait = count_header("Seconds to wait before another try, at least 1");
        response.headers.insert("Retry-After".to_owned(), wait);
    }
    response
}

pub(super) fn add_limit_headers(response: &mut Response) {
    for (name, description) in [
        ("X-RateLimit-Limit", "Requests allowed in the window; left out where there is no limit"),
        ("X-RateLimit-Remaining", "Requests that are left"),
        ("X-RateLimit-Reset", "Unix second at which the bucket is full again"),
    ] {
        response.headers.insert(name.to_owned(), count_header(description));
    }
    for (name, description) in [
        ("RateLimit-Policy", "The limit, as `\"hour\";q=1000;w=3600`"),
        ("RateLimit", "What is left, as `\"hour\";r=998;t=8`"),
    ] {
        response.headers.insert(name.to_owned(), header(description));
    }
}

pub(super) fn header(description: &str) -> RefOr<Header> {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    HeaderBuilder::new().schema(Some(text)).description(Some(description)).build().into()
}

fn count_header(description: &str) -> RefOr<Header> {
    let count = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).build();
    HeaderBuilder::new().schema(Some(count)).description(Some(description)).build().into()
}

pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete]
        .into_iter()
        .filter_map(Option::as_mut)
}

/// The operations whose handlers read
/// [`Call::idempotency_key`](crate::http::pipeline::Call::idempotency_key).
const HONOURED_BY: [&str; 7] = [
    "sendOtp",
    "sendOtpByMessagingPath",
    "sendMessage",
    "createBroadcast",
    "createContact",
    "createContacts",
    "replyInConversation",
];

/// Adds the header `Idempotency-Key` to the operations that honour it.
pub(crate) struct Idempotency;

impl Modify for Idempotency {
    fn modify(&self, document: &mut OpenApi) {
        for item in document.paths.paths.values_mut() {
            operations(item).filter(|operation| honours(operation)).for_each(describe_key);
        }
    }
}

fn honours(operation: &Operation) -> bool {
    operation.operation_id.as_deref().is_some_and(|id| HONOURED_BY.contains(&id))
}

fn describe_key(operation: &mut Operation) {
    let text =
        ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(255));
    let key = ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("For 24 hours the same key with the same body answers as the first time. Other operations \
             do not look at this header"))
        .schema(Some(text))
        .build();
    operation.parameters.get_or_insert_default().push(key.into());
    // 409: the first request with the key is still in progress.
    operation.responses.responses.insert("409".to_owned(), refusal(409).into());
    for (status, response) in &mut operation.responses.responses {
        if let (true, RefOr::T(response)) = (status.starts_with('2'), response) {
            let replayed = header("`true` when this was answered before");
            response.headers.insert("Idempotency-Replayed".to_owned(), replayed);
        }
    }
}

/// The operations, each with its type of file.
const FILE_ANSWERS: [(&str, &str); 9] = [
    ("listOtps", CSV),
    ("listOtpsByMessagingPath", CSV),
    ("listMessages", CSV),
    ("listBroadcastRecipients", CSV),
    ("readCampaignAnalytics", CSV),
    ("readAdAnalytics", CSV),
    ("readOtpAnalytics", CSV),
    ("readConversationDays", CSV),
    ("listEvents", JSON_LINES),
];

const OF_CSV: &str = "With `Accept: text/csv` the answer is all rows as CSV, the whole file \
    whatever `page`, `cursor` and `limit` say; a `'` stands before what a spreadsheet would take for a \
    formula.";
const OF_LINES: &str = "With `Accept: application/x-ndjson` the answer is one event a line, from \
    the cursor on to the end of the log as it is, whatever `limit` says.";

/// Adds the types of files to the answers that are also available as files, by `Accept`.
pub(crate) struct FileAnswers;

impl Modify for FileAnswers {
    fn modify(&self, document: &mut OpenApi) {
        for operation in document.paths.paths.values_mut().flat_map(operations) {
            let named = |(id, _): &&(&str, &str)| operation.operation_id.as_deref() == Some(id);
            let Some((_, media)) = FILE_ANSWERS.iter().find(named) else { continue };
            let text_of = if *media == CSV { OF_CSV } else { OF_LINES };
            let description = operation.description.get_or_insert_default();
            if !description.is_empty() {
                description.push(' ');
            }
            description.push_str(text_of);
            if let Some(RefOr::T(good)) = operation.responses.responses.get_mut("200") {
                let text = ObjectBuilder::new().schema_type(Type::String).build();
                let content = ContentBuilder::new().schema(Some(text)).build();
                good.content.insert((*media).to_owned(), RefOr::T(content));
            }
        }
    }
}

/// Marks the bodies of these operations as optional.
pub(crate) struct OptionalBodies;

impl Modify for OptionalBodies {
    fn modify(&self, document: &mut OpenApi) {
        for operation in document.paths.paths.values_mut().flat_map(operations) {
            let id = operation.operation_id.as_deref();
            if id.is_some_and(|id| BODY_OPTIONAL.contains(&id))
                && let Some(RefOr::T(body)) = &mut operation.request_body
            {
                body.required = Some(Required::False);
            }
        }
    }
}

/// The operations, each with the reasons of its 422.
pub(super) const REASONS: &[(&str, &[&str])] = &[
    (
        "sendOtp",
        &[
            "idempotency_mismatch",
            "destination_blocked",
            "channel_not_configured",
            "unknown_number",
        ],
    ),
    (
        "sendOtpByMessagingPath",
        &[
            "idempotency_mismatch",
            "destination_blocked",
            "channel_not_configured",
            "unknown_number",
        ],
    ),
    ("verifyOtp", &["cancelled", "inbound_only"]),
    ("verifyOtpByMessagingPath", &["cancelled", "inbound_only"]),
    ("resendOtp", &["cancelled", "destination_blocked", "channel_not_configured", "inbound_only"]),
    (
        "resendOtpByMessagingPath",
        &["cancelled", "destination_blocked", "channel_not_configured", "inbound_only"],
    ),
    ("sendMessage", &["idempotency_mismatch", "unknown_number", "unknown_message"]),
    ("createBroadcast", &["idempotency_mismatch", "unknown_number"]),
    ("testBroadcast", &["idempotency_mismatch", "unknown_number"]),
    ("createContact", &["idempotency_mismatch"]),
    ("createContacts", &["idempotency_mismatch"]),
    ("replyInConversation", &["idempotency_mismatch", "email_not_configured", "unknown_message"]),
    ("markConversationRead", &["nothing_to_read"]),
    ("uploadMedia", &["media_full", "no_media_store"]),
    ("createSegment", &["segment_limit"]),
    ("addNote", &["note_limit"]),
    ("changeContacts", &["bulk_limit"]),
    ("createQuickReply", &["quick_reply_limit"]),
    ("createWebhook", &["webhook_limit"]),
    ("testWebhook", &["webhook_disabled"]),
    ("addCredits", &["credits_too_large"]),
    ("connectNumber", &["not_a_sandbox", "number_limit"]),
    ("setPortfolio", &["portfolio_setting_limit"]),
];
