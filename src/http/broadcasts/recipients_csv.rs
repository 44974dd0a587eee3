//! The recipients of a broadcast as CSV.

use postrider_actors::domain::BroadcastId;
use postrider_actors::{
    BroadcastError, RecipientRow, RecipientStatus, Unavailable, UnavailableReason, Workspace,
};

use crate::http::streamed::{Parts, csv_lines};

/// The number of recipients that are read at a time.
const PART_RECIPIENTS: usize = 5_000;
const HEAD: [&str; 6] =
    ["to", "message_id", "status", "error_reason", "error_code", "error_details"];

/// The position in the file at which the next part starts.
pub(super) struct RecipientLines {
    pub(super) broadcast: BroadcastId,
    /// The status of the rows, or `None` for all of them. `read` counts recipients of any status,
    /// because statuses change in the meantime.
    pub(super) status: Option<RecipientStatus>,
    /// The number of recipients that were read; `None` if not even the head was written.
    pub(super) read: Option<usize>,
}

impl Parts for RecipientLines {
    async fn next(&mut self, workspace: &Workspace) -> Result<Option<Vec<u8>>, Unavailable> {
        let Some(read) = self.read else {
            self.read = Some(0);
            return Ok(Some(csv_lines([HEAD.map(str::to_owned).to_vec()])));
        };
        let found = workspace.broadcast_recipients(self.broadcast, None, read, PART_RECIPIENTS);
        let found = found.await.map_err(|error| match error {
            BroadcastError::Unavailable(why) => why,
            // The broadcast was deleted in the meantime.
            _ => Unavailable::because(UnavailableReason::Storage),
        })?;
        if found.rows.is_empty() {
            return Ok(None);
        }
        self.read = Some(read + found.rows.len());
        let wanted = found.rows.into_iter();
        let wanted = wanted.filter(|row| self.status.is_none_or(|status| row.status == status));
        Ok(Some(csv_lines(wanted.map(cells))))
    }
}

fn cells(row: RecipientRow) -> Vec<String> {
    let (reason, code, details) = match row.error {
        Some(error) => (error.reason, error.code, error.details.into_string()),
        None => ("", None, String::new()),
    };
    vec![
        row.to.to_string(),
        row.message_id.map(|id| id.to_string()).unwrap_or_default(),
        row.status.as_str().to_owned(),
        reason.to_owned(),
        code.map(|code| code.to_string()).unwrap_or_default(),
        details,
    ]
}
