//! Workspaces whose members need an authenticator, as they are stored.

use postrider_domain::WorkspaceId;
use postrider_store::view::codec;
use postrider_store::{Change, Table};

/// The prefix of the row of a workspace whose members need an authenticator, in [`Table::Meta`].
/// The workspace's id follows.
pub(crate) const ROW: &[u8] = b"totp_required/";

/// Returns the change that stores whether the members of a workspace need an authenticator.
pub(crate) fn strict(workspace: &WorkspaceId, required: bool) -> Change {
    let row = [ROW, workspace.as_str().as_bytes()].concat();
    if required {
        Change::put(Table::Meta, row, codec::encode(workspace))
    } else {
        Change::delete(Table::Meta, row)
    }
}
