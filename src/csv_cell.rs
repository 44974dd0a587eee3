//! Keeps spreadsheets from reading the text of a CSV cell as a formula.

use std::borrow::Cow;

use postrider_actors::domain::Phone;

/// The characters with which a spreadsheet starts a formula, or skips to one.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Formats a text as a cell that is not a formula, by a `'` before one. [`parse`] removes it.
///
/// A phone is not a formula: `+` and digits are a number to a spreadsheet.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    if looks_like_formula(text) { format!("'{text}").into() } else { text.into() }
}

/// Returns the text of a cell that [`text`] wrote.
#[must_use]
pub fn parse(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if looks_like_formula(text) => text,
        _ => cell,
    }
}

/// Returns whether a text is a formula, also behind any number of `'`.
///
/// [`text`] may have written each of those, so it must write one more.
fn looks_like_formula(text: &str) -> bool {
    let begins = text.trim_start_matches('\'').starts_with(FORMULA);
    begins && text.parse::<Phone>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_and_each_is_parsed_back() {
        for (given, cell) in [
            ("", ""),
            ("Ana", "Ana"),
            ("a=b", "a=b"),
            ("'", "'"),
            ("'quoted'", "'quoted'"),
            ("=1+1", "'=1+1"),
            ("+15550123456", "+15550123456"),
            ("'+15550123456", "''+15550123456"),
            ("+1+1", "'+1+1"),
            ("+15550123456-1", "'+15550123456-1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("'=x", "''=x"),
            ("''=x", "'''=x"),
        ] {
            assert_eq!(text(given), cell);
            assert_eq!(parse(&text(given)), given);
        }
        assert_eq!(parse("=1"), "=1", "a file that another program wrote");
    }
}
