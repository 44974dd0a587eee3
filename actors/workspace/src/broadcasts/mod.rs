//! Broadcasts as a workspace's commands: made, controlled, and told of.

mod committed;
mod control;
mod counts;
mod create;
#[cfg(test)]
mod golden;
mod host;
mod message;
mod read;
pub mod reply_attribution;
mod report;
mod retry;
mod sweep;
mod view;

use serde_json::json;

use postrider_broadcast::record::{Record, record_key};
use postrider_domain::{BroadcastId, EventKind, PublicEvent};
use postrider_store::Table;

use crate::core::command::Context;
use postrider_domain::unavailable::Unavailable;

pub(crate) use message::message;
pub(crate) use report::report;
pub(crate) use sweep::Sweep;

pub use control::BroadcastError;
pub use create::{BroadcastMade, CreateBroadcastError, NewBroadcast};
pub use host::Host;
pub use retry::RetryBroadcastError;
pub use view::{
    Broadcast, BroadcastCounts, RecipientError, RecipientRow, RecipientStatus, RecipientsPage,
};

/// The broadcast's record.
pub(crate) fn find(context: &Context<'_>, id: BroadcastId) -> Result<Option<Record>, Unavailable> {
    context.get_json(Table::Broadcasts, &record_key(&context.core.id, id))
}

fn save(context: &mut Context<'_>, record: &Record) {
    let key = record_key(&context.core.id, record.id);
    context.put_json(Table::Broadcasts, key, record);
}

/// Tells of a broadcast in the event log.
fn tell(context: &mut Context<'_>, kind: EventKind, record: &Record) {
    tell_with(context, kind, record, None);
}

/// The same with what has become of its recipients.
fn tell_with(
    context: &mut Context<'_>,
    kind: EventKind,
    record: &Record,
    counts: Option<serde_json::Value>,
) {
    let mut data = json!({
        "broadcast_id": record.id.to_string(),
        "name": record.name,
        "status": record.status.as_str(),
        "total_recipients": record.total,
    });
    if let Some(reason) = &record.reason {
        data["reason"] = (&**reason).into();
    }
    if let Some(counts) = counts {
        data["counts"] = counts;
    }
    let data = data.to_string().into();
    context.effects.emit(context.core.now(), PublicEvent::Other { kind, data });
}
