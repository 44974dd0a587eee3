//! The audit log over all shards: each shard has its own chain, and reads merge them by time.

use std::collections::VecDeque;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::asking::PEOPLE;
use super::front::Inner;
use crate::http::{ApiError, LIMIT_DEFAULT, LIMIT_MAX, Query, decode_cursor, encode_cursor};

/// The first byte of a cursor over all shards, and of a cursor of a verification.
const OF_ALL: u8 = 2;
const OF_CHECK: u8 = 3;
/// The maximum number of consecutive parts without a record that are read of a shard.
const EMPTY_PARTS_MAX: usize = 20;

/// The position up to which a shard was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing was read.
    Beginning,
    /// Records up to this one were read.
    Behind(u64),
    /// The shard was read to its end.
    End,
}

fn encode(places: &[Place]) -> String {
    let mut bytes = vec![OF_ALL];
    for place in places {
        let mut number = match place {
            Place::Beginning => 0,
            Place::End => 1,
            Place::Behind(sequence) => sequence.saturating_add(2),
        };
        while number >= 0x80 {
            bytes.push(0x80 | u8::try_from(number & 0x7f).unwrap_or_default());
            number >>= 7;
        }
        bytes.push(u8::try_from(number).unwrap_or_default());
    }
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(cursor: &str, shards: u16) -> Option<Vec<Place>> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let mut rest = bytes.strip_prefix(&[OF_ALL])?.iter();
    let mut places = Vec::new();
    for _ in 0..shards {
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let byte = *rest.next()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 64)?;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        places.push(match number {
            0 => Place::Beginning,
            1 => Place::End,
            number => Place::Behind(number - 2),
        });
    }
    rest.next().is_none().then_some(places)
}

/// A request for a part of the audit log.
struct Asked {
    /// The query without cursor and limit.
    filter: String,
    limit: usize,
    is_newest: bool,
    places: Vec<Place>,
}

/// The records of a shard behind a place.
struct Part {
    rows: VecDeque<Value>,
    next: Place,
    latest: Place,
}

/// Returns the place in a shard from a cursor that the shard returned.
fn place_of(cursor: &Value) -> Option<Place> {
    cursor.as_str().and_then(decode_cursor).map(Place::Behind)
}

/// Parses the answer of a shard; `None` if it is not a part of its audit log.
///
/// Only a read from the newest record to the oldest comes to an end.
fn part_of(mut answer: Value, is_newest: bool) -> Option<Part> {
    let latest = place_of(&answer["latest_cursor"])?;
    let next = match &answer["next_cursor"] {
        Value::Null if is_newest => Place::End,
        cursor => place_of(cursor)?,
    };
    let Value::Array(rows) = answer["data"].take() else { return None };
    let has_place = |row: &Value| row["sequence"].is_u64();
    rows.iter().all(has_place).then(|| Part { rows: rows.into(), next, latest })
}

/// Returns the position at which a verification of a shard continues, if it does.
///
/// The outer `None`: the answer is none to a verification.
fn checked_to(answer: &Value) -> Option<Option<u64>> {
    answer["checked"].as_u64()?;
    match &answer["next_cursor"] {
        Value::Null => Some(None),
        cursor => cursor.as_str().and_then(decode_cursor).map(Some),
    }
}

/// Returns the query without the parameters that are set for each shard.
fn filter_of(parts: &Parts) -> String {
    let given = |pair: &&str| !pair.starts_with("cursor=") && !pair.starts_with("limit=");
    let pairs = parts.uri.query().unwrap_or_default().split('&');
    pairs.filter(given).map(|pair| format!("{pair}&")).collect()
}

fn asked(parts: &Parts, shards: u16) -> Result<Asked, ApiError> {
    let query = Query::of(&parts.uri)?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let is_newest = query.text("order")? == Some("newest");
    let bad = || ApiError::field("cursor", "must be the `next_cursor` of an earlier answer");
    let places = match query.text("cursor")? {
        None => vec![Place::Beginning; shards.into()],
        Some(cursor) => {
            let places = decode(cursor, shards).ok_or_else(bad)?;
            let has_end = !is_newest && places.contains(&Place::End);
            if has_end { Err(bad()) } else { Ok(places) }?
        }
    };
    Ok(Asked { filter: filter_of(parts), limit, is_newest, places })
}

/// Operations on the audit log of all shards.
pub(super) struct Audits<'a>(pub(super) &'a Inner);

impl Audits<'_> {
    /// Returns a part of the audit log of all shards.
    pub(super) async fn read(&self, request: Request) -> Response<Body> {
        let (parts, _) = request.into_parts();
        let shards = self.0.shards.node.cluster().1.shards;
        match self.read_audit(&parts, shards).await {
            Ok(answer) => self.0.shards.answers.json(&parts.headers, &answer),
            Err(response) => *response,
        }
    }

    async fn read_audit(&self, parts: &Parts, shards: u16) -> Result<Value, Box<Response<Body>>> {
        // A caller who may not read the log gets only this refusal.
        let path = "/admin/v1/audit?limit=1";
        self.0.part(PEOPLE, path, parts, true).await?;
        let refuse = |error| Box::new(self.0.shards.answers.refuse(&parts.headers, error));
        let asked = asked(parts, shards).map_err(refuse)?;
        let mut read = Vec::new();
        for (shard, place) in (0..shards).zip(&asked.places) {
            read.push(self.read_part(shard, *place, parts, &asked).await?);
        }
        let latest: Vec<_> = read.iter().map(|part| part.latest).collect();
        let mut places = asked.places.clone();
        let mut rows = Vec::new();
        while rows.len() < asked.limit {
            let at = |part: &Part| {
                part.rows.front().map(|row| row["at"].as_str().unwrap_or_default().to_owned())
            };
            let heads = read.iter().enumerate().filter_map(|(of, part)| Some((at(part)?, of)));
            let next = if asked.is_newest { heads.max() } else { heads.min() };
            let Some((_, of)) = next else { break };
            let taken = read.get_mut(of).and_then(|part| part.rows.pop_front());
            let Some((mut row, place)) = taken.zip(places.get_mut(of)) else { break };
            *place = Place::Behind(row["sequence"].as_u64().unwrap_or_default());
            row["shard"] = json!(of);
            rows.push(row);
        }
        for (place, part) in places.iter_mut().zip(&read) {
            if part.rows.is_empty() {
                *place = part.next;
            }
        }
        let is_over = asked.is_newest && places.iter().all(|place| *place == Place::End);
        let next = (!is_over).then(|| encode(&places));
        Ok(json!({ "data": rows, "next_cursor": next, "latest_cursor": encode(&latest) }))
    }

    /// Reads the records of a shard behind a place: at least one record if there is one.
    async fn read_part(
        &self,
        shard: u16,
        place: Place,
        parts: &Parts,
        asked: &Asked,
    ) -> Result<Part, Box<Response<Body>>> {
        let mut part = Part { rows: VecDeque::new(), next: place, latest: Place::Beginning };
        if place == Place::End {
            let answer = self.0.part(shard, "/admin/v1/audit?limit=1", parts, false).await?;
            let latest = place_of(&answer["latest_cursor"]);
            part.latest = latest.ok_or_else(|| self.0.is_no_part(shard, parts))?;
        }
        for tries in 0..EMPTY_PARTS_MAX {
            let cursor = match part.next {
                Place::Beginning => String::new(),
                Place::Behind(sequence) => format!("&cursor={}", encode_cursor(sequence)),
                Place::End => break,
            };
            let Asked { filter, limit, is_newest, .. } = asked;
            let path = format!("/admin/v1/audit?{filter}limit={limit}{cursor}");
            let answer = self.0.part(shard, &path, parts, false).await?;
            let read = part_of(answer, *is_newest);
            let read = read.ok_or_else(|| self.0.is_no_part(shard, parts))?;
            let is_same = part.next == read.next;
            let latest = if tries == 0 { read.latest } else { part.latest };
            part = Part { latest, ..read };
            if !part.rows.is_empty() || is_same {
                break;
            }
        }
        Ok(part)
    }

    /// Verifies a part of the chain of one shard, one shard after the other.
    pub(super) async fn check(&self, request: Request) -> Response<Body> {
        let (parts, _) = request.into_parts();
        match self.check_part(&parts).await {
            Ok(answer) => self.0.shards.answers.json(&parts.headers, &answer),
            Err(response) => *response,
        }
    }

    async fn check_part(&self, parts: &Parts) -> Result<Value, Box<Response<Body>>> {
        self.0.part(PEOPLE, "/admin/v1/audit?limit=1", parts, true).await?;
        let refuse = |error| Box::new(self.0.shards.answers.refuse(&parts.headers, error));
        let query = Query::of(&parts.uri).map_err(refuse)?;
        let bad = || ApiError::field("cursor", "must be the `next_cursor` of an earlier answer");
        let shards = self.0.shards.node.cluster().1.shards;
        let (shard, after) = match query.text("cursor").map_err(refuse)? {
            None => (0, None),
            Some(cursor) => decode_check(cursor, shards).ok_or_else(bad).map_err(refuse)?,
        };
        let cursor = after.map(|after| format!("?cursor={}", encode_cursor(after)));
        let path = format!("/admin/v1/audit/check{}", cursor.unwrap_or_default());
        let mut answer = self.0.part(shard, &path, parts, false).await?;
        let after = checked_to(&answer).ok_or_else(|| self.0.is_no_part(shard, parts))?;
        let next = match after {
            Some(after) => Some(encode_check(shard, Some(after))),
            None if answer["fault"].is_null() && shard + 1 < shards => {
                Some(encode_check(shard + 1, None))
            }
            None => None,
        };
        answer["next_cursor"] = json!(next);
        Ok(answer)
    }
}

fn encode_check(shard: u16, after: Option<u64>) -> String {
    let after = after.map(|after| after.to_be_bytes().to_vec()).unwrap_or_default();
    URL_SAFE_NO_PAD.encode([vec![OF_CHECK], shard.to_be_bytes().to_vec(), after].concat())
}

fn decode_check(cursor: &str, shards: u16) -> Option<(u16, Option<u64>)> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (shard, after) = bytes.strip_prefix(&[OF_CHECK])?.split_first_chunk()?;
    let shard = u16::from_be_bytes(*shard);
    let after = match after {
        [] => None,
        after => Some(u64::from_be_bytes(after.try_into().ok()?)),
    };
    (shard < shards).then_some((shard, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_has_the_place_of_each_shard() {
        let places = [Place::Beginning, Place::End, Place::Behind(0), Place::Behind(u64::MAX - 2)];
        let cursor = encode(&places);
        assert_eq!(decode(&cursor, 4).unwrap(), places);
        for (cursor, shards) in [(cursor.as_str(), 3), (&cursor, 5), ("AQAAAAAAAAAB", 4), ("", 4)] {
            assert_eq!(decode(cursor, shards), None, "{cursor}");
        }
        for place in [(3, None), (0, Some(7))] {
            assert_eq!(decode_check(&encode_check(place.0, place.1), 4), Some(place));
        }
        assert_eq!(decode_check(&encode_check(4, None), 4), None);
    }

    #[test]
    fn an_end_is_what_the_shard_says_and_not_what_it_leaves_out() {
        let cursor = encode_cursor(7);
        let whole = json!({
            "data": [{"sequence": 7}],
            "next_cursor": cursor,
            "latest_cursor": cursor,
        });
        for is_newest in [false, true] {
            let part = part_of(whole.clone(), is_newest).unwrap();
            assert_eq!((part.rows.len(), part.next), (1, Place::Behind(7)));
            for (name, value) in [
                ("data", Value::Null),
                ("data", json!([{}])),
                ("latest_cursor", Value::Null),
                ("latest_cursor", json!("x")),
                ("next_cursor", json!("x")),
            ] {
                let mut bad = whole.clone();
                bad[name] = value;
                assert!(part_of(bad.clone(), is_newest).is_none(), "{bad}");
            }
            let mut last = whole.clone();
            last["next_cursor"] = Value::Null;
            let next = part_of(last, is_newest).map(|part| part.next);
            assert_eq!(next, is_newest.then_some(Place::End));
        }
    }

    #[test]
    fn whoever_goes_on_to_the_newest_record_never_comes_to_an_end() {
        let cursor = encode(&[Place::Behind(7), Place::End]);
        for (order, is_good) in [("newest", true), ("oldest", false)] {
            let request = Request::get(format!("/admin/v1/audit?order={order}&cursor={cursor}"));
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(asked(&parts, 2).is_ok(), is_good, "{order}");
        }
    }

    #[test]
    fn what_verifies_nothing_has_not_found_that_all_fits() {
        let cursor = encode_cursor(7);
        let checked = |checked: Value, next: Value| {
            checked_to(&json!({"checked": checked, "fault": null, "next_cursor": next}))
        };
        assert_eq!(checked(json!(3), json!(cursor)), Some(Some(7)));
        assert_eq!(checked(json!(0), Value::Null), Some(None));
        assert_eq!(checked(Value::Null, Value::Null), None);
        assert_eq!(checked(json!(3), json!("x")), None);
        assert_eq!(checked_to(&json!({})), None);
    }
}
