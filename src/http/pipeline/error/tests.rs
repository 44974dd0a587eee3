//! Tests of the form of error answers.

use postrider_actors::{SendOtpError, Unavailable, UnavailableReason, VerifyOtpError};

use super::*;

fn answer(error: impl Into<ApiError>) -> (u16, serde_json::Value, Option<String>) {
    let response = error.into().into_reply("r-1", &Help::default()).into_response();
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let body = http_body_util::BodyExt::collect(response.into_body());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let body = runtime.block_on(body).unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap(), retry_after)
}

#[test]
fn the_shape_is_the_documented_one() {
    let (status, body, retry_after) = answer(VerifyOtpError::Expired);
    assert_eq!(status, 422);
    assert_eq!(
        body,
        serde_json::json!({
            "error": "Unprocessable",
            "message": "the one-time password has expired",
            "code": "OTP_EXPIRED",
            "request_id": "r-1",
        })
    );
    assert_eq!(retry_after, None);
}

#[test]
fn what_may_be_tried_again_says_when() {
    let wait = Duration::from_millis(11_001);
    let (status, body, retry_after) = answer(SendOtpError::PhoneLimit { retry_after: wait });
    assert_eq!((status, body["code"].as_str()), (429, Some("OTP_RATE_LIMITED")));
    assert_eq!((body["retry_after"].as_u64(), retry_after.as_deref()), (Some(12), Some("12")));
    for &code in Code::ALL {
        let (status, body, retry_after) = answer(ApiError::new(code, "m"));
        let retryable = [429, 500, 503].contains(&status);
        assert_eq!(body["retry_after"].as_u64(), retryable.then_some(1), "{code:?}");
        assert_eq!(retry_after.is_some(), retryable, "{code:?}");
    }
}

#[test]
fn a_parked_workspace_hides_the_reason_from_its_clients() {
    let reason = UnavailableReason::Parked("frame 7 is damaged".to_owned());
    let (status, body, _) = answer(Unavailable::because(reason));
    assert_eq!(status, 503);
    assert!(!body["message"].as_str().unwrap().contains("frame"));
}

#[test]
fn every_503_of_the_engine_says_its_reason() {
    for (reason, expected) in [
        (UnavailableReason::Overloaded, "overloaded"),
        (UnavailableReason::Draining, "draining"),
        (UnavailableReason::Storage, "storage_failed"),
        (UnavailableReason::Restarting, "outcome_unknown"),
        (UnavailableReason::Parked("frame 7".to_owned()), "damaged"),
        (UnavailableReason::ChannelDown, "provider_failed"),
        (UnavailableReason::DiskFull, "disk_full"),
        (UnavailableReason::Held, "held"),
    ] {
        let (status, body, _) = answer(Unavailable::because(reason));
        assert_eq!((status, body["reason"].as_str()), (503, Some(expected)));
    }
}
