//! The connected numbers, and the connection of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dashmap::{DashMap, Entry};

use postrider_channel::cloud_api::ProviderId;
use postrider_channel::number_facts::NumberFacts;
use postrider_domain::{NumberId, WorkspaceId};

use crate::providers::{Connected, Providers};
use crate::record::{NumberKind, Stored};

/// The connected numbers. A number without an entry here is disconnected.
pub(crate) struct Connections {
    connected: DashMap<NumberId, Arc<Connected>>,
    providers: Providers,
}

impl Connections {
    pub(crate) fn new(providers: Providers) -> Self {
        Self { connected: DashMap::new(), providers }
    }

    /// Connects a number, or replaces its connection by one made of the new record.
    pub(crate) fn connect(&self, stored: &Stored) {
        let connected = self.providers.connect(stored);
        match self.connected.entry(stored.1.info.id) {
            Entry::Occupied(mut known) => {
                let facts = known.get().facts.clone();
                known.insert(Arc::new(connected.with(facts, self.pace_set())));
            }
            Entry::Vacant(free) => drop(free.insert(Arc::new(connected))),
        }
    }

    /// Records the provider's facts about a number, if it is connected. Returns whether they have
    /// changed.
    pub(crate) fn learn(&self, number: NumberId, facts: NumberFacts) -> bool {
        let Some(mut known) = self.connected.get_mut(&number) else { return false };
        let is_new = known.facts != facts;
        if is_new {
            *known = Arc::new(Connected::clone(&known).with(facts, self.pace_set()));
        }
        is_new
    }

    /// Returns the pace of each number.
    pub(crate) fn paces(&self) -> BTreeMap<NumberId, u32> {
        self.connected.iter().map(|it| (*it.key(), it.messages_per_second)).collect()
    }

    /// Returns the pace of the settings, if they have one.
    pub(crate) const fn pace_set(&self) -> Option<u32> {
        self.providers.messages_per_second
    }

    pub(crate) fn disconnect(&self, number: NumberId) {
        self.connected.remove(&number);
    }

    pub(crate) fn get(&self, number: NumberId) -> Option<Arc<Connected>> {
        self.connected.get(&number).map(|connected| Arc::clone(&connected))
    }

    pub(crate) fn contains(&self, number: NumberId) -> bool {
        self.connected.contains_key(&number)
    }

    /// Returns the numbers with this id at the provider, each with its workspace.
    pub(crate) fn by_provider_id(&self, id: &ProviderId) -> Vec<(WorkspaceId, NumberId)> {
        let all = self.connected.iter();
        let called = all.filter(|it| it.phone_number_id.as_ref() == Some(id));
        called.map(|it| (it.workspace.clone(), *it.key())).collect()
    }

    /// Returns all numbers that have a provider.
    pub(crate) fn of_providers(&self) -> Vec<(NumberId, Arc<Connected>)> {
        let all = self.connected.iter().filter(|it| it.phone_number_id.is_some());
        all.map(|it| (*it.key(), Arc::clone(it.value()))).collect()
    }

    /// Returns the workspaces that have a number of this kind.
    pub(crate) fn workspaces_with(&self, kind: NumberKind) -> BTreeSet<WorkspaceId> {
        let all = self.connected.iter().filter(|it| it.kind == kind);
        all.map(|it| it.workspace.clone()).collect()
    }

    /// Visits every number with its workspace. The visitor must not use the connections: part of
    /// them is locked.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(NumberId, &WorkspaceId)) {
        self.connected.iter().for_each(|it| visit(*it.key(), &it.workspace));
    }

    /// Returns the numbers of a workspace.
    pub(crate) fn of_workspace(&self, workspace: &WorkspaceId) -> Vec<NumberId> {
        let own = self.connected.iter().filter(|it| it.workspace == *workspace);
        own.map(|it| *it.key()).collect()
    }

    /// Removes the sandbox's delivered messages of a workspace.
    pub(crate) fn forget_sandbox(&self, workspace: &WorkspaceId) {
        self.providers.sandbox.forget(workspace);
    }

    /// Returns the numbers of an app of the Cloud API, oldest first.
    pub(crate) fn of_app(&self, app: &str) -> Vec<(NumberId, Arc<Connected>)> {
        let of_app = |it: &Connected| it.cloud_api.as_ref().is_some_and(|it| it.app() == app);
        let all = self.connected.iter().map(|it| (*it.key(), Arc::clone(it.value())));
        let mut found: Vec<_> = all.filter(|(_, connected)| of_app(connected)).collect();
        found.sort_by_key(|(number, _)| *number);
        found
    }
}
