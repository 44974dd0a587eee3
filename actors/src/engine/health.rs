//! Whether an engine takes work.

use super::Engine;

/// Whether the engine takes work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether it does.
    pub ready: bool,
    /// What stands in the way, for an operator.
    pub reasons: Vec<String>,
}

impl Engine {
    /// Whether the engine takes work.
    #[must_use]
    pub fn health(&self) -> Health {
        let shared = &self.inner.shared;
        let mut reasons = Vec::new();
        if !shared.admission.is_open() {
            reasons.push("shutting down".to_owned());
        }
        if !shared.writer.is_healthy() {
            reasons.push("storage is failing".to_owned());
        }
        if self.inner.root.get_status() != ractor::ActorStatus::Running {
            reasons.push("the engine's supervisor has stopped".to_owned());
        }
        Health { ready: reasons.is_empty(), reasons }
    }
}
