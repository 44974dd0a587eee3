//! Hands mails to the mail server.
//!
//! A mail is claimed in a commit before it is handed over, and its outcome is recorded in another
//! one. A mail whose claim outlived its process may have left: it is `unknown`, and is not handed
//! over again.

use crate::mailer_state::{Mailer, Place};
use postrider_store::view::codec;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::Workspace;
use crate::services::Services;
use postrider_channel::email::{MailOptions, hand_over};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{MessageId, Timestamp};
use postrider_runtime::hold::TENURE_AGAIN_AFTER;
use postrider_store::{Direction, StoreError, Table, View};

use crate::email::outgoing::{Claim, Queued, SettleMail};

/// The number of mails that are handed over at a time.
const AT_ONCE: usize = 8;
/// The number of tries to record a mail's outcome while storage fails.
const SETTLE_TRIES: usize = 20;

impl Mailer {
    /// Starts to hand over the due mails.
    pub fn beat(shared: &Arc<Services>) {
        let mailer = &shared.mailer;
        let Some(options) = &mailer.options else { return };
        if !shared.hold.lets_out() {
            return;
        }
        if mailer.stopping.load(Ordering::Acquire) || mailer.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (shared, options) = (Arc::clone(shared), options.clone());
        drop(tokio::spawn(async move {
            let (store, now) = (Arc::clone(&shared.store), shared.clock.now());
            let busy = shared.mailer.busy.lock().clone();
            let free = AT_ONCE.saturating_sub(busy.len());
            let look = move || due(store.as_ref(), now, &busy, free);
            match tokio::task::spawn_blocking(look).await {
                Ok(Ok(due)) => due.into_iter().for_each(|place| begin(&shared, &options, place)),
                Ok(Err(error)) => tracing::error!(%error, "the queue of mails cannot be read"),
                Err(_) => {}
            }
            shared.mailer.looking.store(false, Ordering::Release);
        }));
    }

    /// Starts nothing more, and waits for the running hand-overs.
    pub async fn stop(&self) {
        const LOOK: Duration = Duration::from_millis(20);
        self.stopping.store(true, Ordering::Release);
        while !self.busy.lock().is_empty() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Returns some mails that are due and not being handed over.
fn due(
    store: &dyn View,
    now: Timestamp,
    busy: &HashSet<Place>,
    most: usize,
) -> Result<Vec<Place>, StoreError> {
    let mut due = Vec::new();
    store.scan(Table::MailQueue, &[], None, Direction::Forward, &mut |key, value| {
        if due.len() >= most {
            return ControlFlow::Break(());
        }
        let is_due = codec::decode(value).is_ok_and(|queued: Queued| queued.next_at <= now);
        if let (true, Some(place)) = (is_due, place_of(key))
            && !busy.contains(&place)
        {
            due.push(place);
        }
        ControlFlow::Continue(())
    })?;
    Ok(due)
}

fn place_of(key: &[u8]) -> Option<Place> {
    let (rest, id) = key.split_last_chunk()?;
    let workspace = std::str::from_utf8(rest.strip_suffix(&[0])?).ok()?;
    Some((workspace.parse().ok()?, MessageId::from_bytes(*id)))
}

fn begin(shared: &Arc<Services>, options: &MailOptions, place: Place) {
    if !shared.mailer.busy.lock().insert(place.clone()) {
        return;
    }
    // A server's delay must not keep a dropped engine alive.
    let (shared, options) = (Arc::downgrade(shared), options.clone());
    drop(tokio::spawn(async move {
        if let Err(error) = deliver(&shared, &options, &place).await {
            tracing::warn!(workspace = %place.0, message = %place.1, %error, "a mail waits");
        }
        if let Some(shared) = shared.upgrade() {
            shared.mailer.busy.lock().remove(&place);
        }
    }));
}

/// Waits until mails may leave. Returns `false` when the engine stops.
///
/// In that case a claimed mail stays claimed: the next owner reports it as unknown.
async fn may_leave(shared: &Weak<Services>) -> bool {
    loop {
        let Some(services) = shared.upgrade() else { return false };
        if services.hold.lets_out() {
            return true;
        }
        if services.mailer.stopping.load(Ordering::Acquire) {
            return false;
        }
        let clock = services.clock.clone();
        drop(services);
        clock.sleep_until(clock.now().plus(TENURE_AGAIN_AFTER)).await;
    }
}

async fn deliver(
    shared: &Weak<Services>,
    options: &MailOptions,
    (workspace, id): &Place,
) -> Result<(), Unavailable> {
    let find = || {
        let shared = shared.upgrade()?;
        let slot = shared.workspaces.slot(workspace)?;
        Some(Workspace::new(shared, slot))
    };
    let Some(handle) = find() else { return Ok(()) };
    let claimed = handle.perform(Claim(*id)).await?;
    drop(handle);
    let Some(mail) = claimed else { return Ok(()) };
    if !may_leave(shared).await {
        return Ok(());
    }
    let mailed = hand_over(options, &mail).await;
    let mut tries = 0;
    loop {
        let Some(handle) = find() else { return Ok(()) };
        let settled = handle.perform(SettleMail(*id, mailed.clone())).await;
        drop(handle);
        tries += 1;
        match settled {
            Err(why) if why.reason != UnavailableReason::Draining && tries < SETTLE_TRIES => {
                tokio::time::sleep(why.retry_after).await;
            }
            settled => return settled,
        }
    }
}
