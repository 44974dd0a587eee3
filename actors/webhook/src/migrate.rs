//! Pure: completes batches that earlier versions stored as a range of sequences only.

use postrider_domain::WorkspaceId;
use postrider_store::StoreError;
use postrider_store::View;
use postrider_store::view::event_log;

use crate::delivery::Batch;
use crate::endpoint::Endpoint;
use crate::records::Stored;

/// Adds the events to each such batch: all from the first to the last that the endpoint takes,
/// which is how those versions read them.
pub(super) fn complete(
    store: &dyn View,
    workspace: &WorkspaceId,
    endpoint: &Endpoint,
    stored: &mut Stored,
) -> Result<(), StoreError> {
    let waiting = stored.waiting.iter_mut().map(|(first, it)| (*first, it.last, &mut it.batch));
    let open = stored.cursor.open.iter_mut().map(|it| (it.first, it.last, &mut it.batch));
    for (first, last, batch) in waiting.chain(open) {
        if last > first && batch.is_none() {
            let mut taken = Vec::new();
            event_log::read(store, workspace, first - 1, &mut |sequence, entry| {
                if sequence <= last && endpoint.takes(&entry.event) {
                    taken.push(sequence);
                }
                sequence < last
            })?;
            *batch = Some(Batch::of(taken));
        }
    }
    Ok(())
}
