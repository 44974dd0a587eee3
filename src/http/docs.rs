//! The document of the interface, and a page that shows it. Everything comes from this server.

use std::sync::{Arc, LazyLock};

use axum::http::{StatusCode, header};
use bytes::Bytes;

use super::auth::Open;
use super::error::ApiError;
use super::openapi;
use super::pipeline::{Answer, Call, fixed};
use super::reply::Reply;
use super::route::Routes;

/// The page that `/docs` answers: Swagger UI, told where the document is. The ordinary page of the
/// distribution names its files relative to a directory; this one works without the last slash.
const PAGE: &str = r##"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<title>Postrider</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" type="image/png" href="/docs/favicon-32x32.png" sizes="32x32">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js" charset="UTF-8"></script>
<script src="/docs/start.js" charset="UTF-8"></script>
</body>
</html>
"##;

/// Starts Swagger UI. `validatorUrl: null` keeps it from asking an outside validator.
const START: &str = r##"window.onload = () => {
  window.ui = SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis],
  });
};
"##;

/// Files of the distribution that the page uses, with their types; no others are served.
const FILES: [(&str, &str); 3] = [
    ("swagger-ui.css", "text/css; charset=utf-8"),
    ("swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
    ("favicon-32x32.png", "image/png"),
];

/// What the page may load: nothing from elsewhere. Swagger UI sets styles of its own.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'";

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    // A document of text and numbers is always JSON.
    serde_json::to_vec(&openapi::document()).unwrap_or_default().into()
});

pub(crate) fn routes(routes: Routes<Open>) -> Routes<Open> {
    routes.get("/openapi.json", document).get("/docs", page).get("/docs/{file}", file)
}

#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "openapi",
    tag = "Operation",
    summary = "This document",
    responses((status = 200, description = "OpenAPI 3.1", body = Object))
)]
pub(crate) async fn document(_: Call<()>) -> Answer {
    Ok(Reply::of(StatusCode::OK, "application/json", DOCUMENT.clone()))
}

async fn page(_: Call<()>) -> Answer {
    let mut reply = Reply::of(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    let (name, value) = fixed(header::CONTENT_SECURITY_POLICY, POLICY);
    reply.header(name, value);
    Ok(reply)
}

async fn file(mut call: Call<()>) -> Answer {
    const MISSING: &str = "there is no such file";
    let name: String = call.path("file", MISSING).await?;
    if name == "start.js" {
        return Ok(Reply::of(StatusCode::OK, "text/javascript; charset=utf-8", START));
    }
    let (name, content_type) =
        FILES.into_iter().find(|(known, _)| *known == name).ok_or(ApiError::not_found(MISSING))?;
    let bytes = vendored(name).ok_or(ApiError::not_found(MISSING))?;
    let mut reply = Reply::of(StatusCode::OK, content_type, bytes);
    let (name, value) = fixed(header::CACHE_CONTROL, "public, max-age=3600");
    reply.header(name, value);
    Ok(reply)
}

/// The files, unpacked once: a request copies nothing.
static UNPACKED: LazyLock<Vec<(&str, Bytes)>> =
    LazyLock::new(|| FILES.iter().filter_map(|(name, _)| Some((*name, unpack(name)?))).collect());

/// A file of the distribution.
fn vendored(name: &str) -> Option<Bytes> {
    UNPACKED.iter().find(|(known, _)| *known == name).map(|(_, bytes)| bytes.clone())
}

fn unpack(name: &str) -> Option<Bytes> {
    let config = Arc::new(utoipa_swagger_ui::Config::new(["/openapi.json"]));
    let file = utoipa_swagger_ui::serve(name, config).ok()??;
    Some(Bytes::from(file.bytes.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        for text in [PAGE, START] {
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("\"//"));
        }
        assert!(START.contains("url: \"/openapi.json\""));
        let wanted = PAGE.split("/docs/").skip(1).map(|rest| rest.split('"').next().unwrap());
        for file in wanted.filter(|file| *file != "start.js") {
            assert!(FILES.iter().any(|(known, _)| *known == file), "{file} is not served");
        }
        for (file, _) in FILES {
            assert!(vendored(file).is_some_and(|bytes| !bytes.is_empty()), "{file}");
        }
    }
}
