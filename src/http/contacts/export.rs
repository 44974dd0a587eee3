//! Every contact, in one answer.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use postrider_actors::domain::ContactId;
use postrider_actors::{Caller, Contact, ContactsWalk};

use super::ContactRow;
use crate::http::edge::Edge;
use crate::http::pipeline::{Answer, ApiError, Call, Key, Reply, Routes, route};

/// Contacts that are read at a time.
const PART: usize = 200;
/// Parts that may wait for a client that does not read on.
const BUFFER: usize = 2;

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(stream).guarded(Key::READ_CONTACTS))
}

/// Ends an answer before its end, so that it is not taken for a whole one.
#[derive(Debug, thiserror::Error)]
#[error("the contacts could not be read to the end")]
struct Broken;

#[utoipa::path(
    get,
    path = "/v1/contacts/export",
    operation_id = "exportContacts",
    tag = "Contacts",
    summary = "Read every contact",
    description = "One contact a line, each as `GET /v1/contacts/{contact_id}` shows it, oldest \
                   first. It tells of every contact that was there at the beginning, and is not \
                   deleted until its turn, exactly once; of none that is made meanwhile. An answer \
                   that breaks off is continued by `after` with the last id.",
    params(("after" = Option<String>, Query, description = "Only the contacts after this one")),
    responses((status = 200, description = "Contacts, one a line", body = String,
        content_type = "application/x-ndjson"))
)]
async fn stream(call: Call<Arc<Caller>>) -> Answer {
    let query = call.query()?;
    let after = query.text("after")?.map(str::parse::<ContactId>).transpose();
    let after = after.map_err(|_| ApiError::field("after", "must be a contact's id"))?;
    let walk = call.caller.workspace.walk_contacts(after).await?;
    let (sender, body) = Channel::<Bytes, Broken>::new(BUFFER);
    let (edge, caller) = (Arc::clone(&call.edge), Arc::clone(&call.caller));
    drop(tokio::spawn(send(edge, caller, walk, sender)));
    let mut reply = Reply::stream(StatusCode::OK, "application/x-ndjson", Body::new(body));
    reply.header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}

/// Sends contacts until there are no more, the client goes or the server stops.
async fn send(
    edge: Arc<Edge>,
    caller: Arc<Caller>,
    mut walk: ContactsWalk,
    mut sender: Sender<Bytes, Broken>,
) {
    let sending = async {
        loop {
            match caller.workspace.next_contacts(&mut walk, PART).await {
                Ok(part) if part.is_empty() => return true,
                Ok(part) => {
                    let lines: Vec<u8> = part.into_iter().flat_map(line).collect();
                    if sender.send_data(Bytes::from(lines)).await.is_err() {
                        return true;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "an export of contacts ends early");
                    return false;
                }
            }
        }
    };
    let whole = tokio::select! {
        whole = sending => whole,
        () = edge.options.drain.begun() => false,
    };
    if !whole {
        sender.abort(Broken);
    }
}

fn line(contact: Contact) -> Vec<u8> {
    // A row is text, and a vector takes everything.
    let mut line = serde_json::to_vec(&ContactRow::from(contact)).unwrap_or_default();
    line.push(b'\n');
    line
}
