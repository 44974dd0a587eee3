//! Shows the outcome of a command on data, to people or to programs.

use serde_json::{Value, json};

use crate::cli::error::CliError;
use crate::cli::output::print;

/// The outcome of a command: the object for programs, and the text for people.
pub(super) struct Report {
    pub(super) object: Value,
    pub(super) text: String,
}

/// Shows a report. With `as_json`, an error is an object on standard output too.
pub(super) fn show(as_json: bool, done: Result<Report, CliError>) -> Result<(), CliError> {
    match done {
        Ok(Report { object, text }) => print(as_json, &object, &text),
        Err(error) if as_json => {
            let code = match &error {
                CliError::Copy(error) => error.code().to_owned(),
                CliError::Cluster(error) => error.code(),
                _ => "IO".to_owned(),
            };
            print(true, &json!({ "error": code, "message": error.to_string() }), "")?;
            Err(CliError::Reported)
        }
        Err(error) => Err(error),
    }
}
