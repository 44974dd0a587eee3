//! The OpenAPI 3.1 document. Each route says what is its own; what all of them share (who may call,
//! headers, refusals, the second form of a path) is added here, so that no route can forget it.

mod events;
mod idempotency;
pub(super) mod pages;
mod webhooks;

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, Header, ObjectBuilder, OpenApi as Document, Ref, RefOr, Response, Type,
};
use utoipa::{Modify, OpenApi, ToSchema};

use super::pipeline::Code;
use super::{
    admin, analytics, broadcasts, channels, contacts, conversations, email, events as event_log,
    health, messages, otp, sandbox, segments, suppressions, templates, webhooks as endpoints,
};
use events::Events;
use idempotency::Idempotency;
use webhooks::Deliveries;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Postrider",
        description = "Sends one-time passwords and messages over a chat-app channel.\n\n\
            Every request below `/v1` carries `Authorization: Bearer <API key>`, every one below \
            `/admin/v1` the admin token. Checks come in this order: 401 (no or bad key), 429 (the \
            key's requests), 403 (scope), 404 or 405 (no such route or method), 415, 413, 408 and \
            400 (body), then the rules of the operation (404, 409, 422, 429), then 503. Requests \
            without a good key are counted for each client address.\n\n\
            Unknown fields of a body are ignored; `null` is the same as leaving an optional field \
            out. Every answer has `X-Request-Id`: the client's, when it is 1 to 128 characters of \
            `A-Za-z0-9._:-`, or else a new one.\n\n\
            `Idempotency-Key` (1 to 255 characters) is honoured where an operation says so: for 24 \
            hours the same key with the same body answers what the first request was answered, \
            with `Idempotency-Replayed: true`. With another body it is 422, while the first \
            request is under way 409. A refusal is not kept.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    paths(
        otp::send, otp::verify, otp::resend, otp::read,
        contacts::create, contacts::list, contacts::read, contacts::update, contacts::delete,
        contacts::batch::create, contacts::export::stream,
        segments::create, segments::list, segments::read, segments::delete, segments::members,
        conversations::list, conversations::read, conversations::update, conversations::written,
        conversations::reply,
        suppressions::create, suppressions::list, suppressions::delete,
        messages::send, messages::read,
        templates::list,
        broadcasts::create::create, broadcasts::read::list, broadcasts::read::read,
        broadcasts::read::recipients, broadcasts::control::pause, broadcasts::control::resume,
        broadcasts::control::cancel, broadcasts::control::retry,
        analytics::campaigns, analytics::ads,
        event_log::list, event_log::stream::stream,
        endpoints::create, endpoints::list, endpoints::read, endpoints::update, endpoints::delete,
        endpoints::rotate, endpoints::deliveries::test, endpoints::deliveries::replay,
        endpoints::deliveries::list,
        sandbox::messages, sandbox::clock, sandbox::advance, sandbox::script, sandbox::receive,
        admin::workspaces::create, admin::workspaces::list, admin::workspaces::read,
        admin::keys::create, admin::keys::list, admin::keys::revoke,
        admin::credits::set, admin::credits::add,
        admin::limits::set,
        admin::destinations::set, admin::destinations::read,
        admin::templates::create, admin::templates::list, admin::templates::change,
        admin::templates::sync, admin::templates::set_otp_template,
        admin::numbers::connect, admin::numbers::list, admin::numbers::update,
        admin::numbers::disconnect,
        admin::webhooks::list, admin::webhooks::create, admin::webhooks::read,
        admin::webhooks::update, admin::webhooks::delete, admin::webhooks::rotate,
        admin::email::open, admin::email::read, admin::email::close,
        channels::verify, channels::take, email::take,
        health::alive, health::ready, health::metrics,
        pages::document,
    ),
    components(schemas(ErrorAnswer)),
    tags(
        (name = "OTP", description = "One-time passwords; scope `messaging:send`"),
        (name = "Contacts", description = "Contacts; scopes `contacts:read` and `contacts:write`"),
        (name = "Segments", description = "Saved filters of contacts; the scopes of contacts"),
        (name = "Conversations", description = "The inbox; the scopes of contacts, and to reply \
            `messaging:send`"),
        (name = "Suppressions", description = "Phones that have opted out; the scopes of contacts"),
        (
            name = "Messaging",
            description = "Messages, broadcasts and templates; scope `messaging:send`"
        ),
        (name = "Analytics", description = "What messages brought; scope `analytics:read`"),
        (name = "Events", description = "The event log; scope `webhooks:manage`"),
        (name = "Webhooks", description = "Events, delivered; scope `webhooks:manage`"),
        (name = "Sandbox", description = "In a sandbox only; scope `messaging:send`"),
        (name = "Administration", description = "With the admin token"),
        (name = "Channel", description = "For the chat-app channel, which signs what it calls back"),
        (name = "Operation", description = "For orchestrators; without a key"),
    ),
    modifiers(&Idempotency, &SecondForm, &Shared, &Events, &Deliveries)
)]
struct Interface;

/// The document.
#[must_use]
pub fn document() -> Document {
    Interface::openapi()
}

/// Every refusal.
#[derive(Debug, ToSchema)]
#[schema(as = Error, example = json!({
    "error": "Too Many Requests",
    "message": "too many one-time passwords to this phone",
    "code": "OTP_RATE_LIMITED",
    "retry_after": 12,
    "request_id": "req_01jd3v0x5n8m7k2q4r6s8t0w2y"
}))]
#[allow(dead_code, reason = "describes what `error.rs` writes")]
struct ErrorAnswer {
    /// The status in words.
    error: String,
    /// For a person; of a bad value it names the field.
    message: String,
    /// For a program.
    #[schema(value_type = String)]
    code: String,
    /// Seconds to wait before another try, as in `Retry-After`: with 429, 500 and 503.
    #[schema(minimum = 1)]
    retry_after: Option<u64>,
    /// What is behind a code that has several causes.
    reason: Option<String>,
    /// As in `X-Request-Id`.
    request_id: String,
}

/// `/v1/messaging/otp/…` are the operations of `/v1/otp/…`.
struct SecondForm;

impl Modify for SecondForm {
    fn modify(&self, document: &mut Document) {
        let first = document.paths.paths.iter().filter_map(|(path, item)| {
            let rest = path.strip_prefix("/v1/otp/")?;
            let mut item = item.clone();
            for operation in operations(&mut item) {
                operation.operation_id =
                    operation.operation_id.take().map(|id| format!("{id}ByMessagingPath"));
            }
            Some((format!("/v1/messaging/otp/{rest}"), item))
        });
        let second: Vec<_> = first.collect();
        document.paths.paths.extend(second);
    }
}

/// Who may call, the headers and the refusals of every operation.
struct Shared;

impl Modify for Shared {
    fn modify(&self, document: &mut Document) {
        let components = document.components.get_or_insert_default();
        for (name, description) in [
            ("apiKey", "An API key of a workspace"),
            ("adminToken", "The admin token of the server"),
        ] {
            let scheme = HttpBuilder::new()
                .scheme(HttpAuthScheme::Bearer)
                .description(Some(description))
                .build();
            components.add_security_scheme(name, SecurityScheme::Http(scheme));
        }
        for (path, item) in &mut document.paths.paths {
            let area = Area::of(path);
            for operation in operations(item) {
                area.complete(path, operation);
            }
        }
    }
}

/// How the paths that control a broadcast end.
const CONTROLS: [&str; 4] = ["/pause", "/resume", "/cancel", "/retry"];

/// What a path's operations have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Area {
    Public,
    Admin,
    Open,
}

impl Area {
    fn of(path: &str) -> Self {
        match path {
            path if path.starts_with("/v1/") => Self::Public,
            path if path.starts_with("/admin/") => Self::Admin,
            _ => Self::Open,
        }
    }

    fn complete(self, path: &str, operation: &mut Operation) {
        let scheme = match self {
            Self::Public => Some("apiKey"),
            Self::Admin => Some("adminToken"),
            Self::Open => None,
        };
        operation.security =
            scheme.map(|name| vec![SecurityRequirement::new(name, Vec::<String>::new())]);
        for status in self.refusals(path, operation.request_body.is_some()) {
            let refusal = refusal(status);
            operation.responses.responses.insert(status.to_string(), RefOr::T(refusal));
        }
        for response in operation.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                response.headers.insert("X-Request-Id".to_owned(), header("The request's id"));
                if self == Self::Public {
                    add_limit_headers(response);
                }
            }
        }
    }

    /// Statuses that an operation may be refused with.
    fn refusals(self, path: &str, has_body: bool) -> Vec<u16> {
        let mut refusals = vec![500];
        if self != Self::Open {
            refusals.extend([401, 429, 503]);
        }
        if self == Self::Public {
            refusals.push(403);
        }
        if has_body {
            refusals.extend([400, 408, 413, 415]);
        }
        if LISTS.iter().any(|list| path.ends_with(list)) {
            refusals.push(400);
        }
        let names_request = path.ends_with("/verify") || path.ends_with("/resend");
        if path.contains('{') || names_request || path.contains("/sandbox/") {
            refusals.push(404);
        }
        let ruled = ["/send", "/verify", "/resend", "/inbound"];
        if ruled.iter().any(|end| path.ends_with(end)) {
            refusals.push(422);
        }
        match path {
            "/admin/v1/workspaces" if has_body => refusals.push(409),
            "/v1/contacts" | "/v1/segments" if has_body => refusals.push(422),
            "/v1/contacts/batch" => refusals.push(422),
            path if path.ends_with("/messages") && has_body => refusals.push(422),
            path if path.contains("/numbers") && has_body => refusals.push(409),
            "/v1/contacts/{contact_id}" if has_body => refusals.push(409),
            path if path.ends_with("/templates") && has_body => refusals.push(409),
            "/v1/webhooks" if has_body => refusals.push(422),
            path if path.ends_with("/test") => refusals.push(422),
            path if path.ends_with("/broadcasts") && has_body => refusals.extend([404, 422]),
            "/v1/events/stream" => refusals.push(400),
            path if CONTROLS.iter().any(|end| path.ends_with(end)) => refusals.extend([409, 422]),
            "/readyz" => refusals.push(503),
            path if path.starts_with("/channels/") && has_body => refusals.extend([401, 503]),
            path if path.starts_with("/channels/") => refusals.extend([400, 403]),
            path if path.ends_with("/credits") => refusals.push(422),
            _ => {}
        }
        refusals
    }
}

/// The ends of the paths that take a query.
const LISTS: &[&str] = &[
    "/v1/events",
    "/v1/analytics/campaigns",
    "/v1/analytics/ads",
    "/contacts",
    "/contacts/export",
    "/v1/conversations",
    "/messages",
    "/v1/segments",
    "/v1/suppressions",
    "/v1/sandbox/messages",
    "/workspaces",
    "/keys",
    "/numbers",
    "/templates",
    "/sync",
    "/webhooks",
    "/deliveries",
    "/broadcasts",
    "/recipients",
];

pub(super) fn refusal(status: u16) -> Response {
    let codes = Code::ALL.into_iter().filter(|code| code.status().as_u16() == status);
    let codes: Vec<_> = codes.map(|code| format!("`{}`", code.as_str())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    let mut response = ResponseBuilder::new()
        .description(codes.join(", "))
        .content("application/json", content)
        .build();
    if matches!(status, 429 | 500 | 503) {
        let wait = count_header("Seconds to wait before another try, at least 1");
        response.headers.insert("Retry-After".to_owned(), wait);
    }
    response
}

fn add_limit_headers(response: &mut Response) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_what_all_share() {
        let document = serde_json::to_value(document()).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        let mut ids = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let responses = operation["responses"].as_object().unwrap();
                assert!(responses.contains_key("500"), "{method} {path}");
                assert!(operation["summary"].is_string(), "{method} {path}");
                ids.push(operation["operationId"].as_str().unwrap().to_owned());
                if path.starts_with("/v1/") {
                    let headers = &responses["401"]["headers"];
                    let limit = &headers["X-RateLimit-Limit"]["schema"];
                    assert_eq!(limit["type"], "integer", "{method} {path}");
                    assert!(operation["security"][0]["apiKey"].is_array(), "{method} {path}");
                }
            }
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "an operation's id is there twice");
    }

    #[test]
    fn refusals_are_those_that_can_come() {
        let document = serde_json::to_value(document()).unwrap();
        for (method, path, status, told) in [
            ("get", "/admin/v1/workspaces", "409", false),
            ("post", "/admin/v1/workspaces", "409", true),
            ("post", "/v1/otp/send", "404", false),
            ("post", "/v1/messaging/otp/send", "404", false),
            ("post", "/v1/otp/verify", "404", true),
            ("get", "/v1/otp/{request_id}", "404", true),
            ("get", "/admin/v1/workspaces/{workspace}/keys", "400", true),
            ("get", "/admin/v1/workspaces/{workspace}/numbers", "400", true),
        ] {
            let responses = &document["paths"][path][method]["responses"];
            assert!(responses.is_object(), "{method} {path}");
            assert_eq!(responses[status].is_object(), told, "{method} {path} {status}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = serde_json::to_value(document()).unwrap();
        let text = document.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
