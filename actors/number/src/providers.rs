//! What numbers send through: each has the channel of its kind.

use std::sync::{Arc, OnceLock};

use dashmap::DashMap;

use postrider_channel::cloud_api::{CloudApi, CloudApiNumber, CloudApiOptions, ProviderId};
use postrider_channel::sandbox::{Sandbox, SandboxChannel};
use postrider_channel::{AttemptOutcome, Channel, Failure, FailureClass, Outbound, Sending};
use postrider_domain::WorkspaceId;
use postrider_domain::keys::MasterKeys;

use super::record::{NumberKind, NumberRecord, Stored};
use super::throttle::Pause;

/// Most messages in a second through a number of the Cloud API, where nothing is set.
const CLOUD_API_RATE: u32 = 80;

/// A channel of the embedder's own.
#[derive(Clone)]
pub struct CustomChannel(pub Arc<dyn Channel>);

impl std::fmt::Debug for CustomChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CustomChannel")
    }
}

/// The channels that there are, and what they are made with.
pub struct Providers {
    pub sandbox: Arc<Sandbox>,
    pub custom: Option<CustomChannel>,
    pub cloud_api: CloudApiOptions,
    pub master_keys: MasterKeys,
    /// Most messages in a second through a number that has no rate of its own.
    pub messages_per_second: Option<u32>,
    /// Pauses that the numbers of an app, or of an account, share.
    pub pauses: DashMap<Box<str>, Arc<Pause>>,
    /// Made when the first number needs it, because it may read the system's certificates.
    pub client: OnceLock<Result<CloudApi, String>>,
}

/// A number that can be sent through.
pub struct Connected {
    /// Whose it is.
    pub workspace: WorkspaceId,
    pub channel: Arc<dyn Channel>,
    pub kind: NumberKind,
    /// What the provider calls it, if it has one.
    pub(super) phone_number_id: Option<ProviderId>,
    /// Its part of the Cloud API, if it is a number of that and can be used.
    pub cloud_api: Option<Arc<CloudApiNumber>>,
    /// Most messages in a second; 0 for no limit.
    pub messages_per_second: u32,
    /// Holds for all numbers of its app.
    pub(super) app_pause: Arc<Pause>,
    /// Holds for all numbers of its account.
    pub(super) account_pause: Arc<Pause>,
}

impl Providers {
    /// Makes a stored number one that can be sent through. One that cannot be says so when it is.
    pub(super) fn connect(&self, (workspace, record): &Stored) -> Connected {
        let NumberRecord { info, .. } = record;
        let (channel, cloud_api): (Arc<dyn Channel>, _) = match info.kind {
            NumberKind::Sandbox => (Arc::new(SandboxChannel(Arc::clone(&self.sandbox))), None),
            NumberKind::Custom => match &self.custom {
                Some(custom) => (Arc::clone(&custom.0), None),
                None => (Arc::new(Unusable("the engine has no custom channel".into())), None),
            },
            NumberKind::CloudApi => match self.cloud_api(record) {
                Ok(number) => {
                    let number = Arc::new(number);
                    (Arc::clone(&number) as Arc<dyn Channel>, Some(number))
                }
                Err(reason) => {
                    tracing::error!(%workspace, number = %info.id, reason, "a number cannot be used");
                    (Arc::new(Unusable(reason.into())), None)
                }
            },
        };
        let kind_rate = if info.kind == NumberKind::CloudApi { CLOUD_API_RATE } else { 0 };
        let rate = info.messages_per_second.or(self.messages_per_second).unwrap_or(kind_rate);
        let kind = info.kind.as_str();
        // No workspace is throttled by what another one does with an app of its own.
        let app = match &cloud_api {
            Some(number) => format!("{kind}/{}", number.app()),
            None => kind.to_owned(),
        };
        let account = match &info.account {
            Some(account) => format!("{app}/{}", account.account_id.as_str()),
            // One that has no account shares with nobody.
            None => format!("{app}/{}", info.id),
        };
        Connected {
            workspace: workspace.clone(),
            channel,
            phone_number_id: info.account.as_ref().map(|it| it.phone_number_id.clone()),
            kind: info.kind,
            cloud_api,
            messages_per_second: rate,
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

/// Stands for a channel that cannot be used: the number stops and says why.
struct Unusable(Box<str>);

impl Channel for Unusable {
    fn send(&self, _message: Outbound) -> Sending {
        let failure = Failure { class: FailureClass::Account, code: None, details: self.0.clone() };
        Box::pin(std::future::ready(AttemptOutcome::Failed(failure)))
    }
}
