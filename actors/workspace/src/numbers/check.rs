//! Checks a number: asks its provider, stores the answer, and names the problems.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_channel::cloud_api::{Checkup, CloudApiNumber, ListError};
use postrider_channel::number_facts::NumberFacts;
use postrider_domain::template::TemplateQuality;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{AuditEntry, NumberId, Timestamp, WorkspaceId};
use postrider_runtime::Clock;
use postrider_store::view::codec;
use postrider_store::{StoreError, Table, View};
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::core::command::{Command, Context};
use crate::core::records;
use crate::core::senders::pool::Pool;
use crate::inbox::number_facts;
use crate::templates;

/// The time without a callback after which that is reported.
const SILENCE: Duration = Duration::from_secs(24 * 3600);

/// The time before the end of a token at which its expiry is reported.
const EXPIRES_SOON: Duration = Duration::from_secs(7 * 24 * 3600);

/// A problem of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberProblem {
    /// The provider does not answer, or not now.
    Unreachable,
    /// The provider does not accept the number's token.
    TokenRefused,
    /// The provider refuses to answer about the number.
    Refused,
    /// No app receives the callbacks of the number's account.
    NotSubscribed,
    /// No callback has arrived for a day.
    NoCallbackInADay,
    /// The provider has stopped or restricted it.
    NotConnected,
    /// The display name is not approved.
    NameNotApproved,
    /// Recipients rate it badly.
    QualityRed,
    /// The account has no approved template for one-time passwords.
    TemplateMissing,
    /// The token is about to expire.
    TokenExpiresSoon,
}

impl NumberProblem {
    /// Returns its code, the problem, and the remedy.
    #[must_use]
    pub const fn words(self) -> [&'static str; 3] {
        match self {
            Self::Unreachable => [
                "unreachable",
                "The provider does not answer, or asks to be called later.",
                "If it stays so, check the network and `[cloud_api] base_url`.",
            ],
            Self::TokenRefused => [
                "token_refused",
                "The provider does not take the token.",
                "Make a new token and give it with `postrider numbers update`.",
            ],
            Self::Refused => [
                "refused",
                "The provider refuses to show the number.",
                "Check `phone_number_id`, `account_id` and what the token may do.",
            ],
            Self::NotSubscribed => [
                "not_subscribed",
                "No app is subscribed to the account, so no callback comes.",
                "Subscribe your app: POST /{account_id}/subscribed_apps at the provider.",
            ],
            Self::NoCallbackInADay => [
                "no_callback_in_a_day",
                "No callback has come for a day.",
                "Check the callback address at the provider, and that it reaches this server.",
            ],
            Self::NotConnected => [
                "not_connected",
                "The provider does not have the number as connected.",
                "See the number's status at the provider.",
            ],
            Self::NameNotApproved => [
                "name_not_approved",
                "The name that recipients see is not approved.",
                "Give another name at the provider, or wait for its review.",
            ],
            Self::QualityRed => [
                "quality_red",
                "Recipients block or report the number often.",
                "Send less marketing, and only to who asked for it.",
            ],
            Self::TemplateMissing => [
                "template_missing",
                "The template of one-time passwords is not there or not approved.",
                "Make it at the provider, sync the templates, or set another one.",
            ],
            Self::TokenExpiresSoon => [
                "token_expires_soon",
                "The token expires within a week.",
                "Make one that does not expire, and give it with `postrider numbers update`.",
            ],
        }
    }
}

/// The result of a check. This is its record too, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberCheck {
    /// The time at which the provider was asked.
    pub at: Timestamp,
    /// Set if the provider answered.
    pub reachable: bool,
    /// Set if the provider accepts the token; `None` if it did not say.
    pub token_accepted: Option<bool>,
    /// The name that recipients see.
    pub verified_name: Option<Box<str>>,
    /// The provider's word for its status.
    pub status: Option<Box<str>>,
    /// The other facts that the provider reports of it.
    pub facts: NumberFacts,
    /// The number of apps that receive the account's callbacks; `None` if the provider did not say.
    pub subscribed_apps: Option<usize>,
    /// When the provider last called back, since the start.
    pub last_callback_at: Option<Timestamp>,
    /// The fields of callbacks that have arrived since the start, each with its last time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub webhook_fields_seen: BTreeMap<Box<str>, Timestamp>,
    /// The time at which the token expires; `None` if it does not, or the provider does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_expires_at: Option<Timestamp>,
    /// The problems.
    pub problems: Vec<NumberProblem>,
}

impl NumberCheck {
    /// Returns whether it was made before this moment. A check by a clock that was ahead is
    /// ignored.
    pub(super) fn is_past(&self, now: Timestamp) -> bool {
        self.at <= now
    }
}

/// The reason why a number is not checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckNumberError {
    /// The workspace has no such number, or the number has no provider that can be asked.
    #[error("no such number, or none that has a provider to ask")]
    NoProvider,
    /// The workspace is unavailable.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Asks the provider about a number, stores its problems and applies the reported facts.
    ///
    /// The facts are pace, quality, name and limit.
    ///
    /// # Errors
    /// [`CheckNumberError`]: there is no provider to ask, or the workspace is unavailable.
    pub async fn check_number(&self, number: NumberId) -> Result<NumberCheck, CheckNumberError> {
        // The provider's answer is stored even if the caller no longer waits.
        let workspace = self.clone();
        let checking = async move {
            let asking = workspace.begin_check(number).await?;
            let asked = asking.ask().await;
            workspace.end_check(asking, asked).await
        };
        let failed = || Unavailable::because(UnavailableReason::Storage);
        tokio::spawn(checking).await.unwrap_or_else(|_| Err(failed().into()))
    }

    /// Returns the state that a check needs before the provider is asked.
    pub(super) async fn begin_check(
        &self,
        number: NumberId,
    ) -> Result<PendingCheck, CheckNumberError> {
        let connected = self.shared.numbers.connected(number);
        let own = connected.filter(|connected| connected.workspace == *self.id());
        let provider = own.and_then(|connected| connected.cloud_api.clone());
        let provider = provider.ok_or(CheckNumberError::NoProvider)?;
        let now = self.shared.clock.now();
        let known = self.read(move |store, id| stored_facts(store, id, number)).await?;
        Ok(PendingCheck { number, provider, clock: self.shared.clock.clone(), now, known })
    }

    /// Stores the provider's answer, and checks for other problems.
    pub(super) async fn end_check(
        &self,
        PendingCheck { number, now, known, .. }: PendingCheck,
        asked: Checkup,
    ) -> Result<NumberCheck, CheckNumberError> {
        let mut check = summarize(&asked);
        if self.template_is_missing(number).await? {
            check.problems.push(NumberProblem::TemplateMissing);
        }
        let figures = self.shared.numbers.figures(number).await;
        check.last_callback_at = figures.last_callback_at;
        let seen = figures.fields_seen.into_iter();
        check.webhook_fields_seen = seen.map(|(field, at)| (field.into(), at)).collect();
        let heard = check.last_callback_at.unwrap_or(self.shared.started_at);
        // A number that was connected by a clock that was ahead counts from the start.
        let connected = Some(number.timestamp()).filter(|at| *at <= now).unwrap_or_default();
        if now.since(heard.max(connected)) >= SILENCE {
            check.problems.push(NumberProblem::NoCallbackInADay);
        }
        // An earlier answer is already stored, and callbacks may have reported other facts since.
        let is_new = asked.asked_at >= now;
        let said = asked.report.ok().filter(|_| is_new).map(|it| it.facts).unwrap_or_default();
        let pace_set = self.shared.numbers.pace_set();
        let take = StoreCheck { number, known, said, pace_set, check: check.clone() };
        match self.is_asked_for() {
            true => {
                let entry = AuditEntry::new("number.check").target(number);
                self.perform_audited(take, entry).await?;
            }
            false => self.perform(take).await?,
        }
        Ok(check)
    }

    /// Returns the last check of a number; `None` also if its record cannot be decoded.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub async fn last_check(&self, number: NumberId) -> Result<Option<NumberCheck>, Unavailable> {
        self.read(move |store, id| {
            let record = store.get(Table::Workspaces, &records::check_key(id, number))?;
            // An unreadable record is replaced within a day.
            Ok(record.and_then(|json| codec::decode(&json).ok()))
        })
        .await
    }

    /// Returns whether the template of one-time passwords is missing or not approved.
    ///
    /// It is unknown, and `false`, while the templates are to be synchronized.
    async fn template_is_missing(&self, number: NumberId) -> Result<bool, Unavailable> {
        let found = self.read(move |store, id| {
            if store.get(Table::Workspaces, &records::templates_wanted_key(id))?.is_some() {
                return Ok(false);
            }
            let Some(records) = records::load(store, id)? else { return Ok(false) };
            let (name, pool) =
                (records.profile.otp_template(), Pool::of(id, &records.numbers, None));
            let template = templates::read(store, id, &name.name, &name.language)?;
            Ok(template.is_none_or(|it| !it.can_leave(&pool, number)))
        });
        found.await
    }
}

/// Returns the stored facts of a number.
fn stored_facts(
    store: &dyn View,
    workspace: &WorkspaceId,
    number: NumberId,
) -> Result<Option<Vec<u8>>, StoreError> {
    store.get(Table::Workspaces, &records::facts_key(workspace, number))
}

/// A number whose provider is about to be asked.
pub(super) struct PendingCheck {
    number: NumberId,
    provider: Arc<CloudApiNumber>,
    clock: Clock,
    now: Timestamp,
    /// Its stored facts at that time.
    known: Option<Vec<u8>>,
}

impl PendingCheck {
    /// Asks the provider. This takes up to a minute, and does not keep the engine alive.
    pub(super) async fn ask(&self) -> Checkup {
        self.provider.checkup(&self.clock).await
    }
}

/// Summarizes the provider's answers.
fn summarize(asked: &Checkup) -> NumberCheck {
    let report = asked.report.as_ref().ok();
    let refusals = [asked.report.as_ref().err(), asked.subscribed.as_ref().err()];
    let mut problems: Vec<_> = refusals.into_iter().flatten().take(1).map(problem_of).collect();
    let token_accepted = match problems.first() {
        Some(NumberProblem::TokenRefused) => Some(false),
        _ => report.map(|_| true),
    };
    let reachable = !problems.contains(&NumberProblem::Unreachable);
    let facts = report.map(|report| report.facts.clone()).unwrap_or_default();
    let status = report.and_then(|report| report.status.clone());
    let approved = ["approved", "available_without_review", "none"];
    let name = facts.name_status.as_deref();
    let rest = [
        (asked.subscribed == Ok(0), NumberProblem::NotSubscribed),
        (status.as_deref().is_some_and(|it| it != "CONNECTED"), NumberProblem::NotConnected),
        (name.is_some_and(|name| !approved.contains(&name)), NumberProblem::NameNotApproved),
        (facts.quality == Some(TemplateQuality::Red), NumberProblem::QualityRed),
        (
            asked.token_expires_at.is_some_and(|at| at <= asked.asked_at.plus(EXPIRES_SOON)),
            NumberProblem::TokenExpiresSoon,
        ),
    ];
    problems.extend(rest.into_iter().filter_map(|(is_so, problem)| is_so.then_some(problem)));
    NumberCheck {
        at: asked.asked_at,
        reachable,
        token_accepted,
        verified_name: report.and_then(|report| report.verified_name.clone()),
        status,
        facts,
        subscribed_apps: asked.subscribed.as_ref().ok().copied(),
        last_callback_at: None,
        webhook_fields_seen: BTreeMap::new(),
        token_expires_at: asked.token_expires_at,
        problems,
    }
}

/// Returns the problem that a failed call shows.
fn problem_of(error: &ListError) -> NumberProblem {
    /// The code of a token that is not accepted.
    const TOKEN: Option<u32> = Some(190);
    match error {
        ListError::Refused(failure) if failure.code == TOKEN => NumberProblem::TokenRefused,
        ListError::Unreachable => NumberProblem::Unreachable,
        ListError::Refused(_) | ListError::Unreadable => NumberProblem::Refused,
    }
}

/// Stores the result of a check.
struct StoreCheck {
    number: NumberId,
    /// The number's stored facts before its provider was asked.
    known: Option<Vec<u8>>,
    said: NumberFacts,
    pace_set: Option<u32>,
    check: NumberCheck,
}

impl Command for StoreCheck {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let Self { number, known, said, pace_set, check } = self;
        let key = records::check_key(&context.core.id, number);
        let last = context.get(Table::Workspaces, &key)?;
        let last = last.and_then(|json| codec::decode::<NumberCheck>(&json).ok());
        // It may have been disconnected meanwhile, or checked again with another token.
        let now = context.now();
        let last = last.filter(|last| last.is_past(now));
        if context.number(number).is_none() || last.is_some_and(|last| last.at > check.at) {
            return Ok(());
        }
        // Facts of a callback that arrived meanwhile are newer.
        let facts = records::facts_key(&context.core.id, number);
        if context.get(Table::Workspaces, &facts)? == known {
            number_facts::learn(context, number, &said, pace_set)?;
        }
        context.put_json(Table::Workspaces, key, &check);
        Ok(())
    }
}
