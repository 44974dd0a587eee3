//! Streams every contact in one answer.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use postrider_actors::domain::ContactId;
use postrider_actors::{Contact, ContactsWalk, Permission, Unavailable, UnavailableReason};

use super::ContactRow;
use crate::http::edge::Edge;
use crate::http::pipeline::{Answer, ApiError, Call, Key, Principal, Reply, Routes, route};

/// Contacts that are read at a time.
const PAGE_CONTACTS: usize = 200;
/// Pages that are buffered while the client does not read.
const BUFFERED_PAGES_MAX: usize = 2;

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(stream).guarded(Key::recently(Permission::ContactsRead)))
}

/// Aborts a body, so that the client does not take a truncated export for a complete one.
#[derive(Debug, thiserror::Error)]
#[error("the contacts could not be read to the end")]
struct Truncated;

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
async fn stream(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let after = query.text("after")?.map(str::parse::<ContactId>).transpose();
    let after = after.map_err(|_| ApiError::field("after", "must be a contact's id"))?;
    let walk = call.caller.workspace().walk_contacts(after).await?;
    let (sender, body) = Channel::<Bytes, Truncated>::new(BUFFERED_PAGES_MAX);
    let (edge, caller) = (Arc::clone(&call.edge), call.caller.clone());
    drop(tokio::spawn(send(edge, caller, walk, sender)));
    let mut reply = Reply::stream(StatusCode::OK, "application/x-ndjson", Body::new(body));
    reply.header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}

/// Sends contacts until all are sent, the client disconnects, or the server shuts down.
async fn send(
    edge: Arc<Edge>,
    caller: Principal,
    mut walk: ContactsWalk,
    mut sender: Sender<Bytes, Truncated>,
) {
    let sending = async {
        loop {
            match caller.workspace().next_contacts(&mut walk, PAGE_CONTACTS).await {
                Ok(part) if part.is_empty() => return true,
                Ok(part) => {
                    let lines: Vec<u8> = part.into_iter().flat_map(line).collect();
                    if sender.send_data(Bytes::from(lines)).await.is_err() {
                        return true;
                    }
                }
                // What has begun waits for its turn.
                Err(Unavailable { reason: UnavailableReason::Overloaded, retry_after }) => {
                    tokio::time::sleep(retry_after).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "an export of contacts ends early");
                    return false;
                }
            }
        }
    };
    let complete = tokio::select! {
        complete = sending => complete,
        () = edge.options.drain.begun() => false,
    };
    if !complete {
        sender.abort(Truncated);
    }
}

fn line(contact: Contact) -> Vec<u8> {
    // A row always has a JSON form, and writing to a vector cannot fail.
    let mut line = serde_json::to_vec(&ContactRow::from(contact)).unwrap_or_default();
    line.push(b'\n');
    line
}
