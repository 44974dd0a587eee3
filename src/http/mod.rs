//! The HTTP edge: routes, the checks that every request passes, and one file per resource.

mod admin;
mod analytics;
mod auth;
mod body;
mod broadcasts;
mod channels;
mod contacts;
mod conversations;
mod docs;
mod drain;
mod email;
mod error;
mod event_document;
mod event_stream;
mod events;
mod health;
mod idempotency_document;
mod limits;
mod list;
mod messages;
mod object;
mod openapi;
mod otp;
mod pipeline;
mod query;
mod reply;
mod request_id;
mod route;
mod sandbox;
mod segments;
mod suppressions;
mod templates;
mod webhook_deliveries;
mod webhook_document;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use postrider_actors::Engine;
use postrider_actors::domain::Scope;

pub use auth::{AdminToken, Peer};
use auth::{Administrator, Guard, Key, Open};
pub use drain::Drain;
use error::{ApiError, Code};
pub use openapi::document as openapi_document;
use pipeline::{Stage, Takes};
use route::Routes;

use crate::metrics::{Metrics, RouteMeter};
use crate::settings::Settings;

/// What a router needs beside an engine.
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// The token of `/admin/v1`.
    pub admin_token: AdminToken,
    /// Where requests are counted, and what `/metrics` shows.
    pub metrics: Metrics,
    /// Whether `/v1/sandbox/…` is mounted.
    pub sandbox: bool,
    /// Most bytes of a request's body.
    pub max_body_bytes: usize,
    /// Most bytes of the body of a request that makes a broadcast.
    pub max_broadcast_body_bytes: usize,
    /// Most bytes of the body of a request that makes many contacts.
    pub max_contacts_batch_body_bytes: usize,
    /// Longest wait for a request's body.
    pub body_timeout: Duration,
    /// Longest wait for a handler.
    pub handler_timeout: Duration,
    /// What tells requests that the server stops.
    pub drain: Drain,
}

impl AppOptions {
    /// The options that the settings give.
    #[must_use]
    pub fn new(settings: &Settings, admin_token: AdminToken, metrics: Metrics) -> Self {
        Self {
            admin_token,
            metrics,
            sandbox: settings.sandbox.enabled,
            max_body_bytes: settings.server.max_body_bytes,
            max_broadcast_body_bytes: settings.server.max_broadcast_body_bytes,
            max_contacts_batch_body_bytes: settings.server.max_contacts_batch_body_bytes,
            body_timeout: settings.server.body_timeout_seconds,
            handler_timeout: settings.server.handler_timeout_seconds,
            drain: Drain::default(),
        }
    }
}

/// Broadcasts that are read from their bodies at a time; more wait for their turn.
const BROADCAST_TURNS: usize = 4;

/// What is behind every route.
pub(crate) struct Edge {
    engine: Engine,
    admin_token: AdminToken,
    metrics: Metrics,
    max_body_bytes: usize,
    max_broadcast_body_bytes: usize,
    max_contacts_batch_body_bytes: usize,
    body_timeout: Duration,
    handler_timeout: Duration,
    drain: Drain,
    /// How many broadcasts may be read from their bodies at a time.
    broadcast_turns: Arc<tokio::sync::Semaphore>,
    /// Held while the sandbox checks and moves its clock.
    clock_moves: tokio::sync::Mutex<()>,
}

/// A router over `engine`: what the server serves, and what other binaries and tests mount.
///
/// Requests should carry a [`Peer`] in their extensions; [`crate::serve`] puts it there.
pub fn app(engine: Engine, options: AppOptions) -> Router {
    let sandbox = options.sandbox;
    let edge = Arc::new(Edge {
        engine,
        admin_token: options.admin_token,
        metrics: options.metrics,
        max_body_bytes: options.max_body_bytes,
        max_broadcast_body_bytes: options.max_broadcast_body_bytes,
        max_contacts_batch_body_bytes: options.max_contacts_batch_body_bytes,
        body_timeout: options.body_timeout,
        handler_timeout: options.handler_timeout,
        drain: options.drain,
        broadcast_turns: Arc::new(tokio::sync::Semaphore::new(BROADCAST_TURNS)),
        clock_moves: tokio::sync::Mutex::default(),
    });
    let unmatched =
        Refusals::new(&edge, "(none)", || ApiError::not_found("there is no such route"));
    let wrong_method = Refusals::new(&edge, "(method)", || {
        ApiError::new(Code::MethodNotAllowed, "the route has no such method; `Allow` names its own")
    });
    routes(sandbox)
        .mount(&edge)
        .fallback(move |request| unmatched.answer(request))
        .method_not_allowed_fallback(move |request| wrong_method.answer(request))
        // Resolves the handlers once, instead of for each request.
        .with_state(())
}

/// Every route; those of the sandbox are there in a sandbox only.
fn routes(sandbox: bool) -> Routes<Open> {
    let routes = Routes::guarded(Open)
        .and(health::routes(Routes::guarded(Open)))
        .and(docs::routes(Routes::guarded(Open)))
        .and(channels::routes(Routes::guarded(Open)))
        .and(email::routes(Routes::guarded(Open)))
        .and(otp::routes(Routes::guarded(Key(Some(Scope::MessagingSend)))))
        .and(broadcasts::routes(Routes::guarded(Key(Some(Scope::MessagingSend)))))
        .and(messages::routes(Routes::guarded(Key(Some(Scope::MessagingSend)))))
        .and(templates::routes(Routes::guarded(Key(Some(Scope::MessagingSend)))))
        .and(events::routes(Routes::guarded(Key(Some(Scope::WebhooksManage)))))
        .and(contacts::reading(Routes::guarded(Key(Some(Scope::ContactsRead)))))
        .and(contacts::writing(Routes::guarded(Key(Some(Scope::ContactsWrite)))))
        .and(segments::reading(Routes::guarded(Key(Some(Scope::ContactsRead)))))
        .and(segments::writing(Routes::guarded(Key(Some(Scope::ContactsWrite)))))
        .and(conversations::reading(Routes::guarded(Key(Some(Scope::ContactsRead)))))
        .and(conversations::writing(Routes::guarded(Key(Some(Scope::ContactsWrite)))))
        .and(conversations::sending(Routes::guarded(Key(Some(Scope::MessagingSend)))))
        .and(suppressions::reading(Routes::guarded(Key(Some(Scope::ContactsRead)))))
        .and(suppressions::writing(Routes::guarded(Key(Some(Scope::ContactsWrite)))))
        .and(webhooks::routes(Routes::guarded(Key(Some(Scope::WebhooksManage)))))
        .and(analytics::routes(Routes::guarded(Key(Some(Scope::AnalyticsRead)))))
        .and(admin::routes(Routes::guarded(Administrator)));
    if sandbox {
        routes.and(sandbox::routes(Routes::guarded(Key(Some(Scope::MessagingSend)))))
    } else {
        routes
    }
}

/// Answers what no handler takes. It checks the key or token first, as every route does, so a
/// stranger cannot find out which routes there are.
#[derive(Clone)]
struct Refusals {
    edge: Arc<Edge>,
    meter: RouteMeter,
    error: fn() -> ApiError,
}

impl Refusals {
    fn new(edge: &Arc<Edge>, label: &'static str, error: fn() -> ApiError) -> Self {
        let meter = edge.metrics.route(label, "any");
        Self { edge: Arc::clone(edge), meter, error }
    }

    async fn answer(self, request: Request) -> Response<Body> {
        let path = request.uri().path();
        let below = |root: &str| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if below("/v1") {
            self.refuse(Key(None), request).await
        } else if below("/admin/v1") {
            self.refuse(Administrator, request).await
        } else {
            self.refuse(Open, request).await
        }
    }

    async fn refuse<G: Guard>(self, guard: G, request: Request) -> Response<Body> {
        let Self { edge, meter, error } = self;
        let stage = Stage { edge, meter, guard, takes: Takes::NoBody };
        stage.run(request, |_| async move { Err(error()) }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_route_and_no_other() {
        let mut mounted: Vec<_> = routes(true)
            .list()
            .into_iter()
            // The pages and files of the documentation are not part of the interface.
            .filter(|(_, path)| !path.starts_with("/docs"))
            .map(|(method, path)| format!("{} {path}", method.as_str().to_lowercase()))
            .collect();
        let document = serde_json::to_value(openapi_document()).unwrap();
        let mut documented = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            documented
                .extend(item.as_object().unwrap().keys().map(|method| format!("{method} {path}")));
        }
        mounted.sort();
        documented.sort();
        assert_eq!(mounted, documented);
    }

    #[test]
    fn the_sandbox_is_mounted_in_a_sandbox_only() {
        let has =
            |sandbox| routes(sandbox).list().iter().any(|(_, path)| path.contains("/sandbox/"));
        assert!(has(true) && !has(false));
    }
}
