//! What the provider calls back about.

use crate::channel::callback::Callback;
use crate::domain::NumberId;

use super::Workspace;
use super::messages::Unavailable;

impl Workspace {
    /// Takes a callback about the number.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn receive(&self, _number: NumberId, _callback: Callback) -> Result<(), Unavailable> {
        Ok(())
    }
}
