//! Mounts handlers at the method and path that `#[utoipa::path]` declares above them.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{Method, Response};
use axum::routing::{MethodRouter, get};
use postrider_actors::BoxFuture;
use utoipa::__dev::{SchemaReferences, Tags};
use utoipa::Path;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{HttpMethod, Operation, Paths};
use utoipa::openapi::{OpenApi, RefOr, Schema};
use utoipa_axum::PathItemExt as _;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::auth::Guard;
use super::call::Call;
use super::known_fields::PERMISSION;
use super::stage::{Answer, AnyHandler, BodyKind, BodySize, Stage};
use crate::http::edge::Edge;
use crate::metrics::RouteMeter;

/// Routes together with their part of the OpenAPI document.
#[derive(Default)]
pub(crate) struct Routes {
    documented: OpenApiRouter<Arc<Edge>>,
    fixed: FixedRoutes,
}

impl Routes {
    /// Returns no routes yet, with the document to which theirs are added.
    pub(crate) fn with_openapi(outline: OpenApi) -> Self {
        Self { documented: OpenApiRouter::with_openapi(outline), fixed: FixedRoutes::default() }
    }

    /// Adds an operation.
    pub(crate) fn routes(mut self, operation: MountedOperation) -> Self {
        let MountedOperation { documented, fixed } = operation;
        self.fixed.extend(fixed);
        Self { documented: self.documented.routes(documented), ..self }
    }

    /// Adds a route that the document does not list.
    pub(crate) fn route(self, path: &str, route: MethodRouter<Arc<Edge>>) -> Self {
        Self { documented: self.documented.route(path, route), ..self }
    }

    /// Adds all of `other`.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.fixed.0.extend(other.fixed.0);
        Self { documented: self.documented.merge(other.documented), ..self }
    }

    /// Returns the document.
    pub(crate) fn into_openapi(self) -> OpenApi {
        self.documented.into_openapi()
    }

    /// Returns the router of all routes, and those routes whose path is always the same.
    pub(crate) fn split(self) -> (Router<Arc<Edge>>, FixedRoutes) {
        (self.documented.split_for_parts().0, self.fixed)
    }
}

/// The future of a request's answer.
pub(crate) type ResponseFuture = BoxFuture<'static, Response<Body>>;

/// The routes whose path has no parameter.
///
/// Finding one of them takes a lookup. axum's router also copies itself, matches a tree and boxes
/// the handler's future once more.
#[derive(Clone, Default)]
pub(crate) struct FixedRoutes(HashMap<String, Vec<ByMethod>>);

/// A method of a path, with its route.
type ByMethod = (Method, Arc<dyn FixedRoute>);

impl FixedRoutes {
    fn extend(&mut self, routes: Vec<(String, Method, Arc<dyn FixedRoute>)>) {
        for (path, method, route) in routes {
            self.0.entry(path).or_default().push((method, route));
        }
    }

    /// Returns the route for the request, if it is one of these.
    pub(crate) fn find(&self, request: &Request) -> Option<Arc<dyn FixedRoute>> {
        let routes = self.0.get(request.uri().path())?;
        let (_, route) = routes.iter().find(|(method, _)| method == request.method())?;
        Some(Arc::clone(route))
    }
}

/// A route that is called without axum's router.
pub(crate) trait FixedRoute: Send + Sync {
    /// Answers a request.
    fn answer(self: Arc<Self>, request: Request, edge: Arc<Edge>) -> ResponseFuture;
}

/// An operation with its route and its part of the document.
pub(crate) struct MountedOperation {
    documented: UtoipaMethodRouter<Arc<Edge>>,
    /// The fixed routes of the operation; empty if the path has a parameter.
    fixed: Vec<(String, Method, Arc<dyn FixedRoute>)>,
}

/// A handler with the declaration that `#[utoipa::path]` generates for it.
pub(crate) struct DeclaredRoute<H> {
    handler: H,
    declaration: Declaration,
}

/// The part of a [`DeclaredRoute`] that does not depend on the handler's type.
///
/// There are nearly two hundred handlers. The compiler translates code that depends on their types
/// for each of them.
struct Declaration {
    path: String,
    methods: Vec<HttpMethod>,
    operation: Operation,
    schemas: Vec<(String, RefOr<Schema>)>,
    /// The way to read the body; `None` is the default of the method.
    takes: Option<BodyKind>,
}

/// Pairs a handler with its declaration, so that neither can be mounted without the other.
///
/// `#[utoipa::path]` generates the unit struct `__path_<handler>`. The `routes!` of `utoipa-axum`
/// reads the same struct, but requires a handler that takes axum's extractors; ours take a `Call`.
macro_rules! route {
    ($handler:ident) => {
        utoipa_axum::paste! {
            $crate::http::pipeline::DeclaredRoute::new([<__path_ $handler>], $handler)
        }
    };
}
pub(crate) use route;

impl<H> DeclaredRoute<H> {
    /// Pairs a handler with its declaration. Use [`route!`] instead, which finds the declaration.
    pub(crate) fn new<D>(_: D, handler: H) -> Self
    where
        D: Path + SchemaReferences + Tags<'static>,
    {
        let mut operation = D::operation();
        let tags = D::tags().into_iter().map(str::to_owned);
        operation.tags.get_or_insert_default().extend(tags);
        let mut schemas = Vec::new();
        D::schemas(&mut schemas);
        let (path, methods) = (D::path(), D::methods());
        let declaration = Declaration { path, methods, operation, schemas, takes: None };
        Self { handler, declaration }
    }

    /// Sets how the body is read, instead of the default of the method.
    pub(crate) fn takes(mut self, takes: BodyKind) -> Self {
        self.declaration.takes = Some(takes);
        self
    }

    /// Mounts the operation at another path. Operation ids must be unique in the document, so it
    /// needs another id.
    pub(crate) fn at(mut self, path: &str, operation_id: &str) -> Self {
        self.declaration.operation.operation_id = Some(operation_id.to_owned());
        self.declaration.path = path.to_owned();
        self
    }

    /// Puts the route behind a guard. The result is the argument of [`Routes::routes`].
    pub(crate) fn guarded<G, F>(self, guard: G) -> MountedOperation
    where
        G: Guard,
        H: Fn(Call<G::Caller>) -> F + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        let Self { handler, declaration } = self;
        declaration.mount(guard, Arc::new(move |call| Box::pin(handler(call))))
    }
}

impl Declaration {
    fn mount<G: Guard>(self, guard: G, handler: AnyHandler<G::Caller>) -> MountedOperation {
        let Self { path, methods, mut operation, schemas, takes } = self;
        if let Some(needs) = guard.needs() {
            operation.extensions = Some(Extensions::builder().add(PERMISSION, needs).build());
        }
        let (mut router, mut fixed) = (MethodRouter::new(), Vec::new());
        for method in &methods {
            let meter = RouteMeter::new(&path, method_name(method));
            let takes = takes.unwrap_or_else(|| default_takes(method));
            let handler = Arc::clone(&handler);
            let stage = Arc::new(Stage { meter, guard: guard.clone(), takes, handler });
            if let (Some(method), false) = (method_of(method), path.contains('{')) {
                let stage: Arc<dyn FixedRoute> = Arc::<Stage<G>>::clone(&stage);
                fixed.push((path.clone(), method, stage));
            }
            router = router.on(method.to_method_filter(), MountedRoute(stage));
        }
        let mut paths = Paths::new();
        paths.add_path_operation(path, methods, operation);
        MountedOperation { documented: (schemas, paths, router), fixed }
    }
}

/// Returns a `GET` route that the document does not list: a page for people.
pub(crate) fn page<G, H, F>(path: &str, guard: G, handler: H) -> MethodRouter<Arc<Edge>>
where
    G: Guard,
    H: Fn(Call<G::Caller>) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let meter = RouteMeter::new(path, "GET");
    let handler: AnyHandler<G::Caller> = Arc::new(move |call| Box::pin(handler(call)));
    get(MountedRoute(Arc::new(Stage { meter, guard, takes: BodyKind::NoBody, handler })))
}

/// Returns the default way to read the body of a method.
const fn default_takes(method: &HttpMethod) -> BodyKind {
    match method {
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch => BodyKind::Json(BodySize::Usual),
        _ => BodyKind::NoBody,
    }
}

/// Returns the method's name in metrics and logs.
const fn method_name(method: &HttpMethod) -> &'static str {
    match method {
        HttpMethod::Get => "GET",
        HttpMethod::Post => "POST",
        HttpMethod::Put => "PUT",
        HttpMethod::Patch => "PATCH",
        HttpMethod::Delete => "DELETE",
        _ => "other",
    }
}

/// Returns the method of an operation; `None` if no route has that method.
const fn method_of(method: &HttpMethod) -> Option<Method> {
    Some(match method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Delete => Method::DELETE,
        _ => return None,
    })
}

/// A route that axum calls. It implements [`Handler`] itself: with a closure that takes axum's
/// `State`, axum would split and rebuild every request.
struct MountedRoute<G: Guard>(Arc<Stage<G>>);

impl<G: Guard> Clone for MountedRoute<G> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<G: Guard> Handler<(), Arc<Edge>> for MountedRoute<G> {
    type Future = ResponseFuture;

    fn call(self, request: Request, edge: Arc<Edge>) -> Self::Future {
        self.0.answer(edge, request)
    }
}

impl<G: Guard> FixedRoute for Stage<G> {
    fn answer(self: Arc<Self>, request: Request, edge: Arc<Edge>) -> ResponseFuture {
        Self::answer(self, edge, request)
    }
}
