//! Contacts: each has the last acknowledged content.

use std::sync::Arc;

use hyper::Method;
use serde_json::json;

use super::super::api::Call;
use super::super::world::World;
use crate::Result;

/// Makes a contact, changes it twice, and deletes one in four.
pub(super) async fn changed(world: Arc<World>) -> Result<()> {
    let (phone, key) = (world.phone(), world.key());
    let body = json!({"name": "New", "phone": phone, "tags": ["soak"]});
    let (made, _) = world.api.certain(&Call::once("/v1/contacts", &body, &key)).await?;
    if made.status != 201 {
        return Err(format!("a contact: {made:?}").into());
    }
    world.count("contacts acknowledged", 1);
    let id = made.text("id");
    let path = format!("/v1/contacts/{id}");
    let mut last = None;
    for turn in ["first", "second"] {
        let name = format!("{turn} of {key}");
        let body = json!({"name": name});
        world.api.fetch(&Call::of(Method::PATCH, &path, &body)).await?;
        last = Some(name);
    }
    if id.ends_with(['a', 'c', 'g', 'k', 'n', 'r', 'v', 'z']) {
        let (deleted, unknown) =
            world.api.certain(&Call::of(Method::DELETE, &path, &json!({}))).await?;
        let is_deleted = deleted.status == 204 || (unknown > 0 && deleted.status == 404);
        world.expect(is_deleted, || format!("{id} cannot be deleted: {deleted:?}"));
        last = None;
    }
    world.books().contacts.push((id, last));
    Ok(())
}
