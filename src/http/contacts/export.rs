//! Streams every contact in one answer.

use postrider_actors::domain::ContactId;
use postrider_actors::{Contact, ContactsWalk, Permission, Unavailable, Workspace};

use super::ContactRow;
use crate::http::pipeline::{Answer, ApiError, Call, Key, Principal, Routes, route};
use crate::http::readings::Reading;
use crate::http::streamed::{self, JSON_LINES, Parts};

/// The number of contacts that are read at a time.
const PAGE_CONTACTS: usize = 200;

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(stream).guarded(Key::of(Permission::ContactsExport)))
}

#[utoipa::path(
    get,
    path = "/v1/contacts/export",
    operation_id = "exportContacts",
    tag = "Contacts",
    summary = "Read every contact",
    description = "One contact a line, each as `GET /v1/contacts/{contact_id}` shows it, oldest \
                   first. It has every contact that was there at the beginning, and is not \
                   deleted until its turn, exactly once; of none that is made meanwhile. An answer \
                   that breaks off is continued by `after` with the last id. Each reading is in the \
                   audit log.",
    params(("after" = Option<String>, Query, description = "Only the contacts after this one")),
    responses((status = 200, description = "Contacts, one a line", body = String,
        content_type = "application/x-ndjson"))
)]
async fn stream(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let after = query.text("after")?.map(str::parse::<ContactId>).transpose();
    let after = after.map_err(|_| ApiError::field("after", "must be a contact's id"))?;
    call.reads_all(Reading::Contacts).await?;
    let walk = call.caller.workspace().walk_contacts(after).await?;
    Ok(streamed::stream(&call, JSON_LINES, ContactLines(walk)))
}

struct ContactLines(ContactsWalk);

impl Parts for ContactLines {
    async fn next(&mut self, workspace: &Workspace) -> Result<Option<Vec<u8>>, Unavailable> {
        let part = workspace.next_contacts(&mut self.0, PAGE_CONTACTS).await?;
        Ok((!part.is_empty()).then(|| part.into_iter().flat_map(line).collect()))
    }
}

fn line(contact: Contact) -> Vec<u8> {
    // A row always has a JSON form, and writing to a vector cannot fail.
    let mut line = serde_json::to_vec(&ContactRow::from(contact)).unwrap_or_default();
    line.push(b'\n');
    line
}
