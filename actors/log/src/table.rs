//! Pure: the numbers by which group commits name the view's tables.

/// The tables, by number and by their name in the view.
///
/// A used number must never mean another table, because entries of the log are kept for ever in
/// backups.
pub const NUMBERS: &[(u8, &str)] = &[
    (1, "meta"),
    (2, "workspaces"),
    (3, "keys"),
    (4, "buckets"),
    (5, "events"),
    (6, "idempotency"),
    (7, "contacts"),
    (8, "contact_index"),
    (9, "segments"),
    (10, "conversations"),
    (11, "webhooks"),
    (12, "messages"),
    (13, "windows"),
    (14, "aliases"),
    (15, "received"),
    (16, "templates"),
    (17, "broadcasts"),
    (18, "broadcast_audience"),
    (19, "broadcast_phones"),
    (20, "broadcast_outcomes"),
    (21, "broadcast_reports"),
    (22, "suppressions"),
    (23, "analytics"),
    (24, "mails"),
    (25, "mail_queue"),
    (26, "audit"),
    (27, "otps"),
    (28, "message_index"),
    (29, "media"),
    (30, "otp_index"),
    (31, "portfolios"),
    (32, "broadcast_names"),
    (33, "event_index"),
    // 255 means hot states in an archive.
];

/// Returns the name of the table with this number.
#[must_use]
pub fn name(number: u8) -> Option<&'static str> {
    NUMBERS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// Returns the number of the table with this name.
#[must_use]
pub fn number(name: &str) -> Option<u8> {
    NUMBERS.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
}
