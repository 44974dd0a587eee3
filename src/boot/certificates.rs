//! Reads certificates that are trusted in addition to those of the system.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::error::BootError;

/// Reads the certificates of `file`. Without a file there are none.
///
/// # Errors
/// [`BootError`] when the file cannot be read or contains no certificate.
pub(crate) fn certificates(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, BootError> {
    let Some(path) = file else { return Ok(Vec::new()) };
    let pem =
        std::fs::read(path).map_err(|source| BootError::File { path: path.to_owned(), source })?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(BootError::Content {
            path: path.to_owned(),
            expected: "certificates in PEM (`cloud_api.ca_file`, `email.ca_file`)",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let read = || certificates(Some(&path));
        assert!(matches!(read(), Err(BootError::File { .. })));
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(read(), Err(BootError::Content { .. })), "{text}");
        }
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n")
            .unwrap();
        assert_eq!(read().unwrap()[0].as_ref(), [0, 1, 2]);
        assert!(certificates(None).unwrap().is_empty());
    }
}
