//! What a callback tells, item by item.

use postrider_channel::callback::{
    ChannelFault, IdentityChange, IgnoredItems, Inbound, MarketingChoice, StatusUpdate,
    TemplateUpdate,
};
use postrider_channel::number_facts::NumberFacts;
use postrider_domain::{NumberId, Phone, Timestamp};

use crate::broadcasts::reply_attribution::LiveBroadcasts;

/// One thing that a callback tells.
pub(super) enum Item {
    Report(NumberId, StatusUpdate),
    Inbound(NumberId, Inbound),
    IdentityChange(NumberId, IdentityChange),
    Choice(MarketingChoice),
    Template(TemplateUpdate),
    /// With the pace of the settings.
    Facts(NumberId, NumberFacts, Option<u32>),
    Fault(NumberId, ChannelFault),
    Ignored(NumberId, IgnoredItems),
}

impl Item {
    /// How much the actor has to do for it. A report changes one message; the others may change a
    /// contact, a conversation and what belongs to them.
    const fn work(&self) -> usize {
        match self {
            Self::Report(..) => 1,
            _ => 2,
        }
    }
}

/// The first items, which are no more work than that.
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

/// A message of which it must be looked up, beside the actor, what it may be a reply to.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The writer's phone.
    pub(super) phone: Phone,
    /// When it was written.
    pub(super) at: Timestamp,
    /// The broadcasts that may be replied to.
    pub(super) live: LiveBroadcasts,
}
