//! People: signing in, what a role may do, and what pages of other origins may not.

mod authenticators;
mod body_fields;
mod boundaries;
mod confirmations;
mod floods;
mod guards;
mod members;
mod pages;
mod permissions;
mod requests;
mod roles;
mod sandbox;
mod sessions;
mod workspace;

use serde_json::{Value, json};

use crate::support::{Browser, TestServer};

/// The header of a request that a page of the server itself makes.
const OWN: (&str, &str) = ("Sec-Fetch-Site", "same-origin");

/// Returns the owner of the demo workspace, who operates the server.
async fn owner(server: &TestServer) -> Browser {
    let mut browser = server.browser();
    browser.follow(&server.banner()).await.ok();
    browser
}

/// Returns a browser of a person with a role in a workspace.
pub async fn member(server: &TestServer, workspace: &str, role: &str) -> Browser {
    let mut browser = server.browser();
    browser.follow(&link(server, workspace, role).await).await.ok();
    browser
}

/// Returns a link for a person with a role in a workspace.
async fn link(server: &TestServer, workspace: &str, role: &str) -> String {
    let email = format!("{role}@{workspace}.example.com");
    let body = json!({ "email": email, "workspace": workspace, "role": role });
    let made: Value = server.admin().post("/admin/v1/users/link", body).await.ok();
    made["url"].as_str().unwrap().to_owned()
}
