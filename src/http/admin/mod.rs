//! Administration, below `/admin/v1` with the admin token: what the service calls its dashboard.

pub(crate) mod credits;
pub(crate) mod destinations;
pub(crate) mod email;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod numbers;
mod params;
pub(crate) mod templates;
pub(crate) mod webhooks;
pub(crate) mod workspaces;

use super::pipeline::{Administrator, Routes};

pub(crate) fn routes(routes: Routes<Administrator>) -> Routes<Administrator> {
    webhooks::routes(templates::routes(routes))
        .post("/admin/v1/workspaces", workspaces::create)
        .get("/admin/v1/workspaces", workspaces::list)
        .get("/admin/v1/workspaces/{workspace}", workspaces::read)
        .post("/admin/v1/workspaces/{workspace}/keys", keys::create)
        .get("/admin/v1/workspaces/{workspace}/keys", keys::list)
        .delete("/admin/v1/workspaces/{workspace}/keys/{key_id}", keys::revoke)
        .put("/admin/v1/workspaces/{workspace}/credits", credits::set)
        .post("/admin/v1/workspaces/{workspace}/credits", credits::add)
        .put("/admin/v1/workspaces/{workspace}/limits", limits::set)
        .post("/admin/v1/workspaces/{workspace}/email", email::open)
        .get("/admin/v1/workspaces/{workspace}/email", email::read)
        .delete("/admin/v1/workspaces/{workspace}/email", email::close)
        .put("/admin/v1/workspaces/{workspace}/destinations", destinations::set)
        .get("/admin/v1/workspaces/{workspace}/destinations", destinations::read)
        .post("/admin/v1/workspaces/{workspace}/numbers", numbers::connect)
        .get("/admin/v1/workspaces/{workspace}/numbers", numbers::list)
        .patch("/admin/v1/workspaces/{workspace}/numbers/{number_id}", numbers::update)
        .delete("/admin/v1/workspaces/{workspace}/numbers/{number_id}", numbers::disconnect)
}
