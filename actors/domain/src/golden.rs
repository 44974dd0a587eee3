//! What the tests of durable formats share: a sheet of everything that is written, by name.
//!
//! Each test compares its sheet with the bytes that are written out in it, and each value is read
//! back from those bytes. What is on a sheet is in the data directories of users: where a test says
//! that it changed, the change is a mistake, or needs a way to read what was there before.

use std::fmt::Write as _;

use expect_test::Expect;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Timestamp;

/// The moment that the values of all sheets stand at.
pub const AT: Timestamp = Timestamp::from_millis(1_700_000_000_123);
/// What makes their identifiers unique.
pub const UNIQUE: u128 = 0x0102_0304_0506_0708_090a;
/// Bytes of one line of hexadecimal digits.
const LINE_BYTES: usize = 40;

/// What is written, by name.
#[derive(Default)]
pub struct Sheet(String);

impl Sheet {
    fn row(&mut self, name: &str, written: &str) {
        let space = if written.starts_with('\n') { "" } else { " " };
        // Writing to a text never fails.
        writeln!(self.0, "{name}:{space}{written}").unwrap();
    }

    /// Bytes that are mostly numbers.
    pub fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.row(name, &hex(bytes));
    }

    /// Bytes that are mostly text, such as keys; what is no text is escaped.
    pub fn text(&mut self, name: &str, bytes: &[u8]) {
        self.row(name, &bytes.escape_ascii().to_string());
    }

    /// A record in JSON. It must read back as a value that is written the same.
    pub fn json<T: Serialize + DeserializeOwned>(&mut self, name: &str, value: &T) {
        let json = serde_json::to_string(value).unwrap();
        let read: T = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json, "{name} reads back");
        self.row(name, &json);
    }

    /// A record in postcard's format. It must read back as a value that is written the same.
    pub fn postcard<T: Serialize + DeserializeOwned>(&mut self, name: &str, value: &T) {
        let bytes = postcard::to_stdvec(value).unwrap();
        let (read, rest) = postcard::take_from_bytes::<T>(&bytes).unwrap();
        assert_eq!(postcard::to_stdvec(&read).unwrap(), bytes, "{name} reads back");
        assert!(rest.is_empty(), "{name} is read to its end");
        self.bytes(name, &bytes);
    }

    /// Compares all of it with what is written out.
    pub fn is(&self, expected: Expect) {
        expected.assert_eq(&self.0);
    }
}

/// The bytes as hexadecimal digits, in lines if they are many.
fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let lines: Vec<_> = bytes.chunks(LINE_BYTES).map(line).collect();
    if lines.len() > 1 { format!("\n    {}", lines.join("\n    ")) } else { lines.concat() }
}

/// The bytes of hexadecimal digits, whatever spaces are between them.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}
