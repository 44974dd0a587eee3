//! Releases a server that is held.

use serde::Serialize;
use utoipa::ToSchema;

use crate::http::pipeline::{Administrator, Answer, Call, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(release).guarded(Administrator))
}

/// Whether the server is held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Released {
    /// Always `false`.
    #[schema(example = false)]
    held: bool,
}

#[utoipa::path(
    post,
    path = "/admin/v1/release",
    operation_id = "releaseServer",
    tag = "Administration",
    summary = "Have a held server send again",
    description = "A server that was restored is held: what it knows is older than the world. It \
                   answers reads and verifies codes, and sends nothing; what would send is 503 with \
                   the reason `held`. Once this is answered, what waited goes out. It changes \
                   nothing on a server that is not held. 404 on a node of a cluster, which never is.",
    responses((status = 200, description = "It is not held", body = Released))
)]
async fn release(call: Call<()>) -> Answer {
    call.edge.must_be_alone()?;
    call.admin().release().await?;
    Ok(Reply::ok(&Released { held: false }))
}
