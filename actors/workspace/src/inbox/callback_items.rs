//! The contents of a callback, item by item, and the keys by which repeated messages are known.

use std::collections::VecDeque;

use postrider_channel::Origin;
use postrider_channel::callback::{
    Callback, ChannelFault, IdentityChange, IgnoredItems, Inbound, MarketingChoice, Progress,
    StatusUpdate, TemplateNews, TemplateUpdate,
};
use postrider_channel::cloud_api::items::FieldNumber;
use postrider_channel::number_facts::NumberFacts;
use postrider_domain::{MessageId, NumberId, Phone, Timestamp, WorkspaceId};

use crate::broadcasts::replies::LiveBroadcasts;

/// Returns the key by which a message that a callback repeats is known, or the prefix of all.
///
/// The keys are in [`Table::Received`](postrider_store::Table::Received).
pub(super) fn received_key(workspace: &WorkspaceId, id: Option<MessageId>) -> Vec<u8> {
    let id = id.as_ref().map_or(&[][..], |id| id.as_bytes());
    [workspace.as_str().as_bytes(), &[0], id].concat()
}

/// One item of a callback.
pub(super) enum Item {
    Report(NumberId, StatusUpdate),
    Inbound(NumberId, Box<Inbound>),
    IdentityChange(NumberId, IdentityChange),
    Choice(MarketingChoice),
    Template(NumberId, TemplateUpdate),
    /// The facts come with the pace of the settings.
    Facts(NumberId, NumberFacts, Option<u32>),
    Fault(NumberId, ChannelFault),
    Ignored(NumberId, IgnoredItems),
}

/// An item, with the field that it is counted under, if there is one.
pub(super) type FieldItem = (Option<FieldNumber>, Item);

/// Returns the items of a callback's parts in the order of processing, and the ignored items.
///
/// `pace_set` is the pace of the settings.
pub(super) fn in_order(
    number: NumberId,
    parts: Vec<(Option<FieldNumber>, Callback)>,
    pace_set: Option<u32>,
) -> (VecDeque<FieldItem>, Vec<IgnoredItems>) {
    let (mut items, mut after, mut ignored) = (VecDeque::new(), Vec::new(), Vec::new());
    let mut of_people = Vec::new();
    let mut inbound = Vec::new();
    for (field, callback) in parts {
        let counted = |item| (field, item);
        let reports = callback.statuses.into_iter().map(|it| Item::Report(number, it));
        items.extend(reports.map(counted));
        let wrote = callback.inbound.into_iter();
        let wrote = wrote.map(|it| Item::Inbound(number, Box::new(it.clipped())));
        inbound.extend(wrote.map(counted));
        let changed = callback.identity_changes.into_iter();
        of_people.extend(changed.map(|it| (it.at, (field, Item::IdentityChange(number, it)))));
        // A choice moves along with its person only if it was made before their change.
        let choices = callback.choices.into_iter();
        of_people.extend(choices.map(|it| (Some(it.at), (field, Item::Choice(it)))));
        let templates = callback.templates.into_iter().map(|it| Item::Template(number, it));
        after.extend(templates.map(counted));
        let facts = callback.facts.into_iter().map(|it| Item::Facts(number, it, pace_set));
        after.extend(facts.map(counted));
        let errors = callback.errors.into_iter().map(|it| Item::Fault(number, it));
        after.extend(errors.map(counted));
        ignored.extend(callback.ignored);
    }
    of_people.sort_by_key(|(at, _)| *at);
    items.extend(inbound);
    items.extend(of_people.into_iter().map(|(_, item)| item));
    items.extend(after);
    (items, ignored)
}

impl Item {
    /// Returns whether the item may change nothing even when it arrives for the first time.
    ///
    /// The response to a message has already reported it as sent. A change of components only has
    /// its template listed again.
    pub(super) fn may_repeat(&self) -> bool {
        match self {
            Self::Report(_, it) => {
                it.status == Progress::Sent && !matches!(it.origin, Origin::Broadcast { .. })
            }
            Self::Template(_, update) => update.news == TemplateNews::Components,
            _ => false,
        }
    }

    /// Returns whether it is a message about another one, which must be looked up.
    pub(super) fn is_about_another(&self) -> bool {
        matches!(self, Self::Inbound(_, inbound) if inbound.about.is_some())
    }

    /// Returns the amount of the actor's work for the item.
    ///
    /// A report changes one message. The others may change a contact, a conversation and their
    /// records.
    const fn work(&self) -> usize {
        match self {
            Self::Report(..) => 1,
            _ => 2,
        }
    }
}

/// Returns the first items, up to this amount of work.
pub(super) fn up_to<'a>(
    items: impl Iterator<Item = &'a Item>,
    work_max: usize,
) -> impl Iterator<Item = &'a Item> {
    let mut work = 0;
    items.take_while(move |item| {
        work += item.work();
        work <= work_max
    })
}

/// A message whose possible originals must be looked up beside the actor, as it may be a reply.
#[derive(Debug)]
pub(super) struct PossibleReply {
    /// The writer's phone.
    pub(super) phone: Phone,
    /// The time of writing.
    pub(super) at: Timestamp,
    /// The broadcasts that the message may reply to.
    pub(super) live: LiveBroadcasts,
}
