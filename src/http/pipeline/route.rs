//! The list of routes: what is mounted, and what the OpenAPI document must have.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::auth::Guard;
use super::stage::{Answer, BodySize, Call, Stage, Takes};
use crate::http::edge::Edge;

/// A route before there is an engine to serve it.
struct Entry {
    method: Method,
    path: &'static str,
    mount: Mount,
}

/// Makes the route's handler once there is an engine.
type Mount = Box<dyn FnOnce(&Arc<Edge>) -> MethodRouter>;

/// Routes in the making.
pub(crate) struct Routes<G> {
    guard: G,
    entries: Vec<Entry>,
}

impl<G: Guard> Routes<G> {
    /// No routes yet; those that are added are guarded by `guard`.
    pub(crate) fn guarded(guard: G) -> Self {
        Self { guard, entries: Vec::new() }
    }

    pub(crate) fn get<H, F>(self, path: &'static str, handler: H) -> Self
    where
        H: Fn(Call<G::Caller>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        self.add(Method::GET, MethodFilter::GET, path, Takes::NoBody, handler)
    }

    pub(crate) fn post<H, F>(self, path: &'static str, handler: H) -> Self
    where
        H: Fn(Call<G::Caller>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        self.add(Method::POST, MethodFilter::POST, path, Takes::Json(BodySize::Usual), handler)
    }

    /// One that takes bodies of another size than most.
    pub(crate) fn post_sized<H, F>(self, path: &'static str, size: BodySize, handler: H) -> Self
    where
        H: Fn(Call<G::Caller>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        self.add(Method::POST, MethodFilter::POST, path, Takes::Json(size), handler)
    }

    /// A `POST` whose body is taken as it comes, whatever its type.
    pub(crate) fn post_raw<H, F>(self, path: &'static str, max_bytes: usize, handler: H) -> Self
    where
        H: Fn(Call<G::Caller>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        self.add(Method::POST, MethodFilter::POST, path, Takes::Raw { max_bytes }, handler)
    }

    pub(crate) fn put<H, F>(self, path: &'static str, handler: H) -> Self
    where
        H: Fn(Call<G::Caller>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        self.add(Method::PUT, MethodFilter::PUT, path, Takes::Json(BodySize::Usual), handler)
    }

    pub(crate) fn patch<H, F>(self, path: &'static str, handler: H) -> Self
    where
        H: Fn(Call<G::Caller>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        self.add(Method::PATCH, MethodFilter::PATCH, path, Takes::Json(BodySize::Usual), handler)
    }

    pub(crate) fn delete<H, F>(self, path: &'static str, handler: H) -> Self
    where
        H: Fn(Call<G::Caller>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        self.add(Method::DELETE, MethodFilter::DELETE, path, Takes::NoBody, handler)
    }

    fn add<H, F>(
        mut self,
        method: Method,
        filter: MethodFilter,
        path: &'static str,
        takes: Takes,
        handler: H,
    ) -> Self
    where
        H: Fn(Call<G::Caller>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        let guard = self.guard.clone();
        let label = label(&method);
        let mount = move |edge: &Arc<Edge>| {
            let meter = edge.options.metrics.route(path, label);
            let stage = Stage { edge: Arc::clone(edge), meter, guard, takes };
            on(filter, move |request: Request| stage.run(request, handler))
        };
        self.entries.push(Entry { method, path, mount: Box::new(mount) });
        self
    }

    /// These routes and those of another guard.
    pub(crate) fn and<O: Guard>(mut self, other: Routes<O>) -> Self {
        self.entries.extend(other.entries);
        self
    }

    /// Method and path of each.
    #[cfg(test)]
    pub(crate) fn list(&self) -> Vec<(Method, &'static str)> {
        self.entries.iter().map(|entry| (entry.method.clone(), entry.path)).collect()
    }

    /// A router that serves them for `edge`.
    pub(crate) fn mount(self, edge: &Arc<Edge>) -> Router {
        self.entries.into_iter().fold(Router::new(), |router, entry| {
            tracing::trace!(method = %entry.method, path = entry.path, "route");
            router.route(entry.path, (entry.mount)(edge))
        })
    }
}

fn label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "other",
    }
}
