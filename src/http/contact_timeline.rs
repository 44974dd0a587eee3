//! Shows the history of a contact, out of the event log.

use postrider_actors::domain::{ContactId, PublicEvent};
use postrider_actors::{EventFilter, Permission};

use super::contacts::NO_SUCH_CONTACT;
use super::events::{self, EventsAnswer};
use super::pipeline::{Answer, Call, Key, LIMIT_DEFAULT, LIMIT_MAX, Principal, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(timeline).guarded(Key::of(Permission::ContactsRead)))
}

#[utoipa::path(
    get,
    path = "/v1/contacts/{contact_id}/timeline",
    operation_id = "readContactTimeline",
    tag = "Contacts",
    summary = "What happened to a contact",
    description = "Events about the contact, its phone and its ids on the channel, of the types \
                   that the caller may read: `otp.*` with `otp:read` or the scope \
                   `messaging:send`, and so on. They are found by an index. A part is short of \
                   rows, or empty, while a long log is not indexed yet; `next_cursor` goes on \
                   then. The log keeps events for a time.",
    params(
        ("contact_id" = String, Path, description = "The contact's id"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most events, \
         50 by default"),
    ),
    responses((status = 200, description = "Events, newest first", body = EventsAnswer))
)]
async fn timeline(mut call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let before = events::after_cursor(&query)?;
    let id: ContactId = call.path("contact_id", NO_SUCH_CONTACT).await?;
    let contact = call.caller.workspace().contact(id).await?;
    // A contact that was merged into this one was reported by its own id.
    let mut about = vec![id.to_string(), contact.id.to_string()];
    about.extend(contact.phone.into_iter().flat_map(events::in_all_forms));
    about.extend(contact.user_id.iter().chain(&contact.former_ids).map(ToString::to_string));
    about.dedup();
    let kinds = PublicEvent::KINDS.iter().map(|(kind, _)| *kind);
    let types = kinds.filter(|kind| events::may_read(&call.caller, kind)).map(str::to_owned);
    let filter = EventFilter { types: Some(types.collect()), about };
    events::newest_first(&call, before, limit, filter).await
}
