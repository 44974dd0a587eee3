//! Work that must not stop halfway when its caller is cancelled.

use postrider_domain::{Unavailable, UnavailableReason};

/// A boxed future, for methods of traits that are used as objects.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs `work` to its end, even if its caller is dropped in the middle.
///
/// # Errors
/// Those of `work`; [`UnavailableReason::Restarting`] when it panicked or the runtime shuts down.
pub async fn detached<T, E>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Unavailable> + Send + 'static,
{
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(_) => Err(Unavailable::because(UnavailableReason::Restarting).into()),
    }
}
