//! Serves HTTP: the routes, the pipeline that every request passes, and one file per resource.

mod admin;
mod analytics;
mod broadcasts;
mod channels;
mod contacts;
mod conversations;
mod edge;
mod email;
mod events;
mod health;
mod message_body;
mod messages;
mod openapi;
mod otp;
mod pipeline;
mod sandbox;
mod segments;
mod suppressions;
mod templates;
mod webhooks;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use bytes::Bytes;
use postrider_actors::Engine;
use utoipa::openapi::OpenApi;

use edge::Edge;
pub use edge::{AdminToken, AppOptions};
pub(crate) use pipeline::client::{InReserve, counted, is_within};
use pipeline::{Administrator, ApiError, Code, Guard, Key, Open, Routes, Stage, Takes};
pub use pipeline::{Drain, Peer};

use crate::metrics::RouteMeter;

/// Builds a router over `engine`. The server serves it; other binaries and tests may mount it.
///
/// Requests should have a [`Peer`] in their extensions. [`crate::serve`] adds it.
pub fn app(engine: Engine, options: AppOptions) -> Router {
    router(&edge(engine, options), Part::All)
}

/// Builds two routers over `engine`: one for clients, and one with health, metrics and
/// administration, for a listener that clients do not reach.
pub fn apps(engine: Engine, options: AppOptions) -> (Router, Router) {
    let edge = edge(engine, options);
    (router(&edge, Part::Clients), router(&edge, Part::Operators))
}

fn edge(engine: Engine, options: AppOptions) -> Arc<Edge> {
    let document = if options.sandbox { &SANDBOX_DOCUMENT } else { &DOCUMENT };
    Arc::new(Edge::new(engine, options, document))
}

/// Which routes a router has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    Clients,
    Operators,
}

fn router(edge: &Arc<Edge>, part: Part) -> Router {
    let (sandbox, docs) = (edge.options.sandbox, edge.options.docs);
    let routes = match part {
        Part::All => routes(sandbox, docs),
        Part::Clients => client_routes(sandbox, docs),
        Part::Operators => operator_routes(),
    };
    let (router, _) = routes.split_for_parts();
    let unmatched =
        Unrouted::new(edge, part, "(none)", || ApiError::not_found("there is no such route"));
    let wrong_method = Unrouted::new(edge, part, "(method)", || {
        ApiError::new(Code::MethodNotAllowed, "the route has no such method; `Allow` names its own")
    });
    router
        .fallback(move |request| unmatched.answer(request))
        .method_not_allowed_fallback(move |request| wrong_method.answer(request))
        // Resolves the handlers once, not for each request.
        .with_state(Arc::clone(edge))
}

/// The OpenAPI document of every route, those of the sandbox included.
#[must_use]
pub fn openapi_document() -> OpenApi {
    document(true)
}

/// The document of a sandbox.
static SANDBOX_DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| json_of(&document(true)));
/// The document of every other server.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| json_of(&document(false)));

fn document(sandbox: bool) -> OpenApi {
    openapi::complete(routes(sandbox, true).into_openapi())
}

fn json_of(document: &OpenApi) -> Bytes {
    // A document of texts and numbers always has a JSON form.
    serde_json::to_vec(document).unwrap_or_default().into()
}

/// Every route with its part of the document. The sandbox's are mounted in a sandbox only, and
/// those that describe the interface with `docs` only.
fn routes(sandbox: bool, docs: bool) -> Routes {
    client_routes(sandbox, docs).merge(operator_routes())
}

/// The routes that clients, channels and people need.
fn client_routes(sandbox: bool, docs: bool) -> Routes {
    let routes = Routes::with_openapi(openapi::outline())
        .merge(channels::routes())
        .merge(email::routes())
        .merge(otp::routes())
        .merge(broadcasts::routes())
        .merge(messages::routes())
        .merge(templates::routes())
        .merge(events::routes())
        .merge(contacts::routes())
        .merge(segments::routes())
        .merge(conversations::routes())
        .merge(suppressions::routes())
        .merge(webhooks::routes())
        .merge(analytics::routes());
    let routes = if docs { routes.merge(openapi::pages::routes()) } else { routes };
    if sandbox { routes.merge(sandbox::routes()) } else { routes }
}

/// The routes that operators need.
fn operator_routes() -> Routes {
    Routes::default().merge(health::routes()).merge(admin::routes())
}

/// Answers requests that no handler takes. It checks the key or token first, as every route does,
/// so that a client without one cannot find out which routes exist.
#[derive(Clone)]
struct Unrouted {
    edge: Arc<Edge>,
    part: Part,
    meter: RouteMeter,
    error: fn() -> ApiError,
}

impl Unrouted {
    fn new(edge: &Arc<Edge>, part: Part, label: &'static str, error: fn() -> ApiError) -> Self {
        let meter = RouteMeter::new(label, "any");
        Self { edge: Arc::clone(edge), part, meter, error }
    }

    async fn answer(self, request: Request) -> Response<Body> {
        let path = request.uri().path();
        let below = |root: &str| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // A listener that has none of these routes asks for none of their keys.
        if below("/v1") && self.part != Part::Operators {
            self.refuse(Key::ANY, request).await
        } else if below("/admin/v1") && self.part != Part::Clients {
            self.refuse(Administrator, request).await
        } else {
            self.refuse(Open, request).await
        }
    }

    async fn refuse<G: Guard>(self, guard: G, request: Request) -> Response<Body> {
        let Self { edge, meter, error, .. } = self;
        let stage = Stage { meter, guard, takes: Takes::NoBody };
        stage.run(edge, request, |_| async move { Err(error()) }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_is_mounted_in_a_sandbox_only() {
        let has = |sandbox| {
            let paths = routes(sandbox, true).into_openapi().paths.paths;
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
        let document = serde_json::to_value(openapi_document()).unwrap();
        for (method, path, status, expected) in [
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
