//! Receives the callbacks of providers, and delivers the sandbox's own reports like them.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_channel::callback::Callback;
use postrider_channel::cloud_api::CloudApiNumber;
use postrider_channel::cloud_api::envelope::{self, About, Part};
use postrider_channel::cloud_api::items::{FieldNumber, ItemOutcome};
use postrider_channel::sandbox::{DueReports, Sandbox};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{NumberId, WorkspaceId};
use postrider_workspace::Workspace;
use postrider_workspace::services::Services;

use super::Engine;

/// Takes the callbacks of the provider of one number.
pub struct CallbackReceiver {
    engine: Engine,
    number: NumberId,
    workspace: WorkspaceId,
    provider: Arc<CloudApiNumber>,
    /// Set if it takes callbacks that name neither number nor account.
    takes_nameless: bool,
}

/// The reason for which a callback was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// It is not signed by the number's provider. It changed nothing.
    #[error("the signature is missing or wrong")]
    BadSignature,
    /// It is signed and cannot be read. It changed nothing.
    #[error("the callback is not JSON")]
    Unreadable,
    /// It cannot be taken now, or not all of it was: the provider should repeat it.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl std::fmt::Debug for CallbackReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CallbackReceiver").field(&self.number).finish()
    }
}

/// The parts of a callback that concern a number, for its workspace.
struct AddressedParts {
    number: NumberId,
    workspace: WorkspaceId,
    /// The parts, each with the field under which its items are counted, if they are.
    parts: Vec<(Option<FieldNumber>, Callback)>,
}

impl Engine {
    /// Returns the receiver of a number's callbacks, or `None` without such a Cloud API number.
    #[must_use]
    pub fn callbacks(&self, number: NumberId) -> Option<CallbackReceiver> {
        let connected = self.inner.shared.numbers.connected(number)?;
        let provider = connected.cloud_api.clone()?;
        let workspace = connected.workspace.clone();
        let (engine, takes_nameless) = (self.clone(), true);
        Some(CallbackReceiver { engine, number, workspace, provider, takes_nameless })
    }
}

impl CallbackReceiver {
    /// Returns the receiver for a callback to the address of another engine's number. That engine
    /// takes the parts that name neither number nor account.
    #[must_use]
    pub fn beside(self) -> Self {
        Self { takes_nameless: false, ..self }
    }

    /// Returns whether this is the token that the provider was asked to show.
    #[must_use]
    pub fn knows(&self, verify_token: &str) -> bool {
        self.provider.knows(verify_token)
    }

    /// Takes a callback: `signature` is the value of `X-Hub-Signature-256`, `raw` the unchanged
    /// body.
    ///
    /// When this returns, the reported facts are durable; a repeated callback changes nothing. The
    /// numbers of one app share a callback address. A part about another of them is taken for that
    /// number, and a part about none of them is ignored.
    ///
    /// # Errors
    /// [`CallbackError`]: it is not the provider's, or it cannot be taken now.
    pub async fn take(&self, signature: &str, raw: &[u8]) -> Result<(), CallbackError> {
        if !self.provider.signed(signature, raw) {
            return Err(CallbackError::BadSignature);
        }
        let counts = &self.engine.inner.shared.callback_items;
        let parts = envelope::read(raw, counts).ok_or(CallbackError::Unreadable)?;
        let mut taken = Ok(());
        for AddressedParts { number, workspace, parts } in self.addressed(parts) {
            let Some(workspace) = self.engine.workspace(&workspace) else { continue };
            self.engine.inner.shared.numbers.note_callback(number);
            // A workspace that cannot take its parts now does not keep the others from theirs.
            let result = workspace.receive_parts(number, parts).await;
            taken = taken.and(result.map_err(CallbackError::from));
        }
        taken
    }

    /// Returns the addressees of the parts of a callback: a number each, with its workspace.
    fn addressed(&self, parts: Vec<Part>) -> Vec<AddressedParts> {
        let mut addressed: Vec<AddressedParts> = Vec::new();
        let mut others = None;
        for Part { about, callback, parsed } in parts {
            let mut addressees = 0_u32;
            let mut add = |number: NumberId, workspace: &WorkspaceId| {
                let at = addressed.iter().position(|it| it.number == number).unwrap_or_else(|| {
                    let workspace = workspace.clone();
                    addressed.push(AddressedParts { number, workspace, parts: Vec::new() });
                    addressed.len() - 1
                });
                // The first addressee counts the taken items for all.
                let counted = (addressees == 0).then_some(parsed.0);
                addressed[at].parts.push((counted, callback.clone()));
                addressees += 1;
            };
            if about.is_nameless() && !self.takes_nameless {
                self.pass_over(parsed);
                continue;
            }
            let own = self.provider.is_meant(&about);
            if own {
                add(self.number, &self.workspace);
            }
            let is_account = matches!(about, About::Account(Some(_)));
            if own && !is_account {
                continue;
            }
            let others = others.get_or_insert_with(|| {
                self.engine.inner.shared.numbers.of_app(&self.provider.app())
            });
            let mut notified = if own { vec![&self.workspace] } else { Vec::new() };
            for (number, connected) in others.iter() {
                let meant = connected.cloud_api.as_ref().is_some_and(|it| it.is_meant(&about));
                if meant && !notified.contains(&&connected.workspace) {
                    add(*number, &connected.workspace);
                    notified.push(&connected.workspace);
                    if !is_account {
                        break;
                    }
                }
            }
            if addressees == 0 {
                self.pass_over(parsed);
            }
        }
        addressed
    }

    /// Counts the items of a part without an addressee.
    fn pass_over(&self, (field, items): (FieldNumber, u64)) {
        self.engine.inner.shared.callback_items.add(field, ItemOutcome::Ignored, items);
    }
}

/// The maximum number of messages of a workspace that the sandbox reports at a time.
const REPORTS_MAX: usize = 500;

/// Starts to deliver the sandbox's reports to workspaces, until the engine has stopped.
pub(super) fn deliver_sandbox_reports(sandbox: &Arc<Sandbox>, shared: &Arc<Services>) {
    let due = sandbox.reports_are_due();
    let (sandbox, shared) = (Arc::downgrade(sandbox), Arc::downgrade(shared));
    drop(tokio::spawn(async move {
        loop {
            due.notified().await;
            let (Some(sandbox), Some(shared)) = (sandbox.upgrade(), shared.upgrade()) else {
                return;
            };
            loop {
                let all = sandbox.take_due(REPORTS_MAX);
                if all.is_empty() {
                    break;
                }
                for reports in all {
                    deliver_reports(&sandbox, &shared, reports).await;
                }
            }
        }
    }));
}

async fn deliver_reports(sandbox: &Sandbox, shared: &Arc<Services>, reports: DueReports) {
    // A deleted workspace reads no reports.
    let Some(slot) = shared.workspaces.slot(&reports.workspace) else { return };
    let workspace = Workspace::new(Arc::clone(shared), slot);
    let now = shared.clock.now();
    let mut callbacks: BTreeMap<_, Callback> = BTreeMap::new();
    for (_, through) in &reports.messages {
        let callback = callbacks.entry(through.number).or_default();
        callback.statuses.push(through.report(reports.progress.clone(), now));
    }
    for (number, callback) in callbacks {
        if let Err(error) = workspace.receive(number, callback).await {
            tracing::warn!(workspace = %reports.workspace, %error, "a sandbox's report is lost");
            return;
        }
    }
    let messages = reports.messages.into_iter().map(|(message, _)| message);
    sandbox.note_reported(&reports.workspace, messages, reports.status);
}
