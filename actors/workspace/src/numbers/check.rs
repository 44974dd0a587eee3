//! Checks a number: asks its provider, takes what it says, and names what is wrong.

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
use crate::core::pool::Pool;
use crate::core::records;
use crate::inbox::number_facts;
use crate::templates;

/// How long no callback may come before that is reported.
const SILENCE: Duration = Duration::from_secs(24 * 3600);

/// How long before its end it is reported that a token expires.
const EXPIRES_SOON: Duration = Duration::from_secs(7 * 24 * 3600);

/// What is wrong with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberProblem {
    /// The provider does not answer, or not now.
    Unreachable,
    /// The provider does not take the number's token.
    TokenRefused,
    /// The provider refuses to say anything of the number.
    Refused,
    /// Nobody gets the callbacks of the number's account.
    NotSubscribed,
    /// No callback has come for a day.
    NoCallbackInADay,
    /// The provider has stopped or restricted it.
    NotConnected,
    /// The name that it is to show is not approved.
    NameNotApproved,
    /// Recipients rate it badly.
    QualityRed,
    /// The account has no approved template for one-time passwords.
    TemplateMissing,
    /// The token is about to expire.
    TokenExpiresSoon,
}

impl NumberProblem {
    /// Its code, what is wrong, and what to do about it.
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

/// What came of a check. This is its record too, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberCheck {
    /// When the provider was asked.
    pub at: Timestamp,
    /// Whether the provider answered.
    pub reachable: bool,
    /// Whether the provider takes the token; `None` if it did not say.
    pub token_accepted: Option<bool>,
    /// The name that recipients see.
    pub verified_name: Option<Box<str>>,
    /// The provider's word for how it does.
    pub status: Option<Box<str>>,
    /// What else the provider says of it.
    #[serde(default)]
    pub facts: NumberFacts,
    /// How many apps get the account's callbacks; `None` if the provider did not say.
    pub subscribed_apps: Option<usize>,
    /// When the provider last called back, since the start.
    #[serde(default)]
    pub last_callback_at: Option<Timestamp>,
    /// Of which fields of callbacks something has come, since the start, and when last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub webhook_fields_seen: BTreeMap<Box<str>, Timestamp>,
    /// When the token expires; `None` where it does not, or the provider does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_expires_at: Option<Timestamp>,
    /// What is wrong.
    pub problems: Vec<NumberProblem>,
}

impl NumberCheck {
    /// Whether it was made before this moment. One of a clock that was ahead is as good as none.
    pub(super) fn has_been(&self, now: Timestamp) -> bool {
        self.at <= now
    }
}

/// Why a number is not checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckNumberError {
    /// The workspace has no such number, or there is no provider behind it that can be asked.
    #[error("no such number, or none that has a provider to ask")]
    NoProvider,
    /// Not now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Asks the provider of a number how it does, keeps what is wrong, and goes by what it says:
    /// pace, quality, name and limit.
    ///
    /// # Errors
    /// [`CheckNumberError`]: there is no provider to ask, or not now.
    pub async fn check_number(&self, number: NumberId) -> Result<NumberCheck, CheckNumberError> {
        // What the provider says is taken though nobody waits for it any more.
        let workspace = self.clone();
        let checking = async move {
            let asking = workspace.begin_check(number).await?;
            let asked = asking.ask().await;
            workspace.end_check(asking, asked).await
        };
        let failed = || Unavailable::because(UnavailableReason::Storage);
        tokio::spawn(checking).await.unwrap_or_else(|_| Err(failed().into()))
    }

    /// What a check needs before the provider is asked.
    pub(super) async fn begin_check(&self, number: NumberId) -> Result<Asking, CheckNumberError> {
        let connected = self.shared.numbers.connected(number);
        let own = connected.filter(|connected| connected.workspace == *self.id());
        let provider = own.and_then(|connected| connected.cloud_api.clone());
        let provider = provider.ok_or(CheckNumberError::NoProvider)?;
        let now = self.shared.clock.now();
        let known = self.read(move |store, id| facts(store, id, number)).await?;
        Ok(Asking { number, provider, clock: self.shared.clock.clone(), now, known })
    }

    /// Takes what the provider said, and looks what else is wrong.
    pub(super) async fn end_check(
        &self,
        Asking { number, now, known, .. }: Asking,
        asked: Checkup,
    ) -> Result<NumberCheck, CheckNumberError> {
        let mut check = summed_up(&asked);
        if self.template_is_missing(number).await? {
            check.problems.push(NumberProblem::TemplateMissing);
        }
        let figures = self.shared.numbers.figures(number).await;
        check.last_callback_at = figures.last_callback_at;
        let seen = figures.fields_seen.into_iter();
        check.webhook_fields_seen = seen.map(|(field, at)| (field.into(), at)).collect();
        let heard = check.last_callback_at.unwrap_or(self.shared.started_at);
        // One that a clock connected which was ahead has been there since the start.
        let connected = Some(number.timestamp()).filter(|at| *at <= now).unwrap_or_default();
        if now.since(heard.max(connected)) >= SILENCE {
            check.problems.push(NumberProblem::NoCallbackInADay);
        }
        // What was said before is taken already, and callbacks may have said otherwise since.
        let is_new = asked.asked_at >= now;
        let said = asked.report.ok().filter(|_| is_new).map(|it| it.facts).unwrap_or_default();
        let pace_set = self.shared.numbers.pace_set();
        let take = Take { number, known, said, pace_set, check: check.clone() };
        match self.is_asked_for() {
            true => {
                let entry = AuditEntry::new("number.check").target(number);
                self.perform_audited(take, entry).await?;
            }
            false => self.perform(take).await?,
        }
        Ok(check)
    }

    /// The last check of a number; `None` where its record cannot be decoded, too.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub async fn last_check(&self, number: NumberId) -> Result<Option<NumberCheck>, Unavailable> {
        self.read(move |store, id| {
            let record = store.get(Table::Workspaces, &records::check_key(id, number))?;
            // What cannot be read is written anew within a day.
            Ok(record.and_then(|json| codec::decode(&json).ok()))
        })
        .await
    }

    /// Whether the template of one-time passwords is not there, or not approved. While the
    /// templates are yet to be brought up to date, nobody knows.
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

/// What is known of a number, as it is stored.
fn facts(
    store: &dyn View,
    workspace: &WorkspaceId,
    number: NumberId,
) -> Result<Option<Vec<u8>>, StoreError> {
    store.get(Table::Workspaces, &records::facts_key(workspace, number))
}

/// A number whose provider is about to be asked.
pub(super) struct Asking {
    number: NumberId,
    provider: Arc<CloudApiNumber>,
    clock: Clock,
    now: Timestamp,
    /// What was known of it then, as it is stored.
    known: Option<Vec<u8>>,
}

impl Asking {
    /// Asks. It takes up to a minute, and keeps no engine from ending.
    pub(super) async fn ask(&self) -> Checkup {
        self.provider.checkup(&self.clock).await
    }
}

/// What the provider's answers come to.
fn summed_up(asked: &Checkup) -> NumberCheck {
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

/// What a call that failed shows.
fn problem_of(error: &ListError) -> NumberProblem {
    /// The code of a token that is not taken.
    const TOKEN: Option<u32> = Some(190);
    match error {
        ListError::Refused(failure) if failure.code == TOKEN => NumberProblem::TokenRefused,
        ListError::Unreachable => NumberProblem::Unreachable,
        ListError::Refused(_) | ListError::Unreadable => NumberProblem::Refused,
    }
}

/// Takes what a check found.
struct Take {
    number: NumberId,
    /// What was known of it before its provider was asked.
    known: Option<Vec<u8>>,
    said: NumberFacts,
    pace_set: Option<u32>,
    check: NumberCheck,
}

impl Command for Take {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let Self { number, known, said, pace_set, check } = self;
        let key = records::check_key(&context.core.id, number);
        let last = context.get(Table::Workspaces, &key)?;
        let last = last.and_then(|json| codec::decode::<NumberCheck>(&json).ok());
        // It may have been disconnected meanwhile, or asked about anew with another token.
        let now = context.now();
        let last = last.filter(|last| last.has_been(now));
        if context.number(number).is_none() || last.is_some_and(|last| last.at > check.at) {
            return Ok(());
        }
        // What a callback has reported meanwhile is newer.
        let facts = records::facts_key(&context.core.id, number);
        if context.get(Table::Workspaces, &facts)? == known {
            number_facts::learn(context, number, &said, pace_set)?;
        }
        context.put_json(Table::Workspaces, key, &check);
        Ok(())
    }
}
