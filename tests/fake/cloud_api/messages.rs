//! Requests for messages.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::server::Answer;
use super::{Accepted, Again, KEPT, Request, Scripted, Shared, callbacks};

/// Returns a refusal in the form of the channel.
pub(super) fn error(status: u16, code: u32) -> Answer {
    let body = json!({"error": {
        "message": format!("(#{code}) scripted"),
        "type": "OAuthException",
        "code": code,
        "error_data": {"messaging_product": "whatsapp", "details": format!("details of {code}")},
        "fbtrace_id": "fake",
    }});
    Answer(status, body.to_string())
}

/// Takes a message or refuses it; returns `None` if the answer is lost.
pub(super) async fn take(shared: &Arc<Shared>, path: &str, body: &[u8]) -> Option<Answer> {
    if let Some(marked) = marked_read(body) {
        return Some(take_read(shared, marked));
    }
    let Some((to, body)) = read(body) else { return Some(error(400, 100)) };
    let phone_number_id = path.split('/').nth(2).unwrap_or_default();
    // Codes go to phones only.
    let is_code = shared.category(&body).is_some_and(|category| category == "authentication");
    if is_code && body["to"].is_null() {
        return Some(error(400, 131_062));
    }
    let scripted = shared.next_script(&to, phone_number_id);
    match scripted {
        Some(Scripted::Error { status, code }) => return Some(error(status, code)),
        Some(Scripted::Raw { status, body }) => return Some(Answer(status, body)),
        _ => {}
    }
    if let Some(code) = shared.buckets.refuse(phone_number_id, &to) {
        return Some(error(400, code));
    }
    if let Some(code) = shared.refuse_recipient(phone_number_id, &to, &body) {
        return Some(error(400, code));
    }
    let accepted = shared.accept(to, body);
    callbacks::report(shared, &accepted, phone_number_id);
    let mut status = "accepted";
    match scripted {
        Some(Scripted::Held(word)) => status = word,
        Some(Scripted::Lost) => return None,
        Some(Scripted::Slow(wait)) => tokio::time::sleep(wait).await,
        _ => {}
    }
    let contact = match accepted.body["recipient"].as_str() {
        Some(user_id) => json!({"input": user_id, "user_id": user_id}),
        None => json!({
            "input": accepted.to, "wa_id": shared.known_as(&accepted.to),
            "user_id": shared.user_id(&accepted.to),
        }),
    };
    let answer = json!({
        "messaging_product": "whatsapp",
        "contacts": [contact],
        "messages": [{"id": accepted.id, "message_status": status}],
    });
    Some(Answer(200, answer.to_string()))
}

/// Returns the body of a request that marks a message as read.
fn marked_read(body: &[u8]) -> Option<Value> {
    let body: Value = serde_json::from_slice(body).ok()?;
    (body["status"] == "read" && body["messaging_product"] == "whatsapp").then_some(body)
}

/// Records that a message was read, unless a script for everyone refuses it.
fn take_read(shared: &Shared, body: Value) -> Answer {
    match shared.next_script("", "") {
        Some(Scripted::Error { status, code }) => error(status, code),
        _ => {
            shared.state.lock().unwrap().marked_read.push(body);
            Answer(200, json!({"success": true}).to_string())
        }
    }
}

/// Takes a file, unless a script for `media` refuses it.
pub(super) fn take_file(shared: &Shared, number: &str, kind: &str, body: &[u8]) -> Answer {
    if let Some(Scripted::Error { status, code }) = shared.next_script("media", "") {
        return error(status, code);
    }
    let state = &mut *shared.state.lock().unwrap();
    state.files.push((number.to_owned(), kind.to_owned(), body.to_vec()));
    Answer(200, json!({"id": format!("file{}", state.files.len())}).to_string())
}

/// Reports the address of a file, unless a script for `file` refuses it; `None`: no such file.
pub(super) fn place_of_file(shared: &Shared, host: &str, id: &str) -> Option<Answer> {
    let elsewhere = shared.state.lock().unwrap().offered.get(id)?.0.clone();
    match shared.next_script("file", "") {
        Some(Scripted::Error { status, code }) => return Some(error(status, code)),
        Some(Scripted::Raw { status, body }) => return Some(Answer(status, body)),
        _ => {}
    }
    let url = elsewhere.unwrap_or_else(|| format!("http://{host}/files/{id}"));
    Some(Answer(200, json!({"id": id, "url": url, "messaging_product": "whatsapp"}).to_string()))
}

/// Returns the recipient and the whole body, if the body has what every message must have.
fn read(body: &[u8]) -> Option<(String, Value)> {
    let body: Value = serde_json::from_slice(body).ok()?;
    // With both, the phone counts, as with the channel.
    let phone = body["to"].as_str();
    let to = phone.or(body["recipient"].as_str())?.to_owned();
    let digits = phone.is_none_or(|phone| phone.bytes().all(|byte| byte.is_ascii_digit()));
    let content = &body[body["type"].as_str()?];
    let whole =
        body["messaging_product"] == "whatsapp" && (content.is_object() || content.is_array());
    (digits && whole).then_some((to, body))
}

impl Shared {
    pub(super) fn note(
        &self,
        version: hyper::Version,
        path: &str,
        authorization: &str,
        body: &[u8],
    ) {
        let state = &mut *self.state.lock().unwrap();
        keep(&mut state.requests);
        state.requests.push(Request {
            version,
            path: path.to_owned(),
            authorization: authorization.to_owned(),
            body: body.to_vec(),
        });
    }

    fn next_script(&self, to: &str, phone_number_id: &str) -> Option<Scripted> {
        let state = &mut *self.state.lock().unwrap();
        let through = format!("through {phone_number_id}");
        let names = [to, &*through];
        let of = names.into_iter().find(|name| state.scripts.contains_key(*name)).unwrap_or("");
        let (scripted, times) = state.scripts.get_mut(of)?;
        let scripted = scripted.clone();
        if let Some(times) = times {
            *times -= 1;
            if *times == 0 {
                state.scripts.remove(of);
            }
        }
        Some(scripted)
    }

    /// Returns the number by which the fake calls the owner of a phone.
    pub(super) fn known_as(&self, to: &str) -> String {
        let state = self.state.lock().unwrap();
        state.known_as.get(to).map_or(to, String::as_str).to_owned()
    }

    /// Returns the id of the owner of a phone, if the fake reports it.
    pub(super) fn user_id(&self, to: &str) -> Option<String> {
        self.state.lock().unwrap().user_ids.get(to).cloned()
    }

    /// Returns the error code for a template to one recipient too many of a day.
    fn refuse_recipient(&self, number: &str, to: &str, body: &Value) -> Option<u32> {
        (body["type"] == "template").then(|| self.buckets.refuse_recipient(number, to)).flatten()
    }

    /// Returns the category of a message's template, if the fake has the template.
    pub(super) fn category(&self, body: &Value) -> Option<String> {
        let state = self.state.lock().unwrap();
        let name = &body["template"]["name"];
        let all = state.templates.iter().chain(state.templates_of.values().flatten());
        let found = all.into_iter().find(|template| template["name"] == *name)?;
        Some(found["category"].as_str()?.to_ascii_lowercase())
    }

    fn accept(&self, to: String, body: Value) -> Accepted {
        let state = &mut *self.state.lock().unwrap();
        state.accepted_count += 1;
        let opaque = body["biz_opaque_callback_data"].as_str().unwrap_or_default().to_owned();
        *state.by_recipient.entry(to.clone()).or_default() += 1;
        let (times, last) = state.by_opaque.entry(opaque.clone()).or_default();
        let (before, at) = (std::mem::replace(last, state.accepted_count), state.accepted_count);
        *times += 1;
        if *times > 1 {
            state.again.push(Again { opaque: opaque.clone(), before, at });
        }
        let id = match state.has_long_ids {
            true => long_id(&to, state.accepted_count),
            false => format!("wamid.fake{}", state.accepted_count),
        };
        let accepted = Accepted { id, to, opaque, body };
        keep(&mut state.accepted);
        state.accepted.push(accepted.clone());
        accepted
    }
}

/// Returns an id as the channel makes them: of the recipient's digits and hexadecimal ones.
fn long_id(to: &str, number: u64) -> String {
    let length = u8::try_from(to.len()).unwrap();
    let unique = format!("{:018X}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let parts = [
        &[0x1c, 0x18, length][..],
        to.as_bytes(),
        &[0x15, 2, 0, 0x11, 0x18, 0x12],
        unique.as_bytes(),
        &[0],
    ];
    format!("wamid.{}", BASE64_STANDARD.encode(parts.concat()))
}

/// Makes room for one more. Half of the entries go at a time, so that this is rare.
fn keep<T>(kept: &mut Vec<T>) {
    if kept.len() >= KEPT {
        kept.drain(..KEPT / 2);
    }
}
