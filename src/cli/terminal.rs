//! Escapes characters that would control the terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use postrider_actors::domain::printable;

/// Returns whether a character must be escaped for a terminal.
fn is_risky(char: char) -> bool {
    (char.is_control() && char != '\n') || printable::turns_text(char)
}

/// Escapes characters that would control a terminal, such as to `\u{1b}`. Line breaks stay.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_risky) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if is_risky(char) { out.extend(char.escape_unicode()) } else { out.push(char) }
    }
    out.into()
}

/// A writer to a terminal that escapes its input. Each write must be whole UTF-8.
pub(super) struct Escaping<W>(pub(super) W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An incomplete character is left for the next call.
        let whole = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) if error.valid_up_to() > 0 => {
                std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        self.0.write_all(escaped(whole).as_bytes())?;
        Ok(whole.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_controlled() {
        let text = "Ana\u{1b}[2J\u{202e},é\r\n";
        let shown = "Ana\\u{1b}[2J\\u{202e},é\\u{d}\n";
        assert_eq!(escaped(text), shown);
        assert!(matches!(escaped("Ana, é\n"), Cow::Borrowed(_)));
        let mut out = Vec::new();
        Escaping(&mut out).write_all(text.as_bytes()).unwrap();
        assert_eq!(out, shown.as_bytes());
    }
}
