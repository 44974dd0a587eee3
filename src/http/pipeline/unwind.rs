//! Converts panics to answers.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;

use super::error::ApiError;

/// Runs a handler and converts a panic to an error.
pub(super) async fn catch_unwind<T>(
    handler: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let mut handler = pin!(handler);
    std::future::poll_fn(|context| {
        catch_panic(|| handler.as_mut().poll(context))
            .unwrap_or_else(|error| Poll::Ready(Err(error)))
    })
    .await
}

/// Runs `step` and converts a panic to an error.
pub(super) fn catch_panic<T>(step: impl FnOnce() -> T) -> Result<T, ApiError> {
    // A handler that panicked is dropped, so its own state is never used half-changed. The state
    // that it shares belongs to the engine, which stays consistent by itself.
    std::panic::catch_unwind(AssertUnwindSafe(step)).map_err(|panic| {
        tracing::error!(panic = panic_text(&*panic), "a request's handling panicked");
        ApiError::internal()
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::super::error::Code;
    use super::super::reply::Reply;
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_answer() {
        let answer = catch_unwind::<Reply>(async { panic!("no") }).await;
        assert_eq!(answer.unwrap_err().code(), Code::ServerError);
        let answer = catch_unwind(async { Ok(Reply::no_content()) }).await;
        assert_eq!(answer.unwrap().status(), 204);
        let admitted = catch_panic(|| -> Reply { panic!("no") });
        assert_eq!(admitted.err().map(|error| error.code()), Some(Code::ServerError));
    }
}
