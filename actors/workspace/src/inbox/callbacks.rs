//! Records the provider's callbacks: reports, messages of contacts, and changes of templates.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use postrider_broadcast::FanoutMessage;
use postrider_broadcast::record::{Record, WINDOW};
use postrider_channel::callback::{
    Callback, IgnoredItems, Inbound, MarketingChoice, Progress, StatusUpdate,
};
use postrider_channel::cloud_api::items::{FieldNumber, ItemOutcome};
use postrider_channel::{Failure, FailureClass, Origin};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, MediaId, NumberId, PartyId, PartyNames, Phone, Timestamp};

use crate::broadcasts::replies::LiveBroadcasts;
use crate::contacts::{identity, known_names};
use crate::core::command::{Command, Context};
use crate::core::view::unreadable;
use crate::inbox::callback_items::{FieldItem, Item, PossibleReply};
use crate::inbox::callback_reads::{CallbackReads, Replies};
use crate::inbox::number_facts::{emit_fault, emit_ignored, others_of_account};
use crate::inbox::{
    callback_items, callback_reads, identity_change, identity_merge, inbound_messages, number_facts,
};
use crate::services::CountsUnderWay;
use crate::suppressions::{Choice, note_choice};
use crate::templates::{sync as template_sync, update as template_update};
use crate::{Workspace, broadcasts, messages, otp};

/// The maximum work of the items in one command, as other commands need their turn too.
///
/// A callback with as many reports as the provider sends at once is one command, and so one commit.
const WORK_MAX: usize = 64;
/// The maximum number of records that one command reads in the actor.
///
/// For more, they are read before, beside the actor.
const READS_MAX: usize = 64;
/// The number of reads that a command reserves for an item, which needs few more.
const READS_OF_ITEM: usize = 24;
/// The maximum number of items whose records the actor reads itself.
const READ_IN_ACTOR_MAX: usize = 2;
/// The bytes of events after which a command leaves the rest to another one.
///
/// One more item is less than that again, as its texts are clipped. So a command's changes fit in a
/// commit.
const LOG_BYTES_MAX: usize = 64 * 1024;

impl Workspace {
    /// Processes a callback about the number; all of it is durable when this returns.
    ///
    /// A repeated callback changes nothing, nor do reports about unknown messages. Texts above the
    /// maximum length are clipped.
    ///
    /// # Errors
    /// [`Unavailable`]: some of it may not have been processed, so the provider should repeat it.
    pub async fn receive(&self, number: NumberId, callback: Callback) -> Result<(), Unavailable> {
        self.receive_parts(number, vec![(None, callback)]).await
    }

    /// Does the same for several parts of a callback.
    ///
    /// Their items are counted under the parts' fields, if they have one.
    ///
    /// # Errors
    /// [`Unavailable`]: as for [`receive`](Self::receive).
    pub async fn receive_parts(
        &self,
        number: NumberId,
        parts: Vec<(Option<FieldNumber>, Callback)>,
    ) -> Result<(), Unavailable> {
        let pace_set = self.shared.numbers.pace_set();
        for field in parts.iter().filter_map(|(field, _)| *field) {
            self.shared.numbers.slot(number).note_field(field, self.shared.clock.now());
        }
        let (mut rest, ignored) = callback_items::in_order(number, parts, pace_set);
        for items in ignored {
            let now = self.shared.clock.now();
            let noted = self.slot.ignored.lock().note(now, number, &items);
            let noted = noted.map(|count| IgnoredItems { count, ..items });
            rest.extend(noted.map(|items| (None, Item::Ignored(number, items))));
        }
        let mut wanted = None;
        while !rest.is_empty() {
            let counting = Arc::clone(&self.shared.counting);
            let reads_ahead = rest.len() > READ_IN_ACTOR_MAX
                || wanted.is_some()
                || rest.iter().any(|(_, it)| it.is_about_another());
            let (items, ahead) = match reads_ahead {
                true => self.read_ahead(rest, wanted).await?,
                false => (rest, None),
            };
            let taken = self.perform(TakeItems { items, ahead, counting }).await?;
            for ((field, outcome), items) in taken.counts {
                self.shared.callback_items.add(field, outcome, items);
            }
            // Items before a failed one are durable, and are not processed again.
            self.follow_up(number, taken.news);
            taken.done?;
            (rest, wanted) = (taken.rest, taken.wanted);
        }
        Ok(())
    }

    /// Reads the records that the first of these items need, beside the actor.
    async fn read_ahead(
        &self,
        items: VecDeque<FieldItem>,
        wanted: Option<PossibleReply>,
    ) -> Result<(VecDeque<FieldItem>, Option<CallbackReads>), Unavailable> {
        let (reading, now) = (self.slot.reading_ahead.begin(), self.shared.clock.now());
        let read = self.read(move |store, workspace| {
            let first = callback_items::up_to(items.iter().map(|(_, it)| it), WORK_MAX);
            let ahead = callback_reads::read((store, workspace), reading, now, first, wanted)?;
            Ok((items, Some(ahead)))
        });
        read.await
    }

    /// Notifies the other actors of the committed changes.
    fn follow_up(&self, number: NumberId, news: CallbackNews) {
        let shared = &self.shared;
        if let Some(fault) = news.fault {
            for beside in news.stop_too {
                shared.numbers.fault(beside, fault.clone());
            }
            shared.numbers.fault(number, fault);
        }
        if let Some(spam) = news.spam {
            let stopped = || FanoutMessage::NumberStopped(number, spam.clone());
            shared.broadcasts.cast_all_live(stopped);
        }
        shared.broadcasts.reported_failed(news.failed);
        news.changed.iter().for_each(|record| self.follow(record));
        self.fetch_new(news.files);
        if news.templates_outdated {
            self.sync_templates_soon();
        }
    }
}

/// Processes items from the front, as many as fit in a commit.
struct TakeItems {
    items: VecDeque<FieldItem>,
    /// The records that were read for them.
    ahead: Option<CallbackReads>,
    /// The counts that need reports on messages of broadcasts.
    counting: Arc<CountsUnderWay>,
}

/// The outcome of [`TakeItems`].
struct CallbackOutcome {
    /// The remaining items.
    rest: VecDeque<FieldItem>,
    /// The number of items by field and outcome.
    counts: HashMap<(FieldNumber, ItemOutcome), u64>,
    /// The message to look up beside the actor before the next item can be processed.
    wanted: Option<PossibleReply>,
    news: CallbackNews,
    /// The reason why the last item failed, if it did: then it and the rest must be repeated.
    done: Result<(), Unavailable>,
}

/// The changes that other actors must learn once they are durable.
#[derive(Default)]
struct CallbackNews {
    /// The reason why the number's account cannot send, if a new report says so.
    fault: Option<Failure>,
    /// The other numbers that the fault keeps from sending.
    stop_too: Vec<NumberId>,
    /// The report that recipients mark the number's messages as spam, likewise.
    spam: Option<Failure>,
    /// Messages of broadcasts that are reported as failed for the first time.
    failed: Vec<(BroadcastId, u32)>,
    /// Broadcasts that were paused or ended.
    changed: Vec<Record>,
    /// Files that arrived.
    files: Vec<MediaId>,
    /// Set if the callback reported a template that is unknown or has changed.
    templates_outdated: bool,
}

impl Command for TakeItems {
    type Answer = CallbackOutcome;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<CallbackOutcome, Unavailable> {
        let Self { items, ahead, counting } = self;
        let (counts, news) = (HashMap::new(), CallbackNews::default());
        let mut taken = CallbackOutcome { rest: items, counts, wanted: None, news, done: Ok(()) };
        let mut replies = None;
        if let Some(ahead) = ahead {
            context.ahead = Some(ahead.records);
            replies = Some(ahead.replies);
        }
        taken.done = taken.take_items(context, &counting, &mut replies);
        if taken.news.templates_outdated {
            taken.done = taken.done.and(template_sync::want(context));
        }
        Ok(taken)
    }
}

impl CallbackOutcome {
    /// Processes as many items from the front as fit in a commit, up to the first that fails.
    fn take_items(
        &mut self,
        context: &mut Context<'_>,
        counting: &CountsUnderWay,
        replies: &mut Option<Replies>,
    ) -> Result<(), Unavailable> {
        let together = callback_items::up_to(self.rest.iter().map(|(_, it)| it), WORK_MAX);
        for _ in 0..together.count() {
            if context.effects.log.len() > LOG_BYTES_MAX
                || context.reads() + READS_OF_ITEM > READS_MAX
            {
                break;
            }
            if let Some((_, Item::Inbound(_, it))) = self.rest.front() {
                let known = known_replies(context, replies)?;
                if let Some((phone, at)) = not_looked_up(context, it, known)? {
                    let live = replies.take().unwrap_or_default().live;
                    self.wanted = Some(PossibleReply { phone, at, live });
                    break;
                }
            }
            let Some((field, item)) = self.rest.pop_front() else { break };
            let (before, may_repeat) = (context.effects.bytes(), item.may_repeat());
            take_item(context, item, (counting, replies.as_ref()), &mut self.news)?;
            let is_new = may_repeat || context.effects.bytes() > before;
            let outcome = if is_new { ItemOutcome::Taken } else { ItemOutcome::Repeated };
            if let Some(field) = field {
                *self.counts.entry((field, outcome)).or_default() += 1;
            }
        }
        Ok(())
    }
}

fn take_item(
    context: &mut Context<'_>,
    item: Item,
    (counting, replies): (&CountsUnderWay, Option<&Replies>),
    news: &mut CallbackNews,
) -> Result<(), Unavailable> {
    match item {
        Item::Report(number, it) => {
            if let Origin::Broadcast { broadcast, index } = it.origin {
                counting.changed(broadcast, index / WINDOW);
            }
            let before = context.effects.log_count;
            report(context, number, &it, news)?;
            if let (true, Progress::Failed(failure)) =
                (context.effects.log_count > before, it.status)
            {
                news.concerns_number(failure);
            }
        }
        Item::Inbound(number, it) => {
            news.files.extend(inbound_messages::take_message(context, number, &it, replies)?);
        }
        Item::IdentityChange(number, it) => identity_change::take_change(context, number, &it)?,
        Item::Facts(number, it, pace_set) => {
            number_facts::learn(context, number, &it, pace_set)?;
        }
        Item::Fault(number, it) => {
            if it.of_account {
                news.stop_too.extend(others_of_account(context, number));
            }
            news.concerns_number(emit_fault(context, number, it));
        }
        Item::Ignored(number, it) => emit_ignored(context, number, it),
        Item::Choice(it) => record_choice(context, &it)?,
        Item::Template(number, update) => {
            news.templates_outdated |= template_update::apply(context, number, &update)?;
        }
    }
    Ok(())
}

/// Returns the replies that were looked up beside the actor.
///
/// Without a look-up they are only the broadcasts that may be replied to, which are read once.
fn known_replies<'a>(
    context: &mut Context<'_>,
    replies: &'a mut Option<Replies>,
) -> Result<&'a Replies, Unavailable> {
    if replies.is_none() {
        let (workspace, now) = (context.core.id.clone(), context.now());
        let live = LiveBroadcasts::read(context.store(), &workspace, now).map_err(unreadable)?;
        live.forget_over(context);
        *replies = Some(Replies::unknown(live));
    }
    Ok(replies.get_or_insert_default())
}

/// Returns the phone and the moment of a possible reply that has not been looked up.
fn not_looked_up(
    context: &Context<'_>,
    inbound: &Inbound,
    replies: &Replies,
) -> Result<Option<(Phone, Timestamp)>, Unavailable> {
    if replies.live.is_empty() {
        return Ok(None);
    }
    let phone = inbound_messages::author_phone(context, inbound)?;
    Ok(phone
        .map(|phone| (phone, inbound.at))
        .filter(|(phone, at)| replies.of(*phone, *at).is_none()))
}

impl CallbackNews {
    /// Records a failure that may concern more than its message.
    fn concerns_number(&mut self, failure: Failure) {
        match failure.class {
            FailureClass::Account => self.fault = Some(failure),
            FailureClass::SpamLimit => self.spam = Some(failure),
            _ => {}
        }
    }
}

/// Stores a person's choice about marketing, for all names by which they are known.
fn record_choice(context: &mut Context<'_>, chosen: &MarketingChoice) -> Result<(), Unavailable> {
    let phone = chosen.parties.iter().find_map(PartyId::phone);
    let id = chosen.parties.iter().find_map(PartyId::user_id);
    if let Some((phone, id)) = phone.zip(id) {
        identity_merge::learn(context, phone, id, chosen.at)?;
    }
    let choice = if chosen.wanted { Choice::Resumed } else { Choice::Stopped };
    // The choice follows a change of names that was delivered first.
    let names = PartyNames { phone, user_id: id.cloned() };
    let now = known_names::current_names(context, names, chosen.at)?.parties();
    let names = [&chosen.parties[..], &now].concat();
    let proven = identity::proven_names(context, &names)?;
    for party in identity::everything_of(context, &names)? {
        // Anybody may write a phone into a contact: that opts nobody in again.
        if !chosen.wanted || identity::is_theirs(context, &proven, &party)? {
            note_choice(context, &party, choice, chosen.at)?;
        }
    }
    Ok(())
}

fn report(
    context: &mut Context<'_>,
    number: NumberId,
    update: &StatusUpdate,
    news: &mut CallbackNews,
) -> Result<(), Unavailable> {
    let StatusUpdate { origin, status, at, to, provider_id, .. } = update;
    let (to, written_at) = match *origin {
        Origin::Otp { request_id, number: message } => {
            otp::report(context, (request_id, message), number, (status, *at))?;
            let to = context.core.known(request_id).map(|otp| otp.phone.into());
            (to, request_id.timestamp())
        }
        Origin::Message(id) => {
            (messages::report(context, id, status, provider_id, *at)?, id.timestamp())
        }
        Origin::Broadcast { broadcast, index } => {
            let failure = broadcasts::report(context, broadcast, (index, number), update)?;
            news.failed.extend(failure.is_new.then_some((broadcast, index)));
            news.changed.extend(failure.changed);
            (to.map(PartyId::from), broadcast.timestamp())
        }
    };
    learn_names(context, number, (to, update), written_at)
}

/// Learns the provider's names of the recipient of a message, which was accepted at `at`.
fn learn_names(
    context: &mut Context<'_>,
    number: NumberId,
    (to, update): (Option<PartyId>, &StatusUpdate),
    at: Timestamp,
) -> Result<(), Unavailable> {
    let StatusUpdate { known_as, user_id, .. } = update;
    let phone = to.as_ref().and_then(PartyId::phone);
    if let Some((phone, known_as)) = phone.zip(*known_as) {
        identity_merge::learn_alias(context, number, phone, known_as, at)?;
    }
    let id = user_id.as_ref().or_else(|| to.as_ref().and_then(PartyId::user_id));
    match phone.or(*known_as).zip(id) {
        Some((phone, id)) => identity_merge::learn(context, phone, id, at),
        None => Ok(()),
    }
}
