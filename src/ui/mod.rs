//! Serves the dashboard: its page, its files, signing in, and a person's own account.

mod account;
mod bundle;
mod files;
mod shell;
mod sign_in;
mod sources;

use axum::http::{HeaderValue, StatusCode, header};

use crate::http::pipeline::{Answer, ApiError, Call, OwnHost, Reply, Routes, page};
use files::Files;

const MISSING: &str = "there is no such file";
const ASSET: &str = "/ui/assets/{hash}/{*path}";
const PAGE: &str = "/ui/{*path}";
/// The names below `/ui/` that are not pages.
const NO_PAGES: [&str; 2] = ["assets", "api"];

pub(crate) fn routes() -> Routes {
    Routes::default()
        .merge(sign_in::routes())
        .merge(account::routes())
        .route("/", page("/", OwnHost, redirect_to_ui))
        .route("/ui", page("/ui", OwnHost, redirect_to_slash))
        .route("/ui/", page("/ui/", OwnHost, start_page))
        .route(ASSET, page(ASSET, OwnHost, asset))
        .route(PAGE, page(PAGE, OwnHost, page_of_shell))
}

async fn redirect_to_ui(_: Call<()>) -> Answer {
    Ok(Reply::redirect(StatusCode::TEMPORARY_REDIRECT, "/ui/"))
}

async fn redirect_to_slash(_: Call<()>) -> Answer {
    Ok(Reply::redirect(StatusCode::PERMANENT_REDIRECT, "/ui/"))
}

/// Returns a file of the page. Its address has the hash of all files, so a browser need not
/// revalidate.
async fn asset(mut call: Call<()>) -> Answer {
    let hash: String = call.path("hash", MISSING).await?;
    let path: String = call.path("path", MISSING).await?;
    let files = Files::current();
    let file = files.asset(&hash, &path).ok_or_else(|| ApiError::not_found(MISSING))?;
    let mut reply = file.reply(call.headers()).await;
    let cache_control = HeaderValue::from_static("public, max-age=31536000, immutable");
    reply.header(header::CACHE_CONTROL, cache_control);
    Ok(reply)
}

async fn start_page(call: Call<()>) -> Answer {
    shell(call, "").await
}

/// Returns the shell, which is every page and shows the content of its address.
async fn page_of_shell(mut call: Call<()>) -> Answer {
    let path: String = call.path("path", MISSING).await?;
    let first = path.split('/').next().unwrap_or_default();
    if NO_PAGES.contains(&first) {
        return Err(ApiError::not_found("there is no such route"));
    }
    shell(call, &path).await
}

async fn shell(call: Call<()>, path: &str) -> Answer {
    let has_cookie = call.headers().contains_key(header::COOKIE);
    let shell = Files::current().shell(path, has_cookie);
    let mut reply = shell.reply(call.headers()).await;
    reply.header(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(reply)
}
