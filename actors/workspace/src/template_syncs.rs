//! The workspaces that are synchronizing their templates.

use dashmap::DashMap;
use dashmap::Entry;
use postrider_domain::WorkspaceId;

/// The workspaces whose templates are being synchronized in the background.
///
/// The value is set if another synchronization was requested meanwhile.
#[derive(Debug, Default)]
pub struct TemplateSyncs(DashMap<WorkspaceId, bool>);

impl TemplateSyncs {
    /// Requests a synchronization. Returns whether the caller has to start it.
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

    /// Ends a synchronization. Returns whether another one was requested.
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
