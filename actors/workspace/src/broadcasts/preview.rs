//! A preview of a broadcast's messages and cost. Nothing is created.

use std::time::Duration;

use postrider_broadcast::with_variables;
use postrider_domain::template::parameters;
use postrider_domain::{NumberId, PartyId, Phone, Timestamp, WorkspaceId};
use postrider_store::{StoreError, View};
use serde_json::Value;

use crate::Workspace;
use crate::broadcasts::create::{CreateBroadcastError, NewBroadcast};
use crate::broadcasts::sender::{Samples, Sender, check_variables};
use crate::contacts::Contact;
use crate::core::command::{Command, Context};
use crate::suppressions::excluded_from_broadcasts;
use crate::templates::{Template, known_template};

/// The number of recipients whose messages are shown.
const SAMPLES_MAX: usize = 5;

/// A recipient's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroadcastSample {
    /// The recipient.
    pub to: Phone,
    /// The contact's name, if there is one.
    pub name: Option<Box<str>>,
    /// The text on their phone.
    pub text: Box<str>,
}

/// The preview of a broadcast's messages and cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroadcastPreview {
    /// The number of recipients, each once, including those that have opted out.
    pub recipients: usize,
    /// The number of recipients that have opted out.
    pub suppressed: usize,
    /// The number of recipients whose variables do not fit the template.
    pub missing_variables: usize,
    /// The credits for recipients that have not opted out.
    pub cost: u64,
    /// The balance.
    pub credits_left: u64,
    /// The duration, if the number has a pace.
    pub at_pace: Option<Duration>,
    /// The messages of the first recipients.
    pub samples: Vec<BroadcastSample>,
}

/// The actor's part of a preview.
struct Quote {
    template: Template,
    price: u64,
    credits: u64,
    numbers: Vec<NumberId>,
}

struct QuoteBroadcast {
    name: Box<str>,
    language: Box<str>,
    schedule_at: Option<Timestamp>,
    from: Vec<Box<str>>,
    /// The parameters of all recipients.
    components: Vec<Value>,
    /// The template for variables of recipients, if they have some.
    personal: Option<Option<Vec<Value>>>,
}

impl Command for QuoteBroadcast {
    type Answer = Quote;
    type Error = CreateBroadcastError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Quote, CreateBroadcastError> {
        if self.schedule_at.is_some_and(|at| at < context.now()) {
            return Err(CreateBroadcastError::Past);
        }
        let row = known_template(context, &self.name, &self.language)?;
        let fits = self.personal.as_ref().map(|fits| fits.as_deref().unwrap_or(&row.components));
        let parameters = Samples::of(&self.components, fits);
        let sender = Sender::of(context, &row, &self.from, &parameters)?;
        let Sender { numbers, definition, category, .. } = sender;
        let template = Template { components: definition, ..Template::clone(&row) };
        Ok(Quote {
            price: context.core.rules.prices.template(category),
            template,
            credits: context.core.credits,
            numbers,
        })
    }
}

impl Workspace {
    /// Returns a preview of a broadcast's messages and cost.
    ///
    /// It is refused for the same reasons as the creation, except for the balance. Recipients whose
    /// variables do not fit are counted.
    ///
    /// # Errors
    /// [`CreateBroadcastError`]
    pub async fn preview_broadcast(
        &self,
        new: NewBroadcast,
    ) -> Result<BroadcastPreview, CreateBroadcastError> {
        if new.audience.is_empty() {
            return Err(CreateBroadcastError::NoRecipients);
        }
        let (name, language) = (new.template.clone(), new.language.clone());
        let (schedule_at, from) = (new.schedule_at, new.from.clone());
        let definitions = self.definitions(&new).await?;
        let fitting = self.scan(move |_, _| {
            let first = definitions.first().cloned();
            // If no template fits all, misfits are counted with the first one.
            let fits = check_variables(definitions, &new).unwrap_or(first);
            Ok((new, fits))
        });
        let (new, fits) = fitting.await?;
        let components = new.components.clone();
        let personal = new.audience.variables.is_some().then_some(fits);
        let ask = QuoteBroadcast { name, language, schedule_at, from, components, personal };
        let quote = self.perform(ask).await?;
        let Quote { template, price, credits, numbers } = quote;
        let counted =
            self.scan(move |store, workspace| count_audience(store, workspace, &template, new));
        let AudienceCounts { recipients, sendable, missing_variables, shown } = counted.await?;
        let recipients_max = self.shared.broadcasts.options.recipients_max;
        if recipients > recipients_max {
            return Err(CreateBroadcastError::TooManyRecipients(recipients_max));
        }
        let phones = shown.iter().map(|(phone, _)| PartyId::from(*phone)).collect();
        let samples = shown.into_iter().zip(self.contacts_of(phones).await?);
        let sample = |((to, text), contact): ((_, _), Option<Contact>)| BroadcastSample {
            to,
            name: contact.map(|it| it.name.as_str().into()),
            text,
        };
        Ok(BroadcastPreview {
            recipients,
            suppressed: recipients - sendable,
            missing_variables,
            cost: price.saturating_mul(sendable as u64),
            credits_left: credits,
            at_pace: self.pace_of(&numbers).map(|rate| at_pace(sendable, rate)),
            samples: samples.map(sample).collect(),
        })
    }

    /// Returns the pace of these numbers together; `None` if one of them has no limit.
    fn pace_of(&self, numbers: &[NumberId]) -> Option<u32> {
        let connected = numbers.iter().filter_map(|number| self.shared.numbers.connected(*number));
        let mut paces = connected.map(|it| Some(it.messages_per_second).filter(|pace| *pace > 0));
        paces.try_fold(0, |sum: u32, pace| Some(sum.saturating_add(pace?)))
    }
}

/// Returns how long so many messages take at a pace.
fn at_pace(messages: usize, per_second: u32) -> Duration {
    Duration::from_secs((messages as u64).div_ceil(per_second.max(1).into()))
}

/// The counts of an audience.
struct AudienceCounts {
    recipients: usize,
    sendable: usize,
    missing_variables: usize,
    shown: Vec<(Phone, Box<str>)>,
}

fn count_audience(
    store: &dyn View,
    workspace: &WorkspaceId,
    template: &Template,
    new: NewBroadcast,
) -> Result<AudienceCounts, StoreError> {
    let NewBroadcast { mut audience, components, .. } = new;
    audience.leave_each_once();
    let sendable = audience.set_aside(&excluded_from_broadcasts(store, workspace, None)?);
    let all = audience.variables.as_deref().unwrap_or_default();
    let lacks = |variables: &[Box<str>]| {
        let given = with_variables(&components, variables);
        variables.iter().any(|text| text.is_empty())
            || parameters::fill(&template.components, &given).is_err()
    };
    let missing_variables = all.iter().take(sendable).filter(|it| lacks(it)).count();
    let text = |at: usize| text_of(template, &components, all.get(at).map_or(&[][..], |it| it));
    let phone = |at: usize| format!("+{}", audience.phones[at]).parse::<Phone>().ok();
    let shown = (0..sendable).filter_map(|at| Some((phone(at)?, text(at)))).take(SAMPLES_MAX);
    let shown = shown.collect();
    Ok(AudienceCounts { recipients: audience.len(), sendable, missing_variables, shown })
}

/// Returns a recipient's text; if the variables do not fit, the template as it is.
fn text_of(template: &Template, components: &[Value], variables: &[Box<str>]) -> Box<str> {
    match template.content(&with_variables(components, variables)) {
        Ok(content) => content.text,
        Err(_) => template
            .components
            .iter()
            .filter_map(|component| component["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n")
            .into(),
    }
}
