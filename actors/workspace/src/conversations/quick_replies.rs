//! Quick replies: answers that agents write often.
//!
//! `Table::Conversations` has them under `workspace ‖ 0 ‖ q ‖ id` as JSON.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{QuickReplyId, Timestamp, WorkspaceId};
use postrider_runtime::random;
use postrider_store::view::codec;
use postrider_store::{Direction as ScanDirection, StoreError, Table, View};

use crate::Workspace;
use crate::conversations::record::prefix;
use crate::core::command::{Command, Context, Footprint};

/// The maximum of quick replies of a workspace.
pub const QUICK_REPLIES_MAX: usize = 200;

/// An answer that agents write often. This is its record too, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuickReply {
    /// The id in every call.
    pub id: QuickReplyId,
    /// The name.
    pub name: String,
    /// The text.
    pub text: String,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// The reason why a quick reply was not created or deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuickReplyError {
    /// The workspace has no such quick reply.
    #[error("no such quick reply")]
    NotFound,
    /// The workspace has as many quick replies as it may.
    #[error("a workspace has at most 200 quick replies")]
    TooMany,
    /// The change cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Stores an answer that agents write often.
    ///
    /// # Errors
    /// [`QuickReplyError`]: there are too many, or not now.
    pub async fn create_quick_reply(
        &self,
        name: String,
        text: String,
    ) -> Result<QuickReply, QuickReplyError> {
        self.perform(CreateQuickReply { name, text, unique: random::unique() }).await
    }

    /// Deletes a quick reply.
    ///
    /// # Errors
    /// [`QuickReplyError`]: there is none, or not now.
    pub async fn delete_quick_reply(&self, id: QuickReplyId) -> Result<(), QuickReplyError> {
        self.perform(DeleteQuickReply { id }).await
    }

    /// Returns all quick replies, oldest first; there are few.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn quick_replies(&self) -> Result<Vec<QuickReply>, Unavailable> {
        self.read(all).await
    }
}

fn key(workspace: &WorkspaceId, id: QuickReplyId) -> Vec<u8> {
    [prefix(workspace, b'q').as_slice(), id.as_bytes()].concat()
}

fn all(store: &dyn View, workspace: &WorkspaceId) -> Result<Vec<QuickReply>, StoreError> {
    let mut found = Vec::new();
    let (prefix, direction) = (prefix(workspace, b'q'), ScanDirection::Forward);
    store.scan(Table::Conversations, &prefix, None, direction, &mut |_, value| {
        found.push(codec::decode(value));
        ControlFlow::Continue(())
    })?;
    found.into_iter().collect()
}

struct CreateQuickReply {
    name: String,
    text: String,
    unique: u128,
}

impl Command for CreateQuickReply {
    type Answer = QuickReply;
    type Error = QuickReplyError;

    const FOOTPRINT: Footprint = Footprint::Grows;

    fn carry_out(self, context: &mut Context<'_>) -> Result<QuickReply, QuickReplyError> {
        let Self { name, text, unique } = self;
        let workspace = context.core.id.clone();
        let mut count = 0;
        // Quick replies that are created at the same moment are not counted: the bound is for
        // sanity.
        context.scan(Table::Conversations, &prefix(&workspace, b'q'), &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        if count >= QUICK_REPLIES_MAX {
            return Err(QuickReplyError::TooMany);
        }
        let now = context.now();
        let id = QuickReplyId::from_parts(now, unique);
        let reply = QuickReply { id, name, text, created_at: now };
        context.put_json(Table::Conversations, key(&workspace, id), &reply);
        Ok(reply)
    }
}

struct DeleteQuickReply {
    id: QuickReplyId,
}

impl Command for DeleteQuickReply {
    type Answer = ();
    type Error = QuickReplyError;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), QuickReplyError> {
        let key = key(&context.core.id, self.id);
        context.get(Table::Conversations, &key)?.ok_or(QuickReplyError::NotFound)?;
        context.delete(Table::Conversations, key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use postrider_domain::golden::{AT, Sheet, UNIQUE};

    #[test]
    fn a_quick_reply_is_stored_as_ever() {
        let id = QuickReplyId::from_parts(AT, UNIQUE);
        let reply = QuickReply { id, name: "Hi".into(), text: "Hé".into(), created_at: AT };
        let mut sheet = Sheet::default();
        sheet.text("key", &key(&"acme".parse().unwrap(), id));
        sheet.json("quick reply", &reply);
        sheet.is(expect![[r#"
            key: acme\x00q\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
            quick reply: {"id":"qrp_01hf7yat3v041061050r3gg28a","name":"Hi","text":"Hé","created_at":1700000000123}
        "#]]);
    }
}
