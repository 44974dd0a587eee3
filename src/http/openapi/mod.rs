//! Completes the OpenAPI 3.1 document that the routes declare.
//!
//! Security, headers and refusals, which all operations share, are added here, so that no route can
//! forget them.

mod bodies;
mod events;
mod operations;
pub(super) mod pages;
mod strict;

use postrider_actors::Permission;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{OpenApi as Document, RefOr};
use utoipa::{Modify, OpenApi};

use super::pipeline::{ErrorBody, PERMISSION};
use bodies::{BodyAlternatives, ClosedBodies};
use events::{Deliveries, EventSchemas};
use operations::{
    FileAnswers, Idempotency, OptionalBodies, add_limit_headers, header, operations, refusal,
};
use strict::Strict;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Postrider",
        description = "Sends one-time passwords and messages over a chat-app channel.\n\n\
            Every request below `/v1` carries `Authorization: Bearer <API key>`, every one below \
            `/admin/v1` an admin token. Checks come in this order: 401 (no or bad key), 403 (an \
            address that the key does not allow), 429 (the key's requests), 403 (scope), 404 or 405 (no such route or method), 415, 413, 408 and \
            400 (body), then the rules of the operation (404, 409, 422, 429), then 503. Requests \
            without a good key are counted for each client address. A request that is not one \
            HTTP request for this server is refused before all that: 400, 421 or 501.\n\n\
            A field that an operation does not know is 400, which names it and the nearest one that \
            it knows. In a change, and where something is made that sends nothing, a field that the \
            same thing has when it is read, such as `id` or `created_at`, may be sent back and is \
            ignored. `null` is the same as leaving an optional field out. Every answer has `X-Request-Id`: the client's, when it is 1 to 128 characters of \
             `A-Za-z0-9._:-`, or else a new one. Every refusal has a `Link` with `rel=\"help\"` to the \
             page about its code, unless the settings say that there is none.\n\n\
            Without `Authorization` a session's cookie counts, below `/v1` with the header \
            `Postrider-Workspace` where somebody has several workspaces. `x-permission` of an \
            operation names what a person's role must have: `any` is nothing, `operator` no role \
            has. A request that a page of another origin makes with a session is 403 with the \
            reason `cross_site`, one for a name that is not this server's 403 with `host`, and what \
            needs a sign-in or confirmation within ten minutes 403 with `step_up_required`.\n\n\
            `Idempotency-Key` (1 to 255 characters) is honoured where an operation says so: for 24 \
            hours the same key with the same body answers what the first request was answered, \
            with `Idempotency-Replayed: true`. With another body it is 422, while the first \
            request is under way 409 with the reason \
            `idempotency_under_way`. A refusal is not kept.\n\n\
            What makes something that is kept is 422 with the reason `quota_bytes` in a workspace \
            that has as many bytes as it may, and a broadcast 422 with `quota_broadcasts` where as \
            many are kept as may be; one-time passwords go on. While the server's disk is almost \
            full, it is 503 with the reason `disk_full`. What would send is 503 with the reason `held` \
            on a server that was restored and not released yet. Every 503 has a reason.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(ErrorBody)),
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
        (name = "Media", description = "Files that messages are sent with; scopes `messaging:send` \
            and `contacts:read`"),
        (name = "Analytics", description = "What messages brought; scope `analytics:read`"),
        (name = "Events", description = "The event log; scope `webhooks:manage`"),
        (name = "Webhooks", description = "Events, delivered; scope `webhooks:manage`"),
        (name = "Sandbox", description = "In a sandbox only; scope `messaging:send`"),
        (name = "Administration", description = "With the admin token, as an operator, or by a role"),
        (
            name = "Dashboard",
            description = "For the dashboard's page alone, which this server serves: requests of \
                other origins are answered 403"
        ),
        (name = "Channel", description = "For the chat-app channel, which signs what it calls back"),
        (name = "Operation", description = "For orchestrators; without a key"),
    )
)]
struct Interface;

/// Returns the document without operations. The routes declare those.
pub(crate) fn outline() -> Document {
    Interface::openapi()
}

/// Adds the parts that all operations share, and the events, to a document with all operations.
pub(crate) fn complete(mut document: Document) -> Document {
    let modifiers: [&dyn Modify; 9] = [
        &Idempotency,
        &SharedParts,
        &EventSchemas,
        &Deliveries,
        &Strict,
        &BodyAlternatives,
        &FileAnswers,
        &OptionalBodies,
        &ClosedBodies,
    ];
    modifiers.iter().for_each(|modifier| modifier.modify(&mut document));
    document
}

/// The name of the security scheme for people's sessions.
const SESSION: &str = "session";

/// Adds security, headers and refusals to every operation.
struct SharedParts;

impl Modify for SharedParts {
    fn modify(&self, document: &mut Document) {
        let components = document.components.get_or_insert_default();
        for (name, description) in [
            ("apiKey", "An API key of a workspace"),
            ("adminToken", "An admin token of the server"),
        ] {
            let scheme = HttpBuilder::new()
                .scheme(HttpAuthScheme::Bearer)
                .description(Some(description))
                .build();
            components.add_security_scheme(name, SecurityScheme::Http(scheme));
        }
        let cookie = ApiKeyValue::with_description(
            "postrider",
            "The session of a person. `_` and eight digits of the server's own end the name",
        );
        components.add_security_scheme(SESSION, SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
        for (path, item) in &mut document.paths.paths {
            let area = Area::of(path);
            for operation in operations(item) {
                area.complete(path, operation);
                if ["advanceSandboxClock", "readMe"]
                    .iter()
                    .any(|it| operation.operation_id.as_deref() == Some(it))
                {
                    let either = SecurityRequirement::new("adminToken", Vec::<String>::new());
                    operation.security.get_or_insert_default().push(either);
                }
            }
        }
    }
}

/// Returns whether an operation needs a permission that no API key has.
fn is_for_people(operation: &Operation) -> bool {
    let needs = operation.extensions.as_ref().and_then(|all| all.get(PERMISSION)?.as_str());
    let named = Permission::ALL.iter().find(|permission| Some(permission.as_str()) == needs);
    named.is_some_and(|permission| permission.scope().is_none())
}

/// The ends of the paths that control a broadcast.
const CONTROLS: [&str; 4] = ["/pause", "/resume", "/cancel", "/retry"];

/// The part of the API that a path belongs to, by who may call it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Area {
    Public,
    Admin,
    Page,
    Open,
}

impl Area {
    fn of(path: &str) -> Self {
        match path {
            path if path.starts_with("/v1/") => Self::Public,
            path if path.starts_with("/admin/") => Self::Admin,
            path if path.starts_with("/ui/") => Self::Page,
            _ => Self::Open,
        }
    }

    fn complete(self, path: &str, operation: &mut Operation) {
        let schemes: &[&str] = match self {
            // No key may call these operations.
            Self::Public if is_for_people(operation) => &[SESSION],
            Self::Public => &["apiKey", SESSION],
            Self::Admin => &["adminToken", SESSION],
            Self::Page => &[SESSION],
            Self::Open => &[],
        };
        let requirement = |name: &&str| SecurityRequirement::new(*name, Vec::<String>::new());
        // These two operations sign people in, so they need no session.
        let is_open = ["/ui/api/session", "/ui/api/join"].contains(&path) || schemes.is_empty();
        operation.security = (!is_open).then(|| schemes.iter().map(requirement).collect());
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

    /// Returns the statuses with which an operation may be refused.
    fn refusals(self, path: &str, has_body: bool) -> Vec<u16> {
        let mut refusals = vec![400, 421, 500, 501];
        if self != Self::Open {
            refusals.extend([401, 429]);
        }
        // A connection of the reserve serves only operators.
        if !["/healthz", "/metrics"].contains(&path) {
            refusals.push(503);
        }
        if self != Self::Open {
            refusals.push(403);
        }
        if self == Self::Public {
            // The statuses for a session that names another workspace, or none.
            refusals.extend([400, 404]);
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
            "/admin/v1/archive/log" | "/admin/v1/users/link" | "/ui/api/join" | "/ui/api/totp" => {
                refusals.extend([404, 409]);
            }
            "/admin/v1/workspaces" if has_body => refusals.push(409),
            "/v1/workspace" if has_body => refusals.push(409),
            path if path.ends_with("/invites") && has_body => refusals.push(409),
            path if path.contains("/members/") || path.contains("/cluster/") => refusals.push(409),
            "/v1/contacts" | "/v1/contacts/batch" | "/v1/contacts/bulk" => refusals.push(422),
            "/v1/segments" | "/v1/segments/{segment_id}" if has_body => refusals.push(422),
            path if has_body && MADE.iter().any(|end| path.ends_with(end)) => refusals.push(422),
            path if path.ends_with("/numbers") && has_body => refusals.extend([409, 422]),
            path if path.contains("/numbers") && has_body => refusals.push(409),
            "/v1/contacts/{contact_id}" if has_body => refusals.extend([409, 422]),
            path if path.ends_with("/templates") && has_body => refusals.extend([409, 422]),
            path if path.ends_with("/test") => refusals.push(422),
            path if path.ends_with("/broadcasts/preview") => refusals.push(422),
            "/v1/messaging/broadcasts/{broadcast_id}" if has_body => refusals.push(409),
            path if path.ends_with("/broadcasts") && has_body => refusals.extend([404, 422]),
            "/v1/events/stream" => refusals.push(400),
            path if CONTROLS.iter().any(|end| path.ends_with(end)) => refusals.extend([409, 422]),
            path if SOMEWHERE.contains(&path) => refusals.push(404),
            path if path.starts_with("/channels/") && has_body => refusals.extend([401, 429]),
            path if path.starts_with("/channels/") => refusals.extend([400, 403, 429]),
            "/v1/media/{media_id}/content" => refusals.push(409),
            path if RULED.iter().any(|end| path.ends_with(end)) => refusals.push(422),
            _ => {}
        }
        refusals
    }
}

/// The paths that exist on some servers only: with documents, a single server, or a node of a
/// cluster.
const SOMEWHERE: [&str; 7] = [
    "/admin/v1/archive",
    "/admin/v1/archive/files",
    "/admin/v1/clock",
    "/admin/v1/clock/follow",
    "/admin/v1/cluster",
    "/admin/v1/release",
    "/openapi.json",
];

/// The ends of the paths that create something, which the current state may forbid.
const MADE: [&str; 5] =
    ["/messages", "/notes", "/quick-replies", "/webhooks", "/portfolios/{portfolio_id}"];

/// The ends of other paths that a rule may refuse.
const RULED: [&str; 3] = ["/v1/media", "/credits", "/read"];

/// The ends of the paths that take a query.
const LISTS: &[&str] = &[
    "/v1/events",
    "/v1/requests",
    "/v1/quick-replies",
    "/notes",
    "/timeline",
    "/admin/v1/audit",
    "/admin/v1/audit/check",
    "/v1/analytics/campaigns",
    "/v1/analytics/ads",
    "/v1/analytics/otp",
    "/v1/conversations/days",
    "/v1/otp",
    "/otp/decisions",
    "/contacts",
    "/contacts/export",
    "/v1/conversations",
    "/messages",
    "/v1/segments",
    "/v1/suppressions",
    "/v1/sandbox/messages",
    "/workspaces",
    "/keys",
    "/tokens",
    "/users",
    "/members",
    "/invites",
    "/numbers",
    "/templates",
    "/sync",
    "/webhooks",
    "/deliveries",
    "/broadcasts",
    "/recipients",
];
