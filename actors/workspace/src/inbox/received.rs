//! The keys by which a message that a callback repeats is known.
//!
//! They stand in [`Table::Received`](postrider_store::Table::Received).

use postrider_domain::{MessageId, WorkspaceId};

/// The key of a message that was received, or what the keys of all begin with.
pub(super) fn received_key(workspace: &WorkspaceId, id: Option<MessageId>) -> Vec<u8> {
    let id = id.as_ref().map_or(&[][..], |id| id.as_bytes());
    [workspace.as_str().as_bytes(), &[0], id].concat()
}
