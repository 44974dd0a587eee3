//! Makes and revokes admin tokens, on the record.

use postrider_domain::AdminTokenId;
use postrider_domain::unavailable::Unavailable;
use postrider_runtime::task::detached;

use crate::access::{CreatedAdminToken, NewAdminToken};

use super::Admin;

impl Admin {
    /// Makes an admin token, which works when this returns. Its text is in the answer and nowhere
    /// else.
    ///
    /// # Errors
    /// [`Unavailable`]: not now.
    pub async fn create_admin_token(
        &self,
        new: NewAdminToken,
    ) -> Result<CreatedAdminToken, Unavailable> {
        let admin = self.clone();
        // On its own, so that a caller that goes away does not leave it half done.
        detached(async move { Ok(admin.access.create_admin_token(new, &admin.caller).await?) })
            .await
    }

    /// Revokes an admin token; it does not work any more when this returns. `false`: there is none
    /// of this id.
    ///
    /// # Errors
    /// [`Unavailable`]: not now.
    pub async fn revoke_admin_token(&self, id: AdminTokenId) -> Result<bool, Unavailable> {
        let admin = self.clone();
        detached(async move { Ok(admin.access.revoke_admin_token(id, &admin.caller).await?) }).await
    }
}
