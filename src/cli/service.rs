//! Notifies the service manager of the server's state, by systemd's protocol.
//!
//! Without a service manager that requests it (`NOTIFY_SOCKET`), nothing is sent.

use sd_notify::NotifyState;

/// Notifies that the server accepts requests.
///
/// From now on the manager is also notified that the runtime still runs tasks. This happens three
/// times in the period after which the manager would end the process (`WATCHDOG_USEC`).
pub(super) fn ready() {
    notify(&[NotifyState::Ready]);
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    // A task of its own, because the runtime's workers run it only while they take tasks.
    tokio::spawn(async move {
        loop {
            notify(&[NotifyState::Watchdog]);
            tokio::time::sleep(limit / 3).await;
        }
    });
}

/// Notifies that the server starts to stop.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}
