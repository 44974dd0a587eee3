//! Texts in one case and one form.

use unicode_normalization::UnicodeNormalization;

/// A combining dot above: what İ has above its `i` in lower case.
const DOT: char = '\u{307}';

/// A text in one case and one form, in any script: two that differ in case only are the same, and so
/// are two that are the same characters put together otherwise, or wider (Unicode's NFKC). Upper case
/// comes first, since that makes one of `ß` and `SS`, of `ς` and `σ`, of `ı` and `i`.
#[must_use]
pub fn fold(text: &str) -> String {
    // Nobody types the dot of İ.
    let lower = |char: char| char.to_lowercase().filter(move |lower| *lower != DOT || char == DOT);
    text.nfkc().flat_map(char::to_uppercase).flat_map(lower).nfkc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_case_are_the_same() {
        for (one, other) in [
            ("Ana", "aNA"),
            ("ÉCOLE", "école"),
            ("Straße", "STRASSE"),
            ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"),
            ("ЖУК", "жук"),
            ("İstanbul", "istanbul"),
            ("ISTANBUL", "ıstanbul"),
            ("Ⴀ", "ⴀ"),
            ("ﬁt", "FIT"),
            ("Jos\u{e9}", "JOSE\u{301}"),
            ("Nguy\u{1ec5}n", "nguye\u{302}\u{303}n"),
            ("한국어", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}\u{110b}\u{1165}"),
            ("ＦＵＬＬ", "full"),
        ] {
            assert_eq!(fold(one), fold(other), "{one} {other}");
        }
        assert_ne!(fold("a"), fold("à"));
        assert_eq!(fold("王\u{307}"), "王\u{307}");
    }
}
