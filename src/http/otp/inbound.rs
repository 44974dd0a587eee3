//! Shows how a person sends a code to a number of the workspace.

use postrider_actors::OtpState;
use postrider_actors::domain::otp_text::sent_text;

use crate::http::pipeline::{ApiError, Call, Principal};

/// The code that a person sends, and the ways to send it. Without `Debug`, as it has the code.
pub(super) struct InboundCode {
    pub(super) code: String,
    /// The phone of the number to which the code can be sent.
    pub(super) number: Option<String>,
    /// A message that contains the code.
    pub(super) text: String,
    /// A link that opens the chat app with that message.
    pub(super) link: Option<String>,
}

/// Returns the code that a person has to send, while it can be sent.
pub(super) async fn code_of(
    call: &Call<Principal>,
    state: &OtpState,
) -> Result<Option<InboundCode>, ApiError> {
    let Some(code) = state.inbound_code else { return Ok(None) };
    let numbers = call.edge.engine.admin().numbers(call.caller.workspace().id()).await?;
    let is_named = state.notes.own.as_ref().is_some_and(|own| own.pinned);
    let named = numbers.iter().find(|it| is_named && Some(it.id) == state.number);
    let account = match named {
        Some(number) => number.account.as_ref(),
        None => numbers.iter().filter(|it| it.pool).find_map(|it| it.account.as_ref()),
    };
    let phone = account.map(|account| account.phone);
    let code = code.reveal();
    let text = sent_text(&code, state.language.as_deref());
    let encoded = percent_encoded(&text);
    let link = phone.map(|phone| format!("https://wa.me/{}?text={encoded}", phone.as_u64()));
    let number = phone.map(|phone| phone.to_string());
    Ok(Some(InboundCode { code, number, text, link }))
}

/// Encodes a text for a URL's query.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_any_script_stands_in_a_link() {
        assert_eq!(percent_encoded("é 7&"), "%C3%A9%207%26");
    }
}
