//! Serves the OpenAPI document and a page that shows it, all from this server.

use std::sync::{Arc, LazyLock};

use axum::http::{StatusCode, header};
use bytes::Bytes;

use crate::http::pipeline::{
    Answer, ApiError, Call, Open, Reply, Routes, page, route, static_header,
};

/// The page `/docs`: Swagger UI with the location of the document. The page of the distribution
/// refers to its files by relative paths, which need a trailing slash; this one does not.
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

/// Starts Swagger UI. `validatorUrl: null` stops it from calling an external validator.
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

/// A file of the distribution. Its bytes are copied once, at the first request.
struct File {
    name: &'static str,
    content_type: &'static str,
    bytes: LazyLock<Option<Bytes>>,
}

/// The files of the distribution that the page uses. No others are served.
static FILES: [File; 3] = [
    File {
        name: "swagger-ui.css",
        content_type: "text/css; charset=utf-8",
        bytes: LazyLock::new(|| vendored("swagger-ui.css")),
    },
    File {
        name: "swagger-ui-bundle.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: LazyLock::new(|| vendored("swagger-ui-bundle.js")),
    },
    File {
        name: "favicon-32x32.png",
        content_type: "image/png",
        bytes: LazyLock::new(|| vendored("favicon-32x32.png")),
    },
];

/// Where the files of the distribution are served.
const FILE_PATH: &str = "/docs/{file}";

/// The page may load nothing from other hosts, and no page may frame it. Swagger UI sets inline
/// styles.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; \
                      frame-ancestors 'none'";

/// The document, and, unless the dashboard is off, the page that shows it.
pub(crate) fn routes(with_page: bool) -> Routes {
    let routes = Routes::default().routes(route!(document).guarded(Open));
    if !with_page {
        return routes;
    }
    routes.route("/docs", page("/docs", Open, docs)).route(FILE_PATH, page(FILE_PATH, Open, file))
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
    let mut reply = Reply::of(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    let (name, value) = static_header(header::CONTENT_SECURITY_POLICY, POLICY);
    reply.header(name, value);
    Ok(reply)
}

async fn file(mut call: Call<()>) -> Answer {
    const MISSING: &str = "there is no such file";
    let name: String = call.path("file", MISSING).await?;
    if name == "start.js" {
        return Ok(Reply::of(StatusCode::OK, "text/javascript; charset=utf-8", START));
    }
    let file = FILES.iter().find(|file| file.name == name);
    let file = file.ok_or_else(|| ApiError::not_found(MISSING))?;
    let bytes = file.bytes.clone().ok_or_else(|| ApiError::not_found(MISSING))?;
    let mut reply = Reply::of(StatusCode::OK, file.content_type, bytes);
    let (name, value) = static_header(header::CACHE_CONTROL, "public, max-age=3600");
    reply.header(name, value);
    Ok(reply)
}

/// Reads a file of the compiled-in distribution.
fn vendored(name: &str) -> Option<Bytes> {
    let config = Arc::new(utoipa_swagger_ui::Config::new(["/openapi.json"]));
    let file = utoipa_swagger_ui::serve(name, config).ok()??;
    Some(match file.bytes {
        std::borrow::Cow::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
        std::borrow::Cow::Owned(bytes) => bytes.into(),
    })
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
            assert!(FILES.iter().any(|known| known.name == file), "{file} is not served");
        }
        for file in &FILES {
            assert!(file.bytes.as_ref().is_some_and(|bytes| !bytes.is_empty()), "{}", file.name);
        }
    }
}
