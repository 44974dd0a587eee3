//! The commands of a workspace on broadcasts: to create, control, and report them.

mod budget;
mod committed;
mod control;
mod create;
mod finish;
#[cfg(test)]
mod golden;
mod host;
mod message;
mod preview;
mod read;
pub(crate) mod replies;
mod report;
mod retry;
mod segment_audience;
mod sender;
mod sweep;
mod view;

use postrider_broadcast::record::{Record, record_key};
use postrider_domain::event::broadcast::BroadcastData;
use postrider_domain::{BroadcastId, EventData};
use postrider_store::Table;

use crate::core::command::Context;
use postrider_domain::unavailable::Unavailable;

pub(crate) use message::{MessagesOf, called_by_channel, ids_before, message};
pub(crate) use report::report;
pub(crate) use sweep::{dropped, long_over, marks};

pub use control::{BroadcastChange, BroadcastError};
pub use create::{BroadcastMade, CreateBroadcastError, NewBroadcast};
pub use host::Host;
pub use preview::{BroadcastPreview, BroadcastSample};
pub use retry::RetryBroadcastError;
pub use segment_audience::{SegmentAudience, VariableSource};
pub use view::{
    Broadcast, BroadcastCounts, RecipientError, RecipientRow, RecipientStatus, RecipientsPage,
};

/// Returns the broadcast's record.
pub(crate) fn find(context: &Context<'_>, id: BroadcastId) -> Result<Option<Record>, Unavailable> {
    context.get_json(Table::Broadcasts, &record_key(&context.core.id, id))
}

fn save(context: &mut Context<'_>, record: &Record) {
    let key = record_key(&context.core.id, record.id);
    context.put_json(Table::Broadcasts, key, record);
}

/// Emits an event of a broadcast.
fn emit(context: &mut Context<'_>, event: fn(BroadcastData) -> EventData, record: &Record) {
    context.effects.emit(context.core.now(), event(event_data(record)));
}

/// Returns the payload of events about a broadcast.
fn event_data(record: &Record) -> BroadcastData {
    let (reference, metadata) = record.notes.shown();
    BroadcastData {
        broadcast_id: record.id,
        name: record.name.clone(),
        status: record.status.as_str(),
        total_recipients: record.total,
        reason: record.reason.clone(),
        reference,
        metadata,
    }
}
