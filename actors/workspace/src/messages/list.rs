//! Lists single messages, newest first.
//!
//! Their records are in the order of their ids, which begin with the moment. A filter reads each
//! record, so a page looks at a bounded number of them, and can be short of rows before the end.

use std::ops::ControlFlow;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MessageId, PartyId, Timestamp, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table, View};

use crate::Workspace;
use crate::core::message_status::MessageStatus;
use crate::messages::record::MessageState;

/// Records that one page looks at: some 50 ms of them. A message has two.
const LOOKED_AT_MAX: usize = 20_000;

/// Which messages are asked for; the default is all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageFilter {
    /// Those to this phone or person.
    pub to: Option<PartyId>,
    /// Those that stand so.
    pub status: Option<MessageStatus>,
    /// Those of this template, in any language.
    pub template: Option<String>,
    /// Those that were accepted at this moment or later.
    pub since: Option<Timestamp>,
    /// Those that were accepted before this moment.
    pub until: Option<Timestamp>,
}

impl MessageFilter {
    fn takes(&self, state: &MessageState) -> bool {
        let template = state.template.as_ref().map(|template| &*template.name);
        self.to.as_ref().is_none_or(|to| *to == state.to)
            && self.status.is_none_or(|status| status == state.status)
            && self.template.as_deref().is_none_or(|name| template == Some(name))
    }
}

/// A page of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessagesListed {
    /// Newest first.
    pub messages: Vec<MessageState>,
    /// The next page is of those before this one; `None`: there is none.
    pub next: Option<MessageId>,
}

impl Workspace {
    /// The single messages that a filter asks for, newest first: at most `limit` of them, from
    /// before `after` on. Messages of broadcasts are not among them. A page looks at a bounded part
    /// of them, so it can be empty before the end.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn messages(
        &self,
        filter: MessageFilter,
        after: Option<MessageId>,
        limit: usize,
    ) -> Result<MessagesListed, Unavailable> {
        self.scan(move |store, workspace| list(store, workspace, &filter, after, limit)).await
    }
}

fn list(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &MessageFilter,
    after: Option<MessageId>,
    limit: usize,
) -> Result<MessagesListed, StoreError> {
    let prefix = MessageState::prefix(workspace);
    let until = filter.until.map(|until| MessageId::from_parts(until, 0));
    let before = [after, until].into_iter().flatten().min();
    let from = before.map(|id| MessageState::key(workspace, id));
    let (mut messages, mut next, mut looked_at) = (Vec::new(), None, 0);
    let (mut last, mut damage) = (None, None);
    store.scan(
        Table::Messages,
        &prefix,
        from.as_deref(),
        Direction::Backward,
        &mut |key, value| {
            // Those of 16 bytes are messages; others have a letter behind, and are parts of one.
            let Some(id) = key[prefix.len()..].try_into().ok().map(MessageId::from_bytes) else {
                looked_at += 1;
                return ControlFlow::Continue(());
            };
            if Some(id) == before {
                return ControlFlow::Continue(());
            }
            if filter.since.is_some_and(|since| id.timestamp() < since) {
                return ControlFlow::Break(());
            }
            if messages.len() == limit || looked_at >= LOOKED_AT_MAX {
                next = last;
                return ControlFlow::Break(());
            }
            looked_at += 1;
            last = Some(id);
            match codec::decode::<MessageState>(value) {
                Ok(state) => messages.extend(Some(state).filter(|state| filter.takes(state))),
                Err(error) => {
                    damage = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        },
    )?;
    damage.map_or(Ok(MessagesListed { messages, next }), Err)
}
