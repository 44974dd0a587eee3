//! Numbers of providers, as the engines of one Postrider report them to each other.

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use postrider_channel::cloud_api::ProviderId;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{NumberId, WorkspaceId};
use postrider_number::Numbers;
use postrider_number::providers::Connected;
use postrider_number::record::NumberRecord;

use postrider_workspace::services::Services;
use tokio::sync::OwnedMutexGuard;

use super::AdminError;

/// A number of a provider that an engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberClaim {
    /// The number.
    pub number: NumberId,
    /// The provider's id of the number.
    pub phone_number_id: ProviderId,
    /// The ids, from their secrets, of the apps whose callbacks may concern it.
    pub apps: Vec<String>,
}

/// Another engine has the number, or no engine can be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the number was not claimed: {0}")]
pub struct NumberClaimError(pub String);

/// The record of the engine that has each number. An engine claims a number before it commits it.
/// Its methods block.
pub trait NumberClaims: Debug + Send + Sync + 'static {
    /// Claims a number for this engine. Returns `false` if another engine has it.
    ///
    /// # Errors
    /// [`NumberClaimError`]: it is unknown whether the number is claimed.
    fn claim(&self, claim: &NumberClaim) -> Result<bool, NumberClaimError>;

    /// Releases a number that this engine no longer has. The call tries once and continues later.
    fn release(&self, claim: &NumberClaim);
}

/// The numbers of providers that an engine has. They do not change until this is dropped.
#[derive(Debug)]
pub struct HeldClaims {
    /// The numbers.
    pub claims: Vec<NumberClaim>,
    pub(super) _in_order: OwnedMutexGuard<()>,
}

/// The claims of one engine.
#[derive(Clone)]
pub(super) struct EngineClaims {
    shared: Arc<Services>,
    /// The receiver of reports to other engines, if there are others.
    others: Option<Arc<dyn NumberClaims>>,
    /// Numbers whose connection failed, but may be durable.
    doubtful: Arc<Mutex<Vec<(WorkspaceId, NumberId)>>>,
}

impl EngineClaims {
    pub(super) fn new(shared: Arc<Services>, others: Option<Arc<dyn NumberClaims>>) -> Self {
        Self { shared, others, doubtful: Arc::default() }
    }

    /// Returns the connected numbers of providers.
    pub(super) fn all(&self) -> Vec<NumberClaim> {
        claims_of(&self.shared.numbers, |_| true)
    }

    /// Returns the claims of one workspace.
    pub(super) fn of_workspace(&self, id: &WorkspaceId) -> Vec<NumberClaim> {
        claims_of(&self.shared.numbers, |workspace| workspace == id)
    }

    /// Marks a number, so that the engine finds out later whether its connection is durable.
    /// Without other engines, the next connection of the number finds it out.
    pub(super) fn doubt(&self, id: &WorkspaceId, number: NumberId) {
        if self.others.is_some() {
            self.doubtful.lock().push((id.clone(), number));
        }
    }

    /// Returns the numbers whose connection may be durable.
    pub(super) fn doubtful(&self) -> Vec<(WorkspaceId, NumberId)> {
        self.doubtful.lock().clone()
    }

    /// Removes a number once the state of its connection is known.
    pub(super) fn settled(&self, number: NumberId) {
        self.doubtful.lock().retain(|(_, it)| *it != number);
    }

    /// Returns the claim of a connected number.
    pub(super) fn of_number(&self, number: NumberId) -> Option<NumberClaim> {
        let connected = self.shared.numbers.connected(number)?;
        claim(number, &connected)
    }

    /// Claims a number. Returns whether this engine has it now.
    pub(super) async fn claim(&self, claim: NumberClaim) -> Result<bool, Unavailable> {
        let Some(claims) = self.others.clone() else { return Ok(true) };
        let number = claim.number;
        let claimed = tokio::task::spawn_blocking(move || claims.claim(&claim)).await;
        claimed.unwrap_or_else(|error| Err(NumberClaimError(error.to_string()))).map_err(|error| {
            tracing::warn!(%number, %error, "whether another shard has it is not known");
            Unavailable::because(UnavailableReason::Storage)
        })
    }

    /// Adds the app of a changed record to the number's claim, before its callbacks may arrive.
    /// Callbacks of the earlier app are harmless.
    pub(super) async fn change(&self, record: &NumberRecord) -> Result<(), AdminError> {
        let Some(mut claim) = self.of_number(record.info.id) else { return Ok(()) };
        let Ok(secrets) = record.secrets(&self.shared.master_keys) else { return Ok(()) };
        let app = secrets.app();
        if claim.apps.contains(&app) {
            return Ok(());
        }
        claim.apps.push(app);
        if !self.claim(claim).await? {
            return Err(AdminError::NumberConnected);
        }
        Ok(())
    }

    /// Releases numbers.
    pub(super) async fn release(&self, given_up: Vec<NumberClaim>) {
        let Some(claims) = self.others.clone().filter(|_| !given_up.is_empty()) else { return };
        let releasing = move || given_up.iter().for_each(|claim| claims.release(claim));
        // A call that panicked has left claims, which the shard releases later.
        drop(tokio::task::spawn_blocking(releasing).await);
    }
}

fn claims_of(numbers: &Numbers, is_wanted: impl Fn(&WorkspaceId) -> bool) -> Vec<NumberClaim> {
    let mut wanted = Vec::new();
    for (number, connected) in numbers.of_providers() {
        if is_wanted(&connected.workspace) {
            wanted.extend(claim(number, &connected));
        }
    }
    wanted
}

fn claim(number: NumberId, connected: &Arc<Connected>) -> Option<NumberClaim> {
    let phone_number_id = connected.phone_number_id()?.clone();
    // A number whose secrets cannot be used takes no callbacks, but has its name.
    let apps = connected.cloud_api.iter().map(|it| it.app()).collect();
    Some(NumberClaim { number, phone_number_id, apps })
}
