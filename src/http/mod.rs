//! The HTTP edge: routes, the checks that every request passes, and one file per resource.

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
mod messages;
mod openapi;
mod otp;
mod pipeline;
mod sandbox;
mod segments;
mod suppressions;
mod templates;
mod webhooks;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use postrider_actors::Engine;
use postrider_actors::domain::Scope;

use edge::Edge;
pub use edge::{AdminToken, AppOptions};
pub use openapi::document as openapi_document;
use pipeline::{Administrator, ApiError, Code, Guard, Key, Open, Routes, Stage, Takes};
pub use pipeline::{Drain, Peer};

use crate::metrics::RouteMeter;

/// A router over `engine`: what the server serves, and what other binaries and tests mount.
///
/// Requests should carry a [`Peer`] in their extensions; [`crate::serve`] puts it there.
pub fn app(engine: Engine, options: AppOptions) -> Router {
    let sandbox = options.sandbox;
    let edge = Arc::new(Edge::new(engine, options));
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
        .and(openapi::pages::routes(Routes::guarded(Open)))
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
        let meter = edge.options.metrics.route(label, "any");
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
