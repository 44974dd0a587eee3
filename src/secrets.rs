//! The secrets of a server: given by the settings, or made on the first start.

use std::path::Path;

use postrider_actors::{MasterKeys, random};

use crate::files::{self, FileError};
use crate::http::AdminToken;
use crate::settings::{MasterKey, Settings};

/// The file that holds the master key.
const MASTER_KEY_FILE: &str = "master.key";
/// The file that holds the admin token.
pub(crate) const ADMIN_TOKEN_FILE: &str = "admin.token";

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A file could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file of the master key holds something else.
    #[error("{0}: must hold 64 hexadecimal digits")]
    MasterKeyFile(String),
    /// The file of the admin token is empty.
    #[error("{0}: must hold the admin token; delete it to have a new one made")]
    AdminTokenFile(String),
    /// The settings give no version of the master key that can be used.
    #[error("secrets.master_key_version: there is no master key of any version")]
    NoMasterKey,
}

/// The master keys: that of the settings, or of the file, and the earlier ones.
pub(crate) fn master_keys(settings: &Settings) -> Result<MasterKeys, SecretsError> {
    let secrets = &settings.secrets;
    let current = match &secrets.master_key {
        Some(key) => key.reveal(),
        None => master_key_file(&settings.server.data_dir.join(MASTER_KEY_FILE))?,
    };
    let previous = secrets.previous_master_keys.iter().map(|(of, key)| (*of, key.reveal()));
    MasterKeys::new(previous.chain([(secrets.master_key_version, current)]))
        .ok_or(SecretsError::NoMasterKey)
}

fn master_key_file(path: &Path) -> Result<[u8; 32], SecretsError> {
    if let Some(text) = files::read_secret(path)? {
        let key = MasterKey::from_hex(&text).map(|key| key.reveal());
        return key.ok_or_else(|| SecretsError::MasterKeyFile(path.display().to_string()));
    }
    let key = random::bytes::<32>();
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    files::write_secret(path, &hex)?;
    Ok(key)
}

/// The admin token: that of the settings, or of the file.
pub(crate) fn admin_token(settings: &Settings) -> Result<AdminToken, SecretsError> {
    if let Some(token) = &settings.admin.token {
        return Ok(AdminToken::new(token.reveal()));
    }
    let path = settings.server.data_dir.join(ADMIN_TOKEN_FILE);
    if let Some(token) = files::read_secret(&path)? {
        if token.is_empty() {
            return Err(SecretsError::AdminTokenFile(path.display().to_string()));
        }
        return Ok(AdminToken::new(&token));
    }
    let token: String =
        random::bytes::<32>().iter().map(|byte| format!("{byte:02x}")).collect();
    files::write_secret(&path, &token)?;
    Ok(AdminToken::new(&token))
}
