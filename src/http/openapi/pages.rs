//! Serves the OpenAPI document and the pages about errors, and leads to the dashboard's explorer.

use axum::http::StatusCode;

use crate::http::pipeline::{Answer, ApiError, Call, Code, Open, Reply, Routes, page, route};

/// The dashboard's page of the interface, which needs no session in a sandbox.
const EXPLORER: &str = "/ui/explorer";

/// The path of the page about an error code.
const ERROR_PATH: &str = "/docs/errors/{code}";

/// Returns the routes of the document and of the pages about errors. With `with_page`, `/docs`
/// leads to the page that shows the document.
pub(crate) fn routes(with_page: bool) -> Routes {
    let routes = Routes::default().routes(route!(document).guarded(Open)).merge(error_routes());
    if with_page { routes.route("/docs", page("/docs", Open, docs)) } else { routes }
}

/// Returns the routes of the pages about errors, to which refusals link.
pub(crate) fn error_routes() -> Routes {
    Routes::default().route(ERROR_PATH, page(ERROR_PATH, Open, error_page))
}

#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "openapi",
    tag = "Operation",
    summary = "This document",
    description = "404 where `server.docs` is off. Routes of the sandbox are in it in a sandbox only.",
    responses(
        (status = 200, description = "OpenAPI 3.1, compressed as the client accepts", body = Object),
        (status = 304, description = "It is what the client has, as `If-None-Match` says"),
    )
)]
async fn document(call: Call<()>) -> Answer {
    Ok(call.edge.document.reply(call.headers()).await)
}

async fn docs(_: Call<()>) -> Answer {
    Ok(Reply::redirect(StatusCode::TEMPORARY_REDIRECT, EXPLORER))
}

async fn error_page(mut call: Call<()>) -> Answer {
    const MISSING: &str = "there is no such error code";
    let name: String = call.path("code", MISSING).await?;
    let code = Code::ALL.iter().find(|code| code.as_str() == name);
    let code = code.ok_or_else(|| ApiError::not_found(MISSING))?;
    Ok(Reply::of(StatusCode::OK, "text/markdown; charset=utf-8", code.page()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_about_errors_are_where_refusals_link_to() {
        let linked = crate::http::pipeline::error::ERRORS_PATH;
        assert_eq!(ERROR_PATH, format!("{linked}/{{code}}"));
    }
}
