//! Types of files that the channel takes, and how large one of each may be.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The most bytes of any file.
pub(crate) const BYTES_MAX: u64 = 100 * MIB;

/// Types, and the most bytes of one.
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

/// The type that a `Content-Type` names, without its parameters, and the most bytes of a file of
/// it; `None`: the channel takes no such file.
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
