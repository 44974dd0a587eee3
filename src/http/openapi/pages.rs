//! Serves the OpenAPI document, and leads to the page that shows it.

use axum::http::StatusCode;

use crate::http::pipeline::{Answer, Call, Open, Reply, Routes, page, route};

/// The dashboard's page of the interface, which needs no session in a sandbox.
const EXPLORER: &str = "/ui/explorer";

/// The document, and, unless the dashboard is off, the way to the page that shows it.
pub(crate) fn routes(with_page: bool) -> Routes {
    let routes = Routes::default().routes(route!(document).guarded(Open));
    if with_page { routes.route("/docs", page("/docs", Open, docs)) } else { routes }
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
        (status = 304, description = "It is what the client has, as `If-None-Match` tells"),
    )
)]
async fn document(call: Call<()>) -> Answer {
    Ok(call.edge.document.reply(call.headers()).await)
}

async fn docs(_: Call<()>) -> Answer {
    Ok(Reply::redirect(StatusCode::TEMPORARY_REDIRECT, EXPLORER))
}
