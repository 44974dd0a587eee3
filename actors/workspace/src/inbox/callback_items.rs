//! What a callback tells, item by item.

use postrider_channel::callback::{
    ChannelFault, IdentityChange, IgnoredItems, Inbound, MarketingChoice, StatusUpdate,
    TemplateUpdate,
};
use postrider_domain::{NumberId, Phone, Timestamp};

use crate::broadcasts::reply_attribution::LiveBroadcasts;

/// One thing that a callback tells.
pub(super) enum Item {
    Report(NumberId, StatusUpdate),
    Inbound(NumberId, Inbound),
    IdentityChange(NumberId, IdentityChange),
    Choice(MarketingChoice),
    Template(TemplateUpdate),
    Fault(NumberId, ChannelFault),
    Ignored(NumberId, IgnoredItems),
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
