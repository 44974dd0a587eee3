//! Pure: how far the deletion of conversations has come.

/// How far conversations are deleted. What is deleted leaves traces in the store for a while, which
/// are slow to pass, so each call goes on where the one before it was.
#[derive(Debug)]
pub(crate) struct DeletionProgress {
    /// Something may be left.
    pub(crate) any: bool,
    /// Nothing is left of those whose key is before this: they come in the order of their keys.
    pub(crate) from: Vec<u8>,
    /// Nothing is left of the first one's messages whose key is before this.
    pub(crate) message_from: Vec<u8>,
}

impl Default for DeletionProgress {
    fn default() -> Self {
        Self { any: true, from: Vec::new(), message_from: Vec::new() }
    }
}

impl DeletionProgress {
    /// Whether something may be left.
    pub(crate) const fn any(&self) -> bool {
        self.any
    }
}
