//! Workspaces whose members need an authenticator, as they are stored.

use postrider_domain::WorkspaceId;
use postrider_store::view::codec;
use postrider_store::{Change, Table};

/// What the row of a workspace begins with, in [`Table::Meta`], whose members need an
/// authenticator. The workspace's id follows.
pub(crate) const ROW: &[u8] = b"totp_required/";

/// The change that notes whether the members of a workspace need an authenticator.
pub(crate) fn strict(workspace: &WorkspaceId, required: bool) -> Change {
    let row = [ROW, workspace.as_str().as_bytes()].concat();
    if required {
        Change::put(Table::Meta, row, codec::encode(workspace))
    } else {
        Change::delete(Table::Meta, row)
    }
}
