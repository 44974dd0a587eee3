//! Which workspaces synchronise their templates at the moment.

use dashmap::DashMap;
use dashmap::Entry;
use postrider_domain::WorkspaceId;

/// The workspaces whose templates are being brought up to date in the background, and whether it
/// was asked for once more.
#[derive(Debug, Default)]
pub struct TemplateSyncs(DashMap<WorkspaceId, bool>);

impl TemplateSyncs {
    /// Asks for one. Whether whoever asks has to begin it.
    pub(crate) fn ask(&self, id: &WorkspaceId) -> bool {
        match self.0.entry(id.clone()) {
            Entry::Occupied(mut repeat) => {
                *repeat.get_mut() = true;
                false
            }
            Entry::Vacant(free) => {
                free.insert(false);
                true
            }
        }
    }

    /// One is over. Whether another one was asked for.
    pub(crate) fn goes_on(&self, id: &WorkspaceId) -> bool {
        if self.0.remove_if(id, |_, repeat| !*repeat).is_some() {
            return false;
        }
        if let Some(mut repeat) = self.0.get_mut(id) {
            *repeat = false;
        }
        true
    }
}
