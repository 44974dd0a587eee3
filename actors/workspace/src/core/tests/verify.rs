//! Tests of the comparison of a submitted code.

use crate::core::tests::*;

fn wrong(attempts_remaining: u8) -> Result<Verification, VerifyOtpError> {
    Ok(Verification::Wrong { attempts_remaining })
}

#[test]
fn the_right_code_is_accepted_once() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    let code = bench.code(id);
    assert_eq!(bench.verify(id, &code), Ok(Verification::Verified));
    assert_eq!(bench.verify(id, &code), Err(VerifyOtpError::AlreadyVerified));
    assert_eq!(bench.verify(id, "0"), Err(VerifyOtpError::AlreadyVerified));
    assert_eq!(bench.kinds(), ["otp.sent", "otp.verified"]);
    bench.pass(10 * MINUTE);
    assert_eq!(bench.verify(id, &code), Err(VerifyOtpError::AlreadyVerified));
    assert_eq!(bench.read(id).unwrap().status, OtpStatus::Verified);
}

#[test]
fn the_fifth_wrong_code_ends_it() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    let (right, bad) = (bench.code(id), bench.wrong_code(id));
    for left in (1..5).rev() {
        assert_eq!(bench.verify(id, &bad), wrong(left));
        assert_eq!(bench.read(id).unwrap().attempts_remaining, left);
    }
    assert_eq!(bench.kinds(), ["otp.sent"]);
    assert_eq!(bench.verify(id, &bad), Err(VerifyOtpError::MaxAttempts));
    let events = bench.events().len();
    assert_eq!(bench.verify(id, &right), Err(VerifyOtpError::MaxAttempts));
    assert_eq!(bench.events().len(), events, "a verification of an ended request is no event");
    let state = bench.read(id).unwrap();
    assert_eq!((state.status, state.attempts_remaining), (OtpStatus::Invalidated, 0));
    assert_eq!(bench.kinds(), ["otp.sent", "otp.failed"]);
    bench.pass(10 * MINUTE);
    assert_eq!(bench.verify(id, &right), Err(VerifyOtpError::MaxAttempts), "not: expired");
}

#[test]
fn the_right_code_is_good_after_four_wrong_ones() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    for _ in 0..4 {
        bench.verify(id, &bench.wrong_code(id)).unwrap();
    }
    assert_eq!(bench.verify(id, &bench.code(id)), Ok(Verification::Verified));
}

#[test]
fn what_is_not_a_code_costs_an_attempt() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    let right = bench.code(id);
    let near = [format!("{right}0"), right[1..].to_owned(), "letters".to_owned(), " ".to_owned()];
    for (text, left) in near.iter().zip((1..5).rev()) {
        assert_eq!(bench.verify(id, text), wrong(left), "{text:?}");
    }
}

#[test]
fn it_expires_at_the_exact_millisecond() {
    let mut bench = Bench::new();
    bench.pass(Duration::from_millis(123));
    let early = bench.send(phone(1)).unwrap().request_id;
    let late = bench.send(phone(2)).unwrap().request_id;
    bench.pass(5 * MINUTE - MS);
    assert_eq!(bench.verify(early, &bench.code(early)), Ok(Verification::Verified));
    bench.pass(MS);
    assert_eq!(bench.verify(late, &bench.code(late)), Err(VerifyOtpError::Expired));
    assert_eq!(bench.read(late).unwrap().status, OtpStatus::Expired);
}

#[test]
fn it_is_known_for_an_hour_after_its_expiry() {
    let mut bench = Bench::new();
    let sent = bench.send(phone(1)).unwrap();
    let id = sent.request_id;
    let code = bench.code(id);
    bench.pass(5 * MINUTE + HOUR - MS);
    assert_eq!(bench.verify(id, &code), Err(VerifyOtpError::Expired));
    bench.pass(MS);
    assert_eq!(bench.verify(id, &code), Err(VerifyOtpError::NotFound));
    assert_eq!(bench.read(id), Err(ReadOtpError::NotFound));
    assert_eq!(bench.resend(id), Err(ResendOtpError::Ended(VerifyOtpError::NotFound)));
}

#[test]
fn an_unknown_request_is_not_found() {
    let mut bench = Bench::new();
    let id = RequestId::from_parts(START, 99);
    assert_eq!(bench.verify(id, "123456"), Err(VerifyOtpError::NotFound));
    assert!(bench.events().is_empty());
}

#[test]
fn a_code_of_an_older_master_key_is_good_until_the_key_is_dropped() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    let code = bench.code(id);
    let keys = |versions: &[u8]| {
        let keys = versions.iter().map(|version| (*version, [version + 6; 32]));
        MasterKeys::new(keys).unwrap().code_keys(&"acme".parse().unwrap())
    };
    bench.core.keys = keys(&[2]);
    let before = bench.events().len();
    assert_eq!(bench.verify(id, &code), Err(VerifyOtpError::Expired));
    assert_eq!(bench.resend(id), Err(ResendOtpError::Ended(VerifyOtpError::Expired)));
    assert_eq!(bench.events().len(), before, "neither an attempt nor a credit is used");
    bench.core.keys = keys(&[1, 2]);
    let newer = bench.send(phone(1)).unwrap().request_id;
    assert_eq!(bench.core.hot.otps.get(newer).unwrap().key_version, 2);
    assert_eq!(bench.verify(id, &code), Ok(Verification::Verified));
}

#[test]
fn the_log_never_carries_a_code() {
    let mut bench = Bench::unlimited();
    for number in 0..50 {
        let id = bench.send(phone(number)).unwrap().request_id;
        // All others are zeros and fives, so six digits of a code are found if they are there.
        let code = bench.code(id);
        bench.verify(id, &bench.wrong_code(id)).unwrap();
        bench.verify(id, &code).unwrap();
        let own = bench.log.split_off(0);
        for entry in own {
            let mut data = entry.event.data();
            for public in ["request_id", "phone", "expires_at"] {
                data.as_object_mut().unwrap().remove(public);
            }
            assert!(!data.to_string().contains(&code), "{data}");
            assert!(!format!("{:?}", entry.event).contains(&code));
        }
        let debug = format!("{:?}", bench.outbound.last().unwrap());
        assert!(debug.contains("CodeKey(…)") && !debug.contains(&phone(number).to_string()));
    }
}
