//! The types of files that the channel accepts, with the maximum size of each.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The maximum size of any file, in bytes.
pub(crate) const BYTES_MAX: u64 = 100 * MIB;

/// The types, each with the maximum size of a file in bytes.
const TYPES: &[(&str, u64)] = &[
    ("image/jpeg", 5 * MIB),
    ("image/png", 5 * MIB),
    ("image/webp", 500 * KIB),
    ("audio/aac", 16 * MIB),
    ("audio/amr", 16 * MIB),
    ("audio/mpeg", 16 * MIB),
    ("audio/mp4", 16 * MIB),
    ("audio/ogg", 16 * MIB),
    ("video/mp4", 16 * MIB),
    ("video/3gpp", 16 * MIB),
    ("application/pdf", 100 * MIB),
    ("text/plain", 100 * MIB),
    ("application/msword", 100 * MIB),
    ("application/vnd.ms-excel", 100 * MIB),
    ("application/vnd.ms-powerpoint", 100 * MIB),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", 100 * MIB),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", 100 * MIB),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", 100 * MIB),
];

/// Returns the type that a `Content-Type` names, and its maximum file size in bytes. Parameters are
/// ignored. `None` if the channel accepts no such file.
pub(crate) fn of(content_type: &str) -> Option<(&'static str, u64)> {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    TYPES.iter().copied().find(|(name, _)| name.eq_ignore_ascii_case(essence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_larger_than_any() {
        assert_eq!(TYPES.iter().map(|(_, max)| *max).max(), Some(BYTES_MAX));
    }

    #[test]
    fn parameters_and_case_say_nothing() {
        for good in ["audio/ogg", "Audio/OGG; codecs=opus", " audio/ogg ;x"] {
            assert_eq!(of(good), Some(("audio/ogg", 16 * MIB)), "{good}");
        }
        for bad in ["", "image/svg+xml", "text/html", "image/*", "image"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
