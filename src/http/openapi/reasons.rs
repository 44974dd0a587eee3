//! Lists the reasons that a refusal of an operation may have.

/// The operations, each with the reasons of its 422.
pub(super) const REASONS: &[(&str, &[&str])] = &[
    (
        "sendOtp",
        &[
            "idempotency_mismatch",
            "destination_blocked",
            "channel_not_configured",
            "unknown_number",
        ],
    ),
    (
        "sendOtpByMessagingPath",
        &[
            "idempotency_mismatch",
            "destination_blocked",
            "channel_not_configured",
            "unknown_number",
        ],
    ),
    ("verifyOtp", &["cancelled", "inbound_only"]),
    ("verifyOtpByMessagingPath", &["cancelled", "inbound_only"]),
    ("resendOtp", &["cancelled", "destination_blocked", "channel_not_configured", "inbound_only"]),
    (
        "resendOtpByMessagingPath",
        &["cancelled", "destination_blocked", "channel_not_configured", "inbound_only"],
    ),
    ("sendMessage", &["idempotency_mismatch", "unknown_number", "unknown_message"]),
    ("createBroadcast", &["idempotency_mismatch", "unknown_number"]),
    ("testBroadcast", &["idempotency_mismatch", "unknown_number"]),
    ("createContact", &["idempotency_mismatch"]),
    ("createContacts", &["idempotency_mismatch"]),
    ("replyInConversation", &["idempotency_mismatch", "email_not_configured", "unknown_message"]),
    ("markConversationRead", &["nothing_to_read"]),
    ("uploadMedia", &["media_full", "no_media_store"]),
    ("createSegment", &["segment_limit"]),
    ("addNote", &["note_limit"]),
    ("changeContacts", &["bulk_limit"]),
    ("createQuickReply", &["quick_reply_limit"]),
    ("createWebhook", &["webhook_limit"]),
    ("testWebhook", &["webhook_disabled"]),
    ("addCredits", &["credits_too_large"]),
    ("connectNumber", &["not_a_sandbox", "number_limit"]),
    ("setPortfolio", &["portfolio_setting_limit"]),
];
