//! The connections of numbers: each number sends through the channel of its kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use dashmap::{DashMap, Entry};
use postrider_channel::cloud_api::{CloudApi, CloudApiNumber, CloudApiOptions, ProviderId};
use postrider_channel::number_facts::NumberFacts;
use postrider_channel::sandbox::{Sandbox, SandboxChannel};
use postrider_channel::{AttemptOutcome, Channel, Failure, FailureClass, Outbound, Sending};
use postrider_domain::keys::MasterKeys;
use postrider_domain::{NumberId, WorkspaceId};

use crate::record::{NumberInfo, NumberKind, NumberRecord, Stored};
use crate::throttle::Pause;

/// A channel that the engine's embedder provides.
#[derive(Clone)]
pub struct CustomChannel(pub Arc<dyn Channel>);

impl std::fmt::Debug for CustomChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CustomChannel")
    }
}

/// The dependencies with which the channels of numbers are made.
pub struct Providers {
    /// The sandbox of all numbers of [`NumberKind::Sandbox`].
    pub sandbox: Arc<Sandbox>,
    /// The channel of all numbers of [`NumberKind::Custom`]. Without one such a number cannot send,
    /// and reports that.
    pub custom: Option<CustomChannel>,
    /// The address and the timeouts of the Cloud API.
    pub cloud_api: CloudApiOptions,
    /// The keys that decrypt the secrets of stored numbers.
    pub master_keys: MasterKeys,
    /// The maximum messages per second through a number without a rate of its own; 0 for no limit.
    /// `None` is the default of the number's kind.
    pub messages_per_second: Option<u32>,
    /// Pauses that the numbers of an app, or of an account, share. It is empty at first.
    pub pauses: DashMap<Box<str>, Arc<Pause>>,
    /// The client of the Cloud API.
    pub client: SharedCloudApi,
}

/// The client of the Cloud API, or the reason why there is none. It is empty until the first number
/// needs it, because making it may read the system's certificates.
pub type SharedCloudApi = Arc<OnceLock<Result<CloudApi, String>>>;

/// The connection of a number: its channel, its rate and its pauses.
#[derive(Clone)]
pub struct Connected {
    /// The workspace that the number belongs to.
    pub workspace: WorkspaceId,
    /// The channel that its messages are handed to.
    pub channel: Arc<dyn Channel>,
    /// The kind of the number's provider.
    pub kind: NumberKind,
    /// The number's id at the provider, if it has a provider.
    pub(super) phone_number_id: Option<ProviderId>,
    /// The number's part of the Cloud API, if it has one and its secrets can be used.
    pub cloud_api: Option<Arc<CloudApiNumber>>,
    /// The record of the number, without secrets.
    pub(super) info: NumberInfo,
    /// The provider's facts about the number.
    pub facts: NumberFacts,
    /// The maximum messages per second; 0 for no limit.
    pub messages_per_second: u32,
    /// The pause of all numbers of its app.
    pub(super) app_pause: Arc<Pause>,
    /// The pause of all numbers of its account.
    pub(super) account_pause: Arc<Pause>,
}

impl Connected {
    /// Returns the number's id at the provider, if it has a provider.
    #[must_use]
    pub const fn phone_number_id(&self) -> Option<&ProviderId> {
        self.phone_number_id.as_ref()
    }

    /// Returns the id of its account at the provider, if it has a provider.
    #[must_use]
    pub fn account_id(&self) -> Option<&str> {
        self.info.account.as_ref().map(|account| account.account_id.as_str())
    }

    /// Returns the connection with the provider's facts about the number.
    pub(super) fn with(self, facts: NumberFacts, pace_set: Option<u32>) -> Self {
        let messages_per_second = self.info.pace(pace_set, &facts);
        Self { facts, messages_per_second, ..self }
    }
}

impl Providers {
    /// Connects a stored number. If its channel cannot be used, its first message fails with the
    /// reason, and the number stops.
    pub(super) fn connect(&self, (workspace, record): &Stored) -> Connected {
        let (NumberRecord { info, .. }, facts) = (record, NumberFacts::default());
        let (channel, cloud_api): (Arc<dyn Channel>, _) = match info.kind {
            NumberKind::Sandbox => (Arc::new(SandboxChannel(Arc::clone(&self.sandbox))), None),
            NumberKind::Custom => match &self.custom {
                Some(custom) => (Arc::clone(&custom.0), None),
                None => {
                    (Arc::new(UnusableChannel("the engine has no custom channel".into())), None)
                }
            },
            NumberKind::CloudApi => match self.cloud_api(record) {
                Ok(number) => {
                    let number = Arc::new(number);
                    (Arc::clone(&number) as Arc<dyn Channel>, Some(number))
                }
                Err(reason) => {
                    tracing::error!(%workspace, number = %info.id, reason, "a number cannot be used");
                    (Arc::new(UnusableChannel(reason.into())), None)
                }
            },
        };
        let kind = info.kind.as_str();
        // Pauses are kept apart by app, so that no workspace is throttled by another one's app.
        let app = match &cloud_api {
            Some(number) => format!("{kind}/{}", number.app()),
            None => kind.to_owned(),
        };
        let account = match &info.account {
            Some(account) => format!("{app}/{}", account.account_id.as_str()),
            // A number without an account shares its pause with no other.
            None => format!("{app}/{}", info.id),
        };
        Connected {
            workspace: workspace.clone(),
            channel,
            phone_number_id: info.account.as_ref().map(|it| it.phone_number_id.clone()),
            kind: info.kind,
            cloud_api,
            messages_per_second: info.pace(self.messages_per_second, &facts),
            info: info.clone(),
            facts,
            app_pause: self.pause(app),
            account_pause: self.pause(account),
        }
    }

    fn pause(&self, scope: String) -> Arc<Pause> {
        Arc::clone(&self.pauses.entry(scope.into()).or_default())
    }

    fn cloud_api(&self, record: &NumberRecord) -> Result<CloudApiNumber, String> {
        let account = record.info.account.as_ref().ok_or("its account is not stored")?;
        let secrets = record.secrets(&self.master_keys);
        let secrets = secrets.map_err(|error| format!("its secrets cannot be read: {error}"))?;
        let client = self.client.get_or_init(|| {
            CloudApi::new(self.cloud_api.clone()).map_err(|error| error.to_string())
        });
        Ok(client.as_ref().map_err(Clone::clone)?.number(account, secrets)?)
    }
}

/// A substitute for a channel that cannot be used. Each message fails with the reason, and the
/// number stops.
struct UnusableChannel(Box<str>);

impl Channel for UnusableChannel {
    fn send(&self, _message: Outbound) -> Sending {
        let failure = Failure { class: FailureClass::Account, code: None, details: self.0.clone() };
        Box::pin(std::future::ready(AttemptOutcome::Failed(failure)))
    }
}

/// The connected numbers. A number without an entry here is disconnected.
pub(crate) struct NumberConnections {
    connected: DashMap<NumberId, Arc<Connected>>,
    providers: Providers,
}

impl NumberConnections {
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
