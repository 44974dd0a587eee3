//! Serves HTTP: the routes, the pipeline that every request passes, and one file per resource.

mod admin;
mod analytics;
mod audited_reads;
mod broadcasts;
mod channels;
mod contacts;
mod conversations;
mod dashboard;
pub(crate) mod edge;
pub(crate) mod elsewhere;
mod email;
mod events;
pub(crate) mod health;
pub(crate) mod me;
mod media;
mod message_body;
mod messages;
mod openapi;
mod otp;
pub(crate) mod pipeline;
mod request_log;
mod requests;
mod sandbox;
mod segments;
mod sms;
mod starting;
mod stream_shares;
mod streamed;
mod suppressions;
mod templates;
mod webhooks;
mod workspace;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use postrider_actors::Engine;
use utoipa::openapi::OpenApi;

use crate::metrics::RouteMeter;
use edge::Edge;
use pipeline::known_fields::KnownFields;
use pipeline::{
    Administrator, AnswerFuture, BodyKind, Compressed, FixedRoutes, Guard, Key, Open,
    ResponseFuture, Routes, Stage,
};

pub(crate) use admin::check_name;
pub(crate) use channels::{CALLBACK_BYTES_MAX, callback_address};
pub use dashboard::DashboardOptions;
pub(crate) use dashboard::reachable;
pub use edge::{AdminToken, AppOptions};
pub(crate) use events::{decode_cursor, encode_cursor};
pub(crate) use pipeline::body::{ReadDeadline, linger, read_raw};
pub(crate) use pipeline::body_budget::{BodyBudget, Holder};
pub(crate) use pipeline::browser::{check_page, cookie_of};
pub(crate) use pipeline::client::{
    ConnectionTimer, InReserve, Overloaded, client_address, counted, exact_address, is_within,
};
pub(crate) use pipeline::error::Help;
pub(crate) use pipeline::{
    ApiError, Code, LIMIT_DEFAULT, LIMIT_MAX, Page, Query, Reply, ResponseFuture as Answering,
    STREAM, longest_of, request_id,
};
pub use pipeline::{Drain, Peer};
pub(crate) use starting::Starting;

/// Builds the interface over `engine`. The server serves it; other binaries may mount its router.
///
/// Requests should have a [`Peer`] in their extensions. [`crate::serve`] adds it.
pub fn app(engine: Engine, options: AppOptions) -> App {
    App::of(&edge(engine, options), RouteSet::All)
}

/// Builds two interfaces over `engine`: one for clients, and one with health, metrics and
/// administration, for a listener that clients do not reach.
pub fn apps(engine: Engine, options: AppOptions) -> (App, App) {
    let edge = edge(engine, options);
    (App::of(&edge, RouteSet::Clients), App::of(&edge, RouteSet::Operators))
}

/// The interface of an engine: all routes, and a fast path to the routes with a fixed path.
#[derive(Clone)]
pub struct App {
    edge: Arc<Edge>,
    fixed: Arc<FixedRoutes>,
    router: Router,
}

impl App {
    fn of(edge: &Arc<Edge>, part: RouteSet) -> Self {
        let (router, fixed) = router(edge, part);
        Self { edge: Arc::clone(edge), fixed: Arc::new(fixed), router }
    }

    /// Answers a request.
    pub(crate) fn answer(&self, request: Request) -> ResponseFuture {
        match self.fixed.find(&request) {
            Some(route) => route.answer(request, Arc::clone(&self.edge)),
            None => {
                // A router is always ready, so `poll_ready` is not needed.
                let answer = tower_service::Service::call(&mut self.router.clone(), request);
                Box::pin(async move { answer.await.unwrap_or_else(|never| match never {}) })
            }
        }
    }
}

impl From<App> for Router {
    fn from(app: App) -> Self {
        app.router
    }
}

fn edge(engine: Engine, options: AppOptions) -> Arc<Edge> {
    let document = match (options.sandbox, options.dashboard.enabled) {
        (true, true) => &DOCUMENTS[0],
        (true, false) => &DOCUMENTS[1],
        (false, true) => &DOCUMENTS[2],
        (false, false) => &DOCUMENTS[3],
    };
    Arc::new(Edge::new(engine, options, document, &FIELDS))
}

/// The routes that a router has, by their callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RouteSet {
    All,
    Clients,
    Operators,
}

fn router(edge: &Arc<Edge>, part: RouteSet) -> (Router, FixedRoutes) {
    let mounted = OptionalRoutes::of(&edge.options);
    let routes = match part {
        RouteSet::All => routes(mounted),
        RouteSet::Clients => client_routes(mounted),
        // Refusals of these routes link to a page on the same listener.
        RouteSet::Operators if mounted.docs => {
            operator_routes(mounted).merge(openapi::pages::error_routes())
        }
        RouteSet::Operators => operator_routes(mounted),
    };
    let (router, fixed) = routes.split();
    let unmatched =
        Unrouted::new(edge, part, "(none)", || ApiError::not_found("there is no such route"));
    let wrong_method = Unrouted::new(edge, part, "(method)", || {
        ApiError::new(Code::MethodNotAllowed, "the route has no such method; `Allow` names its own")
    });
    let router = router
        .fallback(move |request| unmatched.answer(request))
        .method_not_allowed_fallback(move |request| wrong_method.answer(request))
        // Resolves the handlers once, not for each request.
        .with_state(Arc::clone(edge));
    (router, fixed)
}

/// Returns the OpenAPI document of all routes, including those of the sandbox and the dashboard.
#[must_use]
pub fn openapi_document() -> OpenApi {
    document(OptionalRoutes::ALL)
}

/// The optional routes that are mounted.
#[derive(Debug, Clone, Copy)]
struct OptionalRoutes {
    /// `true` if the routes of the sandbox are mounted.
    sandbox: bool,
    /// `true` if the routes of the dashboard are mounted.
    dashboard: bool,
    /// `true` if the routes that describe the interface are mounted.
    docs: bool,
}

impl OptionalRoutes {
    const ALL: Self = Self { sandbox: true, dashboard: true, docs: true };

    const fn of(options: &AppOptions) -> Self {
        let AppOptions { sandbox, docs, .. } = *options;
        Self { sandbox, docs, dashboard: options.dashboard.enabled }
    }
}

/// The documents, with and without the sandbox, and with and without the dashboard.
static DOCUMENTS: [LazyLock<Arc<Compressed>>; 4] = [
    LazyLock::new(|| json_of(&document(OptionalRoutes::ALL))),
    LazyLock::new(|| {
        json_of(&document(OptionalRoutes { dashboard: false, ..OptionalRoutes::ALL }))
    }),
    LazyLock::new(|| json_of(&document(OptionalRoutes { sandbox: false, ..OptionalRoutes::ALL }))),
    LazyLock::new(|| {
        json_of(&document(OptionalRoutes { sandbox: false, dashboard: false, docs: true }))
    }),
];

/// The fields of the bodies of all operations.
static FIELDS: LazyLock<KnownFields> = LazyLock::new(|| KnownFields::of(&openapi_document()));

fn document(mounted: OptionalRoutes) -> OpenApi {
    openapi::complete(routes(mounted).into_openapi())
}

fn json_of(document: &OpenApi) -> Arc<Compressed> {
    // A document of texts and numbers always has a JSON form.
    let json = serde_json::to_vec(document).unwrap_or_default();
    Arc::new(Compressed::new("application/json", json))
}

/// Returns every route with its part of the document.
///
/// The sandbox's routes are mounted only in a sandbox. The dashboard's routes need `dashboard`, and
/// those that describe the interface need `docs`.
fn routes(mounted: OptionalRoutes) -> Routes {
    client_routes(mounted).merge(operator_routes(mounted))
}

/// Returns the routes for clients, channels and people.
fn client_routes(mounted: OptionalRoutes) -> Routes {
    let mut routes = Routes::with_openapi(openapi::outline())
        .merge(channels::routes())
        .merge(email::routes())
        .merge(sms::routes())
        .merge(otp::routes())
        .merge(broadcasts::routes())
        .merge(messages::routes())
        .merge(media::routes())
        .merge(templates::routes())
        .merge(events::routes())
        .merge(contacts::routes())
        .merge(segments::routes())
        .merge(conversations::routes())
        .merge(suppressions::routes())
        .merge(webhooks::routes())
        .merge(analytics::routes())
        .merge(me::routes())
        .merge(requests::routes())
        .merge(workspace::routes());
    if mounted.docs {
        routes = routes.merge(openapi::pages::routes(mounted.dashboard));
    }
    if mounted.dashboard {
        routes = routes.merge(crate::ui::routes());
    }
    if mounted.sandbox { routes.merge(sandbox::routes()) } else { routes }
}

/// Returns the routes for operators.
fn operator_routes(mounted: OptionalRoutes) -> Routes {
    Routes::default().merge(health::routes()).merge(admin::routes(mounted.dashboard))
}

/// Answers requests that no handler takes. It checks the key or token first, as every route does. A
/// client without one thus cannot find out which routes exist.
#[derive(Clone)]
struct Unrouted {
    edge: Arc<Edge>,
    part: RouteSet,
    meter: RouteMeter,
    error: fn() -> ApiError,
}

impl Unrouted {
    fn new(edge: &Arc<Edge>, part: RouteSet, label: &'static str, error: fn() -> ApiError) -> Self {
        let meter = RouteMeter::new(label, "any");
        Self { edge: Arc::clone(edge), part, meter, error }
    }

    async fn answer(self, request: Request) -> Response<Body> {
        let path = request.uri().path();
        let below = |root: &str| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // A listener without these routes does not ask for their keys.
        if below("/v1") && self.part != RouteSet::Operators {
            self.refuse(Key::ANY, request).await
        } else if below("/admin/v1") && self.part != RouteSet::Clients {
            self.refuse(Administrator, request).await
        } else {
            self.refuse(Open, request).await
        }
    }

    async fn refuse<G: Guard>(self, guard: G, request: Request) -> Response<Body> {
        let Self { edge, meter, error, .. } = self;
        let handler = Arc::new(move |_| -> AnswerFuture { Box::pin(async move { Err(error()) }) });
        let stage = Stage { meter, guard, takes: BodyKind::NoBody, handler };
        Arc::new(stage).answer(edge, request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_is_mounted_in_a_sandbox_only() {
        let has = |sandbox| {
            let mounted = OptionalRoutes { sandbox, ..OptionalRoutes::ALL };
            let paths = routes(mounted).into_openapi().paths.paths;
            paths.keys().any(|path| path.contains("/sandbox/"))
        };
        assert!(has(true) && !has(false));
    }

    #[test]
    fn every_operation_has_what_all_share() {
        let document = serde_json::to_value(openapi_document()).unwrap();
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
                    let security = operation["security"].as_array().unwrap();
                    let is_for_people = ["settings:write", "templates:write", "requests:read"]
                        .iter()
                        .any(|permission| operation["x-permission"] == *permission);
                    let schemes = if is_for_people { 1 } else { 2 };
                    assert!(security.len() >= schemes, "{method} {path}");
                    let by_key = security[0]["apiKey"].is_array();
                    assert_eq!(by_key, !is_for_people, "{method} {path}");
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
        let document = serde_json::to_value(openapi_document()).unwrap();
        for (method, path, status, expected) in [
            ("get", "/admin/v1/workspaces", "409", false),
            ("post", "/admin/v1/workspaces", "409", true),
            ("post", "/v1/otp/send", "409", true),
            ("post", "/v1/otp/verify", "409", false),
            ("post", "/v1/otp/verify", "404", true),
            ("get", "/v1/otp/{request_id}", "404", true),
            ("get", "/admin/v1/workspaces/{workspace}/keys", "400", true),
            ("get", "/admin/v1/workspaces/{workspace}/numbers", "400", true),
        ] {
            let responses = &document["paths"][path][method]["responses"];
            assert!(responses.is_object(), "{method} {path}");
            assert_eq!(responses[status].is_object(), expected, "{method} {path} {status}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = serde_json::to_value(openapi_document()).unwrap();
        let text = document.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
