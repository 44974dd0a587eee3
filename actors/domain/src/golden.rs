//! Pure: golden bytes of durable formats, collected by name on a sheet that a test compares.
//!
//! Each test compares its sheet with the expected bytes in its source, and each value must decode
//! from those bytes. Users' data directories hold these bytes. When such a test fails, the change
//! is a mistake, or the format needs another version.

#![allow(clippy::unwrap_used, reason = "only tests use it, and a panic fails the test")]

use std::fmt::Write as _;

use expect_test::Expect;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Timestamp;
use crate::fuzz::each_fault;

/// The timestamp of the values on all sheets.
pub const AT: Timestamp = Timestamp::from_millis(1_700_000_000_123);
/// The unique part of their identifiers.
pub const UNIQUE: u128 = 0x0102_0304_0506_0708_090a;
/// The number of bytes in one line of hexadecimal digits.
const LINE_BYTES: usize = 40;

/// Encoded values, by name.
#[derive(Default)]
pub struct Sheet(String);

impl Sheet {
    fn row(&mut self, name: &str, written: &str) {
        let space = if written.starts_with('\n') { "" } else { " " };
        // Writing to a string never fails.
        writeln!(self.0, "{name}:{space}{written}").ok();
    }

    /// Adds binary bytes, in hexadecimal.
    pub fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.row(name, &hex(bytes));
    }

    /// Adds bytes that are mostly text, such as keys. Other bytes are escaped.
    pub fn text(&mut self, name: &str, bytes: &[u8]) {
        self.row(name, &bytes.escape_ascii().to_string());
    }

    /// Adds text unchanged, such as JSON that is stored in another format.
    pub fn plain(&mut self, name: &str, text: &str) {
        self.row(name, text);
    }

    /// Adds a record in JSON. It must decode to a value that encodes to the same JSON, and damaged
    /// bytes of it must not panic.
    pub fn json<T: Serialize + DeserializeOwned>(&mut self, name: &str, value: &T) {
        let json = serde_json::to_string(value).unwrap();
        let read: T = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json, "{name} reads back");
        each_fault(json.as_bytes(), |damaged| drop(serde_json::from_slice::<T>(damaged)));
        self.row(name, &json);
    }

    /// Adds a record in postcard's format. It must decode to a value that encodes to the same
    /// bytes, and damaged bytes of it must not panic.
    pub fn postcard<T: Serialize + DeserializeOwned>(&mut self, name: &str, value: &T) {
        let bytes = postcard::to_stdvec(value).unwrap();
        let (read, rest) = postcard::take_from_bytes::<T>(&bytes).unwrap();
        assert_eq!(postcard::to_stdvec(&read).unwrap(), bytes, "{name} reads back");
        assert!(rest.is_empty(), "{name} is read to its end");
        each_fault(&bytes, |damaged| drop(postcard::from_bytes::<T>(damaged)));
        self.bytes(name, &bytes);
    }

    /// Compares the sheet with the expected text.
    pub fn is(&self, expected: Expect) {
        expected.assert_eq(&self.0);
    }
}

/// Returns the bytes in hexadecimal, on several lines if there are many.
fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let lines: Vec<_> = bytes.chunks(LINE_BYTES).map(line).collect();
    if lines.len() > 1 { format!("\n    {}", lines.join("\n    ")) } else { lines.concat() }
}
