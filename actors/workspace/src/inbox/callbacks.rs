//! Records the provider's callbacks: reports, messages of contacts, and changes of templates.

use std::collections::VecDeque;
use std::sync::Arc;

use postrider_broadcast::FanoutMessage;
use postrider_broadcast::record::{Record, WINDOW};
use postrider_channel::callback::{
    Callback, ChannelFault, IdentityChange, Inbound, MarketingChoice, Progress, StatusUpdate,
    TemplateUpdate,
};
use postrider_channel::{Failure, FailureClass, Origin};
use postrider_domain::event::number::ChannelErrorData;
use postrider_domain::{BroadcastId, EventData, NumberId, PartyId, Timestamp};

use crate::core::command::{Command, Context};
use crate::counts_under_way::CountsUnderWay;
use crate::inbox::identity;
use crate::inbox::identity_change;
use crate::inbox::inbound_messages;
use crate::inbox::phone_aliases;
use crate::suppressions::{Choice, chose};
use crate::templates::apply_template_update;
use crate::templates::sync as template_sync;
use crate::{Workspace, broadcasts, messages};
use postrider_domain::unavailable::Unavailable;

/// Most items that one command takes up: each may read some fifteen records, and others want their
/// turn too.
const ITEMS_MAX: usize = 32;
/// A command that has told the event log this much leaves the rest to another. One more item is
/// less than that again, as its texts are clipped, so a command's changes fit in a commit.
const LOG_BYTES_MAX: usize = 64 * 1024;

impl Workspace {
    /// Takes a callback about the number; when this answers, all of it is durable. A callback that
    /// comes again changes nothing, nor does what is reported of messages that nobody knows. Texts
    /// that are longer than may be kept are clipped.
    ///
    /// # Errors
    /// [`Unavailable`]: some of it may not have been taken, so the provider should repeat it.
    pub async fn receive(&self, number: NumberId, callback: Callback) -> Result<(), Unavailable> {
        let Callback { statuses, inbound, templates, choices, identity_changes, errors } = callback;
        let reports = statuses.into_iter().map(|it| Item::Report(number, it));
        let inbound = inbound.into_iter().map(|it| Item::Inbound(number, it.clipped()));
        let templates = templates.into_iter().map(Item::Template);
        let changed = identity_changes.into_iter().map(|it| Item::IdentityChange(number, it));
        let errors = errors.into_iter().map(|it| Item::Fault(number, it));
        let choices = choices.into_iter().map(Item::Choice);
        let items = reports.chain(inbound).chain(changed).chain(choices).chain(templates);
        let mut rest: VecDeque<_> = items.chain(errors).collect();
        while !rest.is_empty() {
            let counting = Arc::clone(&self.shared.counting);
            let taken = self.perform(Take { items: rest, counting }).await?;
            self.follow_up(number, taken.news);
            rest = taken.rest;
        }
        Ok(())
    }

    /// Has the other actors take notice of what is committed now.
    fn follow_up(&self, number: NumberId, news: News) {
        let shared = &self.shared;
        if let Some(fault) = news.fault {
            shared.numbers.fault(number, fault);
        }
        if let Some(spam) = news.spam {
            let stopped = || FanoutMessage::NumberStopped(number, spam.clone());
            shared.broadcasts.cast_all_live(stopped);
        }
        shared.broadcasts.reported_failed(news.failed);
        news.stopped.iter().for_each(|record| self.follow(record));
        if news.unknown_template {
            self.sync_templates_soon();
        }
    }
}

/// One thing that a callback tells.
enum Item {
    Report(NumberId, StatusUpdate),
    Inbound(NumberId, Inbound),
    IdentityChange(NumberId, IdentityChange),
    Choice(MarketingChoice),
    Template(TemplateUpdate),
    Fault(NumberId, ChannelFault),
}

/// Takes up items from the front, as many as fit in a commit.
struct Take {
    items: VecDeque<Item>,
    /// What must know of reports on messages of broadcasts.
    counting: Arc<CountsUnderWay>,
}

/// What that leaves.
struct Taken {
    /// The other items.
    rest: VecDeque<Item>,
    news: News,
}

/// What other actors must learn of it once it is durable.
#[derive(Default)]
struct News {
    /// Why the number's account cannot send, if one of the reports says so and is news.
    fault: Option<Failure>,
    /// That recipients mark the number's messages as spam, likewise.
    spam: Option<Failure>,
    /// Messages of broadcasts that are reported as failed, for the first time.
    failed: Vec<(BroadcastId, u32)>,
    /// Broadcasts that were paused or ended.
    stopped: Vec<Record>,
    /// It told of a template that is not known.
    unknown_template: bool,
}

impl Command for Take {
    type Answer = Taken;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Taken, Unavailable> {
        let Self { mut items, counting } = self;
        let mut news = News::default();
        for _ in 0..ITEMS_MAX {
            if context.effects.log.len() > LOG_BYTES_MAX {
                break;
            }
            match items.pop_front() {
                Some(Item::Report(number, it)) => {
                    if let Origin::Broadcast { broadcast, index } = it.origin {
                        counting.changed(broadcast, index / WINDOW);
                    }
                    let told = context.effects.log_count;
                    report(context, number, &it, &mut news)?;
                    if let (true, Progress::Failed(failure)) =
                        (context.effects.log_count > told, it.status)
                    {
                        news.concerns_number(failure);
                    }
                }
                Some(Item::Inbound(number, it)) => inbound_messages::take(context, number, &it)?,
                Some(Item::IdentityChange(number, it)) => {
                    identity_change::take(context, number, &it)?;
                }
                Some(Item::Fault(number, it)) => news.concerns_number(fault(context, number, it)),
                Some(Item::Choice(it)) => choose(context, &it)?,
                Some(Item::Template(update)) => {
                    news.unknown_template |= !apply_template_update(context, &update)?;
                }
                None => break,
            }
        }
        if news.unknown_template {
            template_sync::want(context)?;
        }
        Ok(Taken { rest: items, news })
    }
}

impl News {
    /// Takes a failure that may concern more than its message.
    fn concerns_number(&mut self, failure: Failure) {
        match failure.class {
            FailureClass::Account => self.fault = Some(failure),
            FailureClass::SpamLimit => self.spam = Some(failure),
            _ => {}
        }
    }
}

/// Tells of an error that is about no message. Returns the failure that it is.
fn fault(context: &mut Context<'_>, number_id: NumberId, fault: ChannelFault) -> Failure {
    let ChannelFault { failure, title } = fault;
    let (error_code, details) = (failure.code, failure.details.clone());
    tracing::warn!(
        workspace = %context.core.id, number = %number_id, code = error_code,
        "the channel reports an error of a number"
    );
    let data = ChannelErrorData { number_id, error_code, title, details };
    context.effects.emit(context.now(), EventData::ChannelError(data));
    failure
}

/// Takes somebody's choice about marketing, for everything by which they are known.
fn choose(context: &mut Context<'_>, told: &MarketingChoice) -> Result<(), Unavailable> {
    let choice = if told.wanted { Choice::Resumed } else { Choice::Stopped };
    for party in identity::everything_of(context, &told.parties)? {
        chose(context, &party, choice, told.at)?;
    }
    Ok(())
}

fn report(
    context: &mut Context<'_>,
    number: NumberId,
    update: &StatusUpdate,
    news: &mut News,
) -> Result<(), Unavailable> {
    let StatusUpdate { origin, status, at, to, .. } = update;
    let (to, written_at) = match *origin {
        Origin::Otp { request_id, number } => {
            context.core.report(request_id, number, status, context.effects);
            let to = context.core.known(request_id).map(|otp| otp.phone.into());
            (to, request_id.timestamp())
        }
        Origin::Message(id) => (messages::report(context, id, status, *at)?, id.timestamp()),
        Origin::Broadcast { broadcast, index } => {
            let failure = broadcasts::report(context, broadcast, index, update)?;
            news.failed.extend(failure.is_new.then_some((broadcast, index)));
            news.stopped.extend(failure.stopped);
            (to.map(PartyId::from), broadcast.timestamp())
        }
    };
    learn(context, number, (to, update), written_at)
}

/// Learns by which names the provider knows the recipient of a message, which was accepted at `at`.
fn learn(
    context: &mut Context<'_>,
    number: NumberId,
    (to, update): (Option<PartyId>, &StatusUpdate),
    at: Timestamp,
) -> Result<(), Unavailable> {
    let StatusUpdate { known_as, user_id, .. } = update;
    let phone = to.as_ref().and_then(PartyId::phone);
    if let Some((phone, known_as)) = phone.zip(*known_as) {
        phone_aliases::learn(context, number, phone, known_as, at)?;
    }
    let id = user_id.as_ref().or_else(|| to.as_ref().and_then(PartyId::user_id));
    match phone.or(*known_as).zip(id) {
        Some((phone, id)) => identity::learn(context, phone, id, at),
        None => Ok(()),
    }
}
