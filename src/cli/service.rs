//! Notifies the service manager how the server is, by systemd's protocol. Without a service manager
//! that asks for it (`NOTIFY_SOCKET`), nothing is sent.

use sd_notify::NotifyState;

/// The server takes requests. From now on the manager also hears that the runtime still runs
/// tasks, three times in the time after which it would end the process (`WATCHDOG_USEC`).
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

/// The server begins to stop.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}
