//! Counts the bytes of files that are being received, so that many at once fill no disk.

use super::AddMediaError;
use crate::Workspace;

/// The bytes that have been received of a file, until it is added or given up.
pub struct MediaUnderWay {
    workspace: Workspace,
    bytes: u64,
}

impl std::fmt::Debug for MediaUnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MediaUnderWay").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Workspace {
    /// Starts a file of which nothing has been received yet.
    #[must_use]
    pub fn receive_media(&self) -> MediaUnderWay {
        MediaUnderWay { workspace: self.clone(), bytes: 0 }
    }
}

impl MediaUnderWay {
    /// Checks that this file may have so many bytes.
    ///
    /// The workspace's other bytes, and those that it is receiving, count too.
    ///
    /// # Errors
    /// [`AddMediaError`]: there would be too many, or the workspace is unavailable.
    pub async fn grow_to(&mut self, bytes: u64) -> Result<(), AddMediaError> {
        let all = &self.workspace.shared.media.under_way;
        let total = {
            let mut total = all.entry(self.workspace.id().clone()).or_default();
            *total += bytes.saturating_sub(self.bytes);
            *total
        };
        self.bytes = self.bytes.max(bytes);
        self.workspace.may_add_media(total).await
    }
}

impl Drop for MediaUnderWay {
    fn drop(&mut self) {
        let all = &self.workspace.shared.media.under_way;
        let Some(mut total) = all.get_mut(self.workspace.id()) else { return };
        *total = total.saturating_sub(self.bytes);
        drop(total);
        all.remove_if(self.workspace.id(), |_, total| *total == 0);
    }
}
