//! Pure: master keys, and the keys for codes that are derived from them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::code::{CallerHash, CodeLength};
use crate::{CodeKey, OtpCode, Phone, RequestId, WorkspaceId};

/// The engine's master keys by version. New codes use the highest version. The others still verify
/// earlier codes, and can be dropped two hours after a rotation.
#[derive(Clone)]
pub struct MasterKeys {
    keys: BTreeMap<u8, [u8; 32]>,
    current: u8,
}

impl MasterKeys {
    /// Creates a set of a single key, as version 1.
    #[must_use]
    pub fn single(key: [u8; 32]) -> Self {
        Self { keys: BTreeMap::from([(1, key)]), current: 1 }
    }

    /// Creates a set of keys with their versions. Returns `None` if there are none.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = (u8, [u8; 32])>) -> Option<Self> {
        let keys: BTreeMap<_, _> = keys.into_iter().collect();
        let current = *keys.last_key_value()?.0;
        Some(Self { keys, current })
    }

    /// Returns the keys from which a workspace's codes are made.
    pub fn code_keys(&self, workspace: &WorkspaceId) -> CodeKeys {
        let derive = |(version, key): (&u8, &[u8; 32])| {
            (*version, Arc::new(CodeKey::derive(key, workspace)))
        };
        CodeKeys { keys: self.keys.iter().map(derive).collect(), current: self.current }
    }

    /// Returns whether there are versions before the current one.
    pub fn has_earlier(&self) -> bool {
        self.keys.len() > 1
    }

    /// Returns the current version, and the key that is derived from it for one purpose.
    pub fn current_for(&self, purpose: &[u8]) -> (u8, [u8; 32]) {
        // `current` is always one of the versions, so the default is never used.
        let master = self.keys.get(&self.current).copied().unwrap_or_default();
        (self.current, derive(&master, purpose))
    }

    /// Returns the key of each version for one purpose.
    pub fn all_for(&self, purpose: &[u8]) -> impl Iterator<Item = (u8, [u8; 32])> {
        self.keys.iter().map(|(version, master)| (*version, derive(master, purpose)))
    }

    /// Returns the key of a version for one purpose, unless the version was dropped.
    pub fn of_version_for(&self, version: u8, purpose: &[u8]) -> Option<[u8; 32]> {
        self.keys.get(&version).map(|master| derive(master, purpose))
    }
}

fn derive(master: &[u8; 32], purpose: &[u8]) -> [u8; 32] {
    // HMAC takes a key of any length (RFC 2104, section 2), so this cannot fail.
    #[allow(clippy::expect_used)]
    let mut mac = Hmac::<Sha256>::new_from_slice(master).expect("HMAC takes a key of any length");
    mac.update(purpose);
    mac.finalize().into_bytes().into()
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKeys(versions {:?})", self.keys.keys())
    }
}

/// A workspace's keys for codes, by version of the master key.
#[derive(Debug, Clone)]
pub struct CodeKeys {
    keys: Vec<(u8, Arc<CodeKey>)>,
    current: u8,
}

impl CodeKeys {
    /// Returns the version with which new codes are made.
    pub const fn current_version(&self) -> u8 {
        self.current
    }

    /// Returns the key of a version, unless it was dropped.
    pub fn of_version(&self, version: u8) -> Option<&Arc<CodeKey>> {
        self.keys.iter().find(|(of, _)| *of == version).map(|(_, key)| key)
    }

    /// Returns the hash of a caller under the current version, by which its sends are counted. A
    /// rotation of the master key drops the counts of the hour before.
    pub fn caller(&self, kind: &str, name: &[u8]) -> Option<CallerHash> {
        self.of_version(self.current).map(|key| key.caller(kind, name))
    }

    /// Returns every key.
    pub fn all(&self) -> impl Iterator<Item = &CodeKey> {
        self.keys.iter().map(|(_, key)| &**key)
    }

    /// Returns a request's code, unless its version of the key was dropped.
    pub fn code(
        &self,
        version: u8,
        request: RequestId,
        phone: Phone,
        length: CodeLength,
    ) -> Option<OtpCode> {
        self.of_version(version).map(|key| key.code(request, phone, length))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::golden::{AT, Sheet, UNIQUE};

    /// Every later version must verify the codes that are pending.
    #[test]
    fn codes_and_keys_are_derived_as_ever() {
        let keys = MasterKeys::new([(1, [7; 32]), (4, [9; 32])]).unwrap();
        let codes = keys.code_keys(&"acme".parse().unwrap());
        assert_eq!(codes.current_version(), 4);
        let mut sheet = Sheet::default();
        let request = RequestId::from_parts(AT, UNIQUE);
        for (version, digits) in [(1, 4), (1, 6), (1, 8), (4, 6)] {
            let length = CodeLength::from_digits(digits).unwrap();
            let phone = "+15550123456".parse().unwrap();
            let code = codes.code(version, request, phone, length).unwrap().reveal();
            sheet.text(&format!("code of {digits}, version {version}"), code.as_bytes());
        }
        let (version, key) = keys.current_for(b"a purpose");
        sheet.bytes(&format!("key for a purpose, version {version}"), &key);
        sheet.is(expect![[r#"
            code of 4, version 1: 0393
            code of 6, version 1: 580393
            code of 8, version 1: 63580393
            code of 6, version 4: 835438
            key for a purpose, version 4: fabcaf2b2d860f35b471ac5ea304b41081c0776c75ff6aadb7c7d7e294a2622d
        "#]]);
    }
}
