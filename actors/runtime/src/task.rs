//! Work beside its caller: on a blocking thread, or completed even if the caller is cancelled.
//!
//! Both give tokio one type of task each, whatever the work is. The compiler translates a thousand
//! lines of tokio for each type of task. A hundred kinds of reads and changes come through here.
//!
//! A thread that computes without pause lowers its own priority.

use postrider_domain::{Unavailable, UnavailableReason};
use tokio::sync::oneshot;

/// A boxed future, for methods of traits that are used as objects.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs `work` to its end, even if its caller is dropped in the middle.
///
/// # Errors
/// The errors of `work`; [`UnavailableReason::Restarting`] if it panicked or the runtime shuts
/// down.
pub async fn detached<T, E>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Unavailable> + Send + 'static,
{
    let (sender, result) = oneshot::channel();
    let work: BoxFuture<'static, ()> = Box::pin(async move {
        // The caller may go away while it runs.
        drop(sender.send(work.await));
    });
    drop(tokio::spawn(work));
    let lost = || Err(Unavailable::because(UnavailableReason::Restarting).into());
    result.await.unwrap_or_else(|_| lost())
}

/// Runs `work` on a thread that may block, to its end.
///
/// # Errors
/// [`Lost`]: `work` panicked, or the runtime shuts down.
pub fn blocking<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
    work: W,
) -> impl Future<Output = Result<T, Lost>> + use<T, W> {
    let (sender, result) = oneshot::channel();
    let work: Box<dyn FnOnce() + Send> = Box::new(move || {
        // The caller may go away while it runs.
        drop(sender.send(work()));
    });
    drop(tokio::task::spawn_blocking(work));
    async move { result.await.map_err(|_| Lost) }
}

/// The error of work on a blocking thread that panicked, or of a runtime that shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the work did not end")]
pub struct Lost;

/// The niceness of a thread that computes without pause. Beside a thread of the usual priority it
/// gets about a tenth of a core.
#[cfg(target_os = "linux")]
pub(crate) const NICENESS: i32 = 10;

/// Lowers the priority of this thread. Only a privileged thread gets its priority back.
#[cfg(target_os = "linux")]
pub fn lower_priority() {
    // On Linux a niceness belongs to a thread. Work at the usual priority is right too.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "a thread runs at the usual priority");
    }
}

/// Does nothing: elsewhere a niceness belongs to the whole process.
#[cfg(not(target_os = "linux"))]
pub const fn lower_priority() {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn work_goes_on_when_its_caller_is_dropped() {
        let (may, (done, seen)) = (Arc::new(Notify::new()), oneshot::channel());
        let goes = Arc::clone(&may);
        let mut calling = Box::pin(detached(async move {
            goes.notified().await;
            done.send(()).map_err(|()| Unavailable::because(UnavailableReason::Restarting))
        }));
        let begun = tokio::select! {
            biased;
            _ = &mut calling => false,
            () = std::future::ready(()) => true,
        };
        assert!(begun, "it waits");
        drop(calling);
        may.notify_one();
        seen.await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let work = detached::<(), Unavailable>(async { panic!("no") });
        assert_eq!(work.await, Err(Unavailable::because(UnavailableReason::Restarting)));
        assert_eq!(blocking(|| -> u8 { panic!("no") }).await, Err(Lost));
    }

    /// A caller may rely on this: its next step never meets a value that the work still holds.
    #[tokio::test]
    async fn the_work_has_let_go_of_what_it_had_before_it_is_answered() {
        for _ in 0..100 {
            let held = Arc::new(());
            let (one, other) = (Arc::clone(&held), Arc::clone(&held));
            blocking(move || assert!(Arc::strong_count(&one) > 1)).await.unwrap();
            let work = async move { Ok::<_, Unavailable>(Arc::strong_count(&other) > 1) };
            assert!(detached(work).await.unwrap());
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }
}
