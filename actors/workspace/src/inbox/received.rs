//! The keys by which a message that a callback repeats is known.
//!
//! They are in [`Table::Received`](postrider_store::Table::Received).

use postrider_domain::{MessageId, WorkspaceId};

/// Returns the key of a received message, or the prefix of all these keys.
pub(super) fn received_key(workspace: &WorkspaceId, id: Option<MessageId>) -> Vec<u8> {
    let id = id.as_ref().map_or(&[][..], |id| id.as_bytes());
    [workspace.as_str().as_bytes(), &[0], id].concat()
}
