//! Makes claims and outcomes durable.

use postrider_domain::Day;
use postrider_store::{Change, Table};

use super::{Fanout, Running};
use crate::record::window_key;
use crate::{daily_counts, provider_ids};

/// Writes the outcomes and claims that are not durable yet. Returns whether they are now durable.
pub(super) async fn write(fanout: &Fanout, state: &mut Running) -> bool {
    let (today, name) = (Day::of(fanout.services.clock.now()), &*state.record.name);
    let (store, workspace) = (fanout.services.view.as_ref(), &fanout.slot.workspace);
    let stored = || daily_counts::stored(store, workspace, fanout.id, (today, name));
    if let Err(error) = state.counted.count(today, state.plan.uncounted(), stored) {
        tracing::warn!(broadcast = %fanout.id, %error, "outcomes wait to be counted");
        return false;
    }
    state.plan.counted();
    let key = |number| window_key(&fanout.slot.workspace, fanout.id, number);
    let windows = state.plan.dirty();
    let mut changes: Vec<_> = windows
        .map(|(number, window)| Change::put(Table::BroadcastOutcomes, key(number), window.encode()))
        .collect();
    changes.extend(state.counted.changes(&fanout.slot.workspace, fanout.id));
    changes.extend(state.noted.iter().cloned());
    changes.extend(provider_ids::changes(&fanout.slot.workspace, fanout.id, &mut state.names));
    // A refused commit would repeat what the number has done. Only one is in progress at a time.
    match fanout.services.writer.commit_own(changes).await {
        Ok(()) => {
            state.plan.written();
            state.counted.written();
            state.noted.clear();
            state.names.clear();
            true
        }
        Err(error) => {
            tracing::warn!(broadcast = %fanout.id, %error, "outcomes wait to be written");
            false
        }
    }
}
