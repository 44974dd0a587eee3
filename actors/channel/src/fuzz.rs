//! Fuzz targets for the input from a provider and from mail services.

use postrider_domain::fuzz::edited;
use postrider_domain::json::mended;

use crate::callback::TEXT_CHARS_MAX;
use crate::cloud_api::envelope;
use crate::cloud_api::items::ItemCounts;
use crate::email::inbound::{mailbox, text_of_html};

/// Callbacks in the provider's form: messages, reports, choices, notices, templates.
const CALLBACKS: [&[u8]; 6] = [
    br#"{"object":"whatsapp_business_account","entry":[{"id":"107","changes":[{"field":"messages",
    "value":{"messaging_product":"whatsapp","metadata":{"display_phone_number":"15550001111",
    "phone_number_id":"106"},"contacts":[{"profile":{"name":"Ana"},"wa_id":"16505551234"}],
    "messages":[{"from":"16505551234","id":"wamid.A","timestamp":"1700000000","type":"text",
    "text":{"body":"Hi"},"context":{"id":"wamid.B"},"referral":{"source_type":"ad",
    "source_id":"120","source_url":"https://example.com","headline":"Sale"}}]}}]}]}"#,
    br#"{"entry":[{"id":"107","changes":[{"field":"messages","value":{"metadata":
    {"phone_number_id":"106"},"contacts":[{"user_id":"US.1","profile":{"name":"B"}}],"messages":
    [{"from_user_id":"US.1","id":"wamid.C","timestamp":1700000000,"type":"interactive",
    "interactive":{"type":"button_reply","button_reply":{"id":"1","title":"Yes"}}},
    {"from":"16505551234","id":"wamid.D","timestamp":"1","type":"system","system":
    {"type":"user_changed_number","wa_id":"16505559999","body":"changed"}}]}}]}]}"#,
    br#"{"entry":[{"id":"107","changes":[{"field":"messages","value":{"metadata":
    {"phone_number_id":"106"},"statuses":[{"id":"wamid.E","status":"failed","timestamp":
    "1700000000","recipient_id":"16505551234","biz_opaque_callback_data":
    "otp_01jd3v0x5n8m7k2q4r6s8t0w2y:2","errors":[{"code":131026,"title":"Undeliverable",
    "error_data":{"details":"no account"}}]},{"id":"wamid.F","status":"read","timestamp":"9",
    "biz_opaque_callback_data":"msg_01jd3v0x5n8m7k2q4r6s8t0w2y"}]}}]}]}"#,
    br#"{"entry":[{"id":"107","changes":[{"field":"user_preferences","value":{"metadata":
    {"phone_number_id":"106"},"user_preferences":[{"wa_id":"16505551234","category":
    "marketing_messages","value":"stop","timestamp":1700000000}]}}]}]}"#,
    br#"{"entry":[{"id":"107","changes":[{"field":"message_template_status_update","value":
    {"event":"PAUSED","message_template_id":1,"message_template_name":"spring_sale",
    "message_template_language":"en","reason":"NONE"}}]}]}"#,
    br#"{"entry":[]}"#,
];

#[test]
fn the_examples_are_read() {
    let items: usize = CALLBACKS
        .iter()
        .flat_map(|raw| envelope::read(raw, &ItemCounts::default()).unwrap())
        .map(|part| {
            let it = part.callback;
            it.statuses.len()
                + it.inbound.len()
                + it.templates.len()
                + it.choices.len()
                + it.identity_changes.len()
        })
        .sum();
    assert!(items >= 6, "only {items} items are read, so the fuzzer does not reach their parsers");
    for raw in CALLBACKS {
        assert!(envelope::assert_passes_agree(raw), "{}", raw.escape_ascii());
    }
}

#[test]
fn fuzz_callbacks() {
    // At most two edits: with more the input is seldom JSON, and no item is reached.
    let fuzzer = bolero::check!().with_iterations(20_000);
    fuzzer.for_each(|script: &[u8]| {
        let raw = edited(&CALLBACKS, &script[..script.len().min(1 + 2 * 4)]);
        envelope::assert_passes_agree(&raw);
        let Some(parts) = envelope::read(&raw, &ItemCounts::default()) else { return };
        let mut held = 0;
        for part in &parts {
            held += part.callback.statuses.len() + part.callback.templates.len();
            for inbound in &part.callback.inbound {
                held += inbound.text.len();
                assert!(inbound.text.chars().count() <= TEXT_CHARS_MAX);
            }
        }
        // A message's text can be no longer than the text in which it arrived.
        let most = mended(&raw).len();
        assert!(parts.len() + held <= most, "{held} of {most}");
    });
}

#[test]
fn fuzz_senders_of_mails() {
    let examples: [&[u8]; 4] = [
        b"ana@example.com",
        b"Ana Souza <ana@example.com>",
        b"\"Souza, Ana\" <ana@example.com>",
        "Zo\u{eb} \u{202e}<zoe@ex\u{e4}mple.com>".as_bytes(),
    ];
    let fuzzer = bolero::check!().with_iterations(20_000);
    fuzzer.for_each(|script: &[u8]| {
        let input = edited(&examples, script);
        let text = String::from_utf8_lossy(&input);
        if let Some((name, address)) = mailbox(&text) {
            assert!(address.as_str().contains('@'));
            assert!(name.is_none_or(|name| !name.chars().any(char::is_control)));
        }
    });
}

#[test]
fn fuzz_texts_of_html() {
    let examples: [&[u8]; 3] = [
        b"<html><style>p{a:b}</style><body><p>Hello&nbsp;<b>Ana</b></p><br/>It &lt;is&gt; late",
        b"<script>if (a<b) {}</SCRIPT><div>&amp;lt;</div><script>",
        "<p>\u{e9}\u{fffd}</p".as_bytes(),
    ];
    let fuzzer = bolero::check!().with_iterations(20_000);
    fuzzer.for_each(|script: &[u8]| {
        let input = edited(&examples, script);
        let html = String::from_utf8_lossy(&input);
        assert!(text_of_html(&html).len() <= html.len());
    });
}
