//! Runs `postrider contacts import --check`.

use std::path::Path;

use super::error::ImportError;
use super::lines::Lines;
use super::phones::Country;
use super::refused::{describe, describe_phone};
use crate::cli::output::report;

/// Reports the phones that would be sent in another form, and the lines that would be refused.
///
/// Nothing is sent.
pub(super) fn run(file: &Path, country: Option<Country>) -> Result<(), ImportError> {
    let mut lines = Lines::open(file, None, country)?;
    let (mut good, mut refused) = (0_u64, 0_u64);
    while let Some(line) = lines.next()? {
        match (line.contact, line.rewritten) {
            (Ok(contact), written) => {
                good += 1;
                if let Some(written) = written {
                    report(&describe_phone(line.number, &written, &contact));
                }
            }
            (Err(refusal), _) => {
                refused += 1;
                report(&describe(line.number, &refusal));
            }
        }
    }
    report(&format!("{good} contacts would be sent, {refused} lines refused"));
    if refused == 0 { Ok(()) } else { Err(ImportError::Refused { refused }) }
}
