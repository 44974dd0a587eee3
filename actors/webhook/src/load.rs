//! What an endpoint's actor reads of the log.

use std::sync::Arc;

use ractor::ActorRef;

use super::actor::{EndpointActor, EndpointMessage, Loaded, READ_AHEAD};
use super::log_reader::{self, Fed, Part};

impl EndpointActor {
    /// Reads the log on, if there is room for more. What is new and what comes again take turns.
    pub(super) fn read_on(&self, myself: &ActorRef<EndpointMessage>, state: &mut Loaded) {
        if state.reading {
            return;
        }
        let new = state.line.wants_more(READ_AHEAD).filter(|_| state.grown);
        let new = new.map(|after| Part { after, until: u64::MAX, again: false });
        let again = state.line.wants_again();
        let again = again.map(|(after, until)| Part { after, until, again: true });
        let part = if state.read_again { new.or(again) } else { again.or(new) };
        let Some(part) = part else { return };
        if !part.again {
            state.grown = false;
        }
        (state.reading, state.read_again) = (true, part.again);
        let (myself, hub, slot) = (myself.clone(), Arc::clone(&self.hub), Arc::clone(&self.slot));
        let endpoint = slot.endpoint.load_full();
        drop(tokio::task::spawn_blocking(move || {
            let fed = log_reader::read(hub.store.as_ref(), &slot.workspace, &endpoint, part);
            // An actor that is gone reads again when it is back.
            drop(myself.cast(EndpointMessage::Fed(fed)));
        }));
    }

    /// Takes what was read.
    pub(super) fn take(&self, fed: Fed, state: &mut Loaded) {
        let Fed { part, parcels, scanned, more, forgotten } = fed;
        if part.again {
            state.line.feed_again(part.after, parcels, scanned);
            return;
        }
        state.grown |= more;
        let is_taken = state.line.feed(part.after, parcels, scanned);
        if let Some(forgotten) = forgotten.filter(|_| is_taken) {
            self.note_forgotten(forgotten, 0, state);
        }
    }
}
