//! Keeps spreadsheets from reading the text of a CSV cell as a formula.

use std::borrow::Cow;

use postrider_actors::domain::Phone;

/// Characters with which a spreadsheet begins a formula, or skips to one.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Writes a text as a cell that is no formula: a `'` comes before one. [`parse`] takes it away. A
/// phone is none: `+` and digits are a number to a spreadsheet.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    if looks_like_formula(text) { format!("'{text}").into() } else { text.into() }
}

/// The text of a cell that [`text`] wrote.
#[must_use]
pub fn parse(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if looks_like_formula(text) => text,
        _ => cell,
    }
}

/// Whether a text is a formula, also behind any number of `'`: each of those may have been written
/// by [`text`], so one more must be.
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
