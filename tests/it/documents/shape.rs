//! Compares the output that a document shows with what came: all but what differs each time.

use serde_json::Value;

use super::markdown::Fence;

/// Keys of numbers that differ each time.
const VARYING: [&str; 6] =
    ["latency_ms", "rate_per_second", "bytes", "log_position", "view_position", "view_synced"];

/// Says how what came differs from what is shown.
pub fn compare(shown: &Fence, came: &str) -> Result<(), String> {
    let same = match shown.language.as_str() {
        "json" => same_json(&shown.text, came),
        _ => same_text(&shown.text, came),
    };
    same.map_err(|why| format!("{why}; shown:\n{}came:\n{came}", shown.text))
}

/// Each value must have the same keys, and the same texts and numbers where they are not made anew.
fn same_json(shown: &str, came: &str) -> Result<(), String> {
    let values = |text: &str| {
        let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        values.collect::<Result<Vec<_>, _>>().map_err(|error| format!("not JSON: {error}"))
    };
    same_value("", &Value::Array(values(shown)?), &Value::Array(values(came)?))
}

fn same_value(at: &str, shown: &Value, came: &Value) -> Result<(), String> {
    let key = at.rsplit('/').next().unwrap_or_default();
    let is_same = match (shown, came) {
        (Value::Object(shown), Value::Object(came)) => {
            for (key, value) in shown {
                let other = came.get(key).ok_or_else(|| format!("{at} has no {key}"))?;
                same_value(&format!("{at}/{key}"), value, other)?;
            }
            let new = came.keys().find(|key| !shown.contains_key(*key));
            return new.map_or(Ok(()), |key| Err(format!("{at}/{key} is not shown")));
        }
        (Value::Array(shown), Value::Array(came)) if shown.len() == came.len() => {
            for (index, (value, other)) in shown.iter().zip(came).enumerate() {
                same_value(&format!("{at}/{index}"), value, other)?;
            }
            true
        }
        (Value::String(shown), Value::String(came)) => lasting(shown) == lasting(came),
        (Value::Number(_), Value::Number(_)) if VARYING.contains(&key) => true,
        _ => shown == came,
    };
    if is_same { Ok(()) } else { Err(format!("{at} is {came}, not {shown}")) }
}

/// Each line that is shown must come, in this order; others may come between them.
fn same_text(shown: &str, came: &str) -> Result<(), String> {
    let mut came = came.lines().map(lasting);
    for line in shown.lines() {
        let wanted = lasting(line);
        came.find(|line| *line == wanted).ok_or_else(|| format!("{line:?} does not come"))?;
    }
    Ok(())
}

/// A text with `#` for every number and every word that has a digit, and with single spaces: ids,
/// times and counts are other ones each time.
fn lasting(text: &str) -> String {
    text.split_whitespace().map(lasting_word).collect::<Vec<_>>().join(" ")
}

fn lasting_word(word: &str) -> String {
    // Secrets and keys are Base64, whose parts may have no digit.
    if let Some((before, _)) = word.split_once("whsec_") {
        return format!("{before}whsec_");
    }
    if let Some(prefix) = ["pr_", "pra_"].into_iter().find(|prefix| word.starts_with(prefix)) {
        return prefix.to_owned();
    }
    let chars: Vec<_> = word.chars().collect();
    let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    // A point or comma between two digits is a part of their number.
    let is_part = |at: usize| chars[at].is_alphanumeric() || (is_digit(at - 1) && is_digit(at + 1));
    let mut kept = String::new();
    let mut at = 0;
    while at < chars.len() {
        let start = at;
        while at < chars.len() && (chars[at].is_alphanumeric() || (at > start && is_part(at))) {
            at += 1;
        }
        let run = &chars[start..at];
        match run.iter().any(char::is_ascii_digit) {
            true => kept.push('#'),
            false => kept.extend(run),
        }
        if let Some(other) = chars.get(at) {
            kept.push(*other);
            at += 1;
        }
    }
    kept
}

#[test]
fn what_is_made_anew_does_not_matter_and_all_else_does() {
    let shown = r#"{"id": "otp_01abc", "at": "2026-01-31T09:25:00.000Z", "n": 1, "latency_ms": 3,
        "list": [{"status": "sent"}], "none": null}"#;
    let other = r#"{"id":"otp_0zzzz","at":"2027-11-01T19:05:10.200Z","n":1,"latency_ms":40,
        "list":[{"status":"sent"}],"none":null}"#;
    assert_eq!(same_json(shown, other), Ok(()));
    for (from, to) in [
        ("otp_0", "msg_0"),
        ("\"n\":1", "\"n\":2"),
        ("sent", "failed"),
        ("null", "\"x\""),
        ("[{\"status\":\"sent\"}]", "[]"),
        ("\"none\"", "\"other\""),
        ("{\"id\"", "{\"new\":1,\"id\""),
    ] {
        assert!(same_json(shown, &other.replace(from, to)).is_err(), "{from} {to}");
    }
    assert!(same_json(shown, &format!("{other}{other}")).is_err());
}

#[test]
fn lines_come_in_their_order() {
    let came = "KEY     a1b2\nready in 31 ms\nend\n";
    assert_eq!(same_text("KEY  zz9\nend\n", came), Ok(()));
    assert!(same_text("end\nKEY zz9\n", came).is_err());
    for (one, other) in [
        ("whsec_ab+c/d=", "whsec_xy1/+Z"),
        ("pr_ab-c_d", "pr_x1"),
        ("took  1,500.25 ms", "took 7 ms"),
        ("otp_01abc: +1555.", "otp_9zz: +4."),
    ] {
        assert_eq!(lasting(one), lasting(other));
    }
    assert_ne!(lasting("1 sent"), lasting("1 failed"));
}
