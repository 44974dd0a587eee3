//! Tests of the paths that need a caller, and of the end of a stream that nobody confirms.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use super::*;

fn session() -> RemoteSession {
    let session = json!({
        "id": "ses_01jd3v0x5n8m7k2q4r6s8t0w2y",
        "holder": {"admin_token": {"id": null, "name": null}},
        "hash": vec![0; 32],
        "created_at": 1_000,
        "seen_at": 1_000,
        "ends_at": 1_000_000,
        "user_agent": "test",
        "address": "192.0.2.7",
        "elevated_until": null,
    });
    serde_json::from_value(json!({"session": session, "person": null})).unwrap()
}

/// Follows a session, and returns the number of seconds after which that ends.
async fn ends_after<F: Future<Output = Said>>(asks: impl Fn() -> F) -> u32 {
    let signed_in = session().signed_in();
    let seconds = AtomicU32::new(0);
    let counting = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            seconds.fetch_add(1, Ordering::Relaxed);
        }
    };
    tokio::select! {
        biased;
        () = counting => {}
        () = follow(Watched::of(&signed_in), asks) => {}
    }
    seconds.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_half_a_minute_after_the_last_answer_and_with_its_session() {
    // The duration of each try makes no difference.
    for takes in [0, 2, 600] {
        let asked = AtomicU32::new(0);
        let asks = || async {
            if asked.fetch_add(1, Ordering::Relaxed) < 3 {
                return Some(Some(session()));
            }
            tokio::time::sleep(Duration::from_secs(takes)).await;
            None
        };
        assert_eq!(ends_after(asks).await, 3 * 5 + 30, "{takes} s");
    }
    assert_eq!(ends_after(|| async { Some(None) }).await, 5);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_once_the_request_has_ended() {
    let signed_in = session().signed_in();
    let watched = Watched::of(&signed_in);
    drop(signed_in);
    follow(watched, || async { panic!("it is asked") }).await;
}

#[test]
fn only_members_and_invites_are_of_people() {
    let named = |path: &str| workspace_of_people(path).map(|id| id.to_string());
    assert_eq!(named("/admin/v1/workspaces/acme/members").as_deref(), Some("acme"));
    assert_eq!(named("/admin/v1/workspaces/acme/invites/inv_1").as_deref(), Some("acme"));
    for other in ["/admin/v1/workspaces/acme", "/admin/v1/workspaces/acme/membersx", "/v1/me"] {
        assert_eq!(named(other), None, "{other}");
    }
}

#[test]
fn nobody_is_asked_who_reads_what_is_for_anybody() {
    for path in ["/v1/me", "/v1/events/stream", "/admin/v1/overview", "/ui/api/session"] {
        assert!(needs_a_caller(path), "{path}");
    }
    for path in ["/", "/ui", "/ui/assets/app.js", "/docs", "/openapi.json", "/channels/email/acme"]
    {
        assert!(!needs_a_caller(path), "{path}");
    }
}
