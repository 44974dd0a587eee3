//! Administers workspaces below `/admin/v1`, with the admin token.

mod audit;
mod clock;
mod credits;
mod destinations;
mod email;
mod keys;
mod limits;
mod numbers;
mod params;
mod templates;
mod tokens;
mod webhooks;
mod workspaces;

use super::pipeline::Routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .merge(workspaces::routes())
        .merge(keys::routes())
        .merge(tokens::routes())
        .merge(audit::routes())
        .merge(clock::routes())
        .merge(credits::routes())
        .merge(limits::routes())
        .merge(email::routes())
        .merge(destinations::routes())
        .merge(numbers::routes())
        .merge(templates::routes())
        .merge(webhooks::routes())
}
