//! Checks the other settings of a node of a cluster: required ones, and unsupported ones.

use std::path::PathBuf;

use super::Settings;
use super::cluster::Cluster;
use super::error::SettingsError;
use super::layers::Layers;

impl Settings {
    /// Checks the settings that a cluster requires, and those that it does not support.
    ///
    /// # Errors
    /// [`SettingsError::BadValue`] of the first setting that does not fit.
    pub(super) fn check_cluster(&self, layers: &Layers) -> Result<(), SettingsError> {
        if !self.cluster.is_on() {
            return Ok(());
        }
        let Cluster { tls_cert, tls_key, tls_ca, .. } = &self.cluster;
        let is_clear = [tls_cert, tls_key, tls_ca].iter().all(|file| file.is_none());
        let fits = |file: &Option<PathBuf>| file.is_some() || is_clear;
        let needs = [
            (self.cluster.node.is_some(), "cluster", "node", "1 to 32 of a-z, 0-9 and -"),
            (
                self.secrets.master_key.is_some(),
                "secrets",
                "master_key",
                "given in a cluster: the same 64 hexadecimal digits for every node",
            ),
            (self.admin.token.is_some(), "admin", "token", "given, the same text for every node"),
            (
                self.admin.listen.is_none(),
                "admin",
                "listen",
                "empty in a cluster, where operators have no listener of their own yet",
            ),
            (
                fits(tls_cert),
                "cluster",
                "tls_cert",
                "a path, as for cluster.tls_key and cluster.tls_ca: all three are given, or none",
            ),
            (
                fits(tls_key),
                "cluster",
                "tls_key",
                "a path, as for cluster.tls_cert and cluster.tls_ca: all three are given, or none",
            ),
            (
                fits(tls_ca),
                "cluster",
                "tls_ca",
                "a path, as for cluster.tls_cert and cluster.tls_key: all three are given, or none",
            ),
            (
                self.traces.endpoint.is_none(),
                "traces",
                "endpoint",
                "empty in a cluster, where no request is followed yet",
            ),
        ];
        match needs.into_iter().find(|(is_kept, ..)| !is_kept) {
            None => Ok(()),
            Some((_, section, key, allowed)) => Err(SettingsError::BadValue {
                origin: layers.origin(section, key),
                key: format!("{section}.{key}"),
                allowed: allowed.to_owned(),
            }),
        }
    }
}
