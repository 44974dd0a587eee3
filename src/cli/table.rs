//! Formats answers as tables.

use postrider_actors::domain::printable;
use serde_json::Value;

/// A column: its title, and the JSON pointer to its value in a row.
pub(crate) type Column = (&'static str, &'static str);

/// Formats rows as lines below their titles.
pub(crate) fn rows(rows: &[Value], columns: &[Column]) -> String {
    let titles = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
    let cells = rows.iter().map(|row| cells(row, columns));
    aligned(&std::iter::once(titles).chain(cells).collect::<Vec<_>>())
}

/// Formats one record, with one line for each value.
pub(crate) fn record(row: &Value, columns: &[Column]) -> String {
    let line = |(title, at): &Column| vec![(*title).to_owned(), cell(row, at)];
    aligned(&columns.iter().map(line).collect::<Vec<_>>())
}

/// Returns the cells of one row.
pub(crate) fn cells(row: &Value, columns: &[Column]) -> Vec<String> {
    columns.iter().map(|(_, at)| cell(row, at)).collect()
}

fn cell(row: &Value, pointer: &str) -> String {
    match row.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => harmless_text(text),
        Some(Value::Array(items)) => {
            let items: Vec<_> = items.iter().map(|item| cell(item, "")).collect();
            items.join(",")
        }
        Some(other) => other.to_string(),
    }
}

/// Replaces control characters, so that no name can control the terminal.
fn harmless_text(text: &str) -> String {
    printable::harmless(text).into_owned()
}

fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(move |line: &Vec<String>| line.get(column));
        cells.map(|cell: &String| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let padded: Vec<_> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_aligned() {
        let data = [
            json!({"id": "a", "counts": {"keys": 12}, "scopes": ["x", "y"]}),
            json!({"id": "long\u{1b}[2J", "counts": {"keys": 1}, "scopes": []}),
        ];
        let columns =
            [("ID", "/id"), ("KEYS", "/counts/keys"), ("SCOPES", "/scopes"), ("NO", "/no")];
        assert_eq!(
            rows(&data, &columns),
            "ID        KEYS  SCOPES  NO\n\
             a         12    x,y     -\n\
             long\u{fffd}[2J  1             -\n"
        );
        assert_eq!(record(&data[0], &columns[..2]), "ID    a\nKEYS  12\n");
    }
}
