//! Loads the master keys and the admin token, and creates them on the first start.

use std::path::PathBuf;

use postrider_actors::{MasterKeys, random};

use super::directory::DataDir;
use super::error::BootError;
use crate::http::AdminToken;
use crate::settings::{MasterKey, Secret, Secrets};

const MASTER_KEY_FILE: &str = "master.key";
/// The first file that the engine writes of all its data.
const FORMAT_FILE: &str = "format";
const ADMIN_TOKEN_FILE: &str = "admin.token";
/// The minimum number of characters of an admin token, so that it cannot be guessed.
const ADMIN_TOKEN_CHARS_MIN: usize = 16;

/// The source of the admin token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminTokenSource {
    /// The settings.
    Settings,
    /// This file.
    File(PathBuf),
}

/// Returns the master keys from which codes are derived.
pub(crate) fn master_keys(directory: &DataDir, secrets: &Secrets) -> Result<MasterKeys, BootError> {
    let current = match secrets.master_key {
        Some(key) => key,
        None => master_key_file(directory)?,
    };
    let keys = secrets.previous_master_keys.iter().copied();
    let keys = keys.chain([(secrets.master_key_version, current)]);
    let keys = MasterKeys::new(keys.map(|(version, key)| (version, key.reveal())));
    // The iterator has at least one key, so `new` returns keys.
    Ok(keys.unwrap_or_else(|| MasterKeys::single(current.reveal())))
}

/// Returns the master keys from the settings or the directory. Makes none.
pub(crate) fn known_master_keys(
    directory: &DataDir,
    secrets: &Secrets,
) -> Result<Option<MasterKeys>, BootError> {
    let is_there = secrets.master_key.is_some() || directory.file(MASTER_KEY_FILE).exists();
    is_there.then(|| master_keys(directory, secrets)).transpose()
}

fn master_key_file(directory: &DataDir) -> Result<MasterKey, BootError> {
    let path = directory.file(MASTER_KEY_FILE);
    if directory.file(FORMAT_FILE).exists() && !path.exists() {
        return Err(BootError::NoMasterKey(path));
    }
    let text = read_or_create(directory, MASTER_KEY_FILE)?;
    MasterKey::from_hex(&text).ok_or_else(|| BootError::Content {
        path,
        expected: "one line of 64 hexadecimal digits; a new key would make every code that is on \
                   its way wrong, so the server makes none",
    })
}

/// Returns the token of `/admin/v1`.
pub(crate) fn admin_token(
    directory: &DataDir,
    given: Option<&Secret>,
) -> Result<(AdminToken, AdminTokenSource), BootError> {
    if let Some(token) = given {
        return Ok((AdminToken::new(token.reveal()), AdminTokenSource::Settings));
    }
    let path = directory.file(ADMIN_TOKEN_FILE);
    let token = read_or_create(directory, ADMIN_TOKEN_FILE)?;
    let visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.len() < ADMIN_TOKEN_CHARS_MIN || !visible {
        let expected = "one line of at least 16 visible ASCII characters; remove the file to get a \
                        new token";
        return Err(BootError::Content { path, expected });
    }
    Ok((AdminToken::new(&token), AdminTokenSource::File(path)))
}

/// Reads the line of a file. A missing file is created with 64 random hexadecimal digits.
fn read_or_create(directory: &DataDir, name: &str) -> Result<String, BootError> {
    if let Some(line) = directory.read(name)? {
        return Ok(line);
    }
    let line: String = random::bytes::<32>().iter().map(|byte| format!("{byte:02x}")).collect();
    directory.write(name, &line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once() {
        let parent = tempfile::tempdir().unwrap();
        let directory = DataDir::open(parent.path(), false).unwrap();
        let (_, source) = admin_token(&directory, None).unwrap();
        assert_eq!(source, AdminTokenSource::File(directory.file("admin.token")));
        let made = directory.read("admin.token").unwrap().unwrap();
        assert_eq!(made.len(), 64);
        admin_token(&directory, None).unwrap();
        assert_eq!(directory.read("admin.token").unwrap().unwrap(), made);
    }

    #[test]
    fn a_token_that_is_given_makes_no_file() {
        let parent = tempfile::tempdir().unwrap();
        let directory = DataDir::open(parent.path(), false).unwrap();
        let (_, source) = admin_token(&directory, Some(&Secret::new("t"))).unwrap();
        assert_eq!(source, AdminTokenSource::Settings);
        assert!(!directory.file("admin.token").exists());
    }

    #[test]
    fn a_damaged_master_key_stops_the_start() {
        let parent = tempfile::tempdir().unwrap();
        let directory = DataDir::open(parent.path(), false).unwrap();
        let made = master_key_file(&directory).unwrap();
        assert!(master_key_file(&directory).unwrap() == made);
        std::fs::write(directory.file("master.key"), "half").unwrap();
        let message = master_key_file(&directory).unwrap_err().to_string();
        assert!(message.contains("master.key: must hold one line of 64 hexadecimal"), "{message}");
    }

    #[test]
    fn data_without_its_master_key_stops_the_start() {
        let parent = tempfile::tempdir().unwrap();
        let directory = DataDir::open(parent.path(), false).unwrap();
        std::fs::write(directory.file(FORMAT_FILE), "1\n").unwrap();
        let message = master_key_file(&directory).unwrap_err().to_string();
        assert!(message.contains("POSTRIDER__SECRETS__MASTER_KEY"), "{message}");
        assert!(!directory.file("master.key").exists());
    }
}
