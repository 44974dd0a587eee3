//! Pure: the quotas of a workspace: the bytes and broadcasts that it may keep.
//!
//! They are compared with what is committed. So commands that race may pass a quota together; it
//! refuses the commands after them.

use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_store::Usage;

/// Checks whether the workspace may have more bytes.
///
/// # Errors
/// [`UnavailableReason::QuotaBytes`], or the store cannot be read.
pub(crate) fn check_bytes(context: &Context<'_>) -> Result<(), Unavailable> {
    let allowed = context.core.rules.limits.bytes_max;
    if allowed == 0 {
        return Ok(());
    }
    let used = Usage::of(context.store(), &context.core.id).map_err(unreadable)?.bytes;
    match used < allowed {
        true => Ok(()),
        false => Err(Unavailable::because(UnavailableReason::QuotaBytes { used, allowed })),
    }
}

/// Checks whether the workspace may have another broadcast.
///
/// # Errors
/// [`UnavailableReason::QuotaBroadcasts`], or the store cannot be read.
pub(crate) fn check_broadcasts(context: &Context<'_>) -> Result<(), Unavailable> {
    let allowed = u64::from(context.core.rules.limits.broadcasts_kept_max);
    if allowed == 0 {
        return Ok(());
    }
    let used = Usage::of(context.store(), &context.core.id).map_err(unreadable)?.broadcasts;
    match used < allowed {
        true => Ok(()),
        false => Err(Unavailable::because(UnavailableReason::QuotaBroadcasts { used, allowed })),
    }
}
