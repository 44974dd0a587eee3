//! Reports agents' signs in conversations on the event stream, without entries in the log.

use postrider_actors::domain::AuditActor;
use postrider_actors::{ConversationAct, ConversationSign, Workspace};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

pub(super) const TYPING: &str = "conversation.typing";
pub(super) const NOTED: &str = "conversation.noted";

/// The signs that a stream emits.
pub(super) struct SignFeed {
    signs: Receiver<ConversationSign>,
    /// The types that are asked for.
    kinds: Vec<&'static str>,
}

impl SignFeed {
    pub(super) fn of(workspace: &Workspace, kinds: Vec<&'static str>) -> Self {
        Self { signs: workspace.watch_signs(), kinds }
    }

    /// Returns the next sign as a message of the stream.
    pub(super) async fn next(&mut self) -> String {
        loop {
            match self.signs.recv().await {
                Ok(sign) => match self.message(&sign) {
                    Some(message) => return message,
                    None => continue,
                },
                // Signs are short-lived, so missed ones do not matter.
                Err(RecvError::Lagged(_)) => {}
                // The workspace was removed, so no sign can come any more.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Returns the signs that have come already, as messages of the stream.
    pub(super) fn take(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.signs.try_recv() {
                Ok(sign) => text.extend(self.message(&sign)),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return text,
            }
        }
    }

    fn message(&self, sign: &ConversationSign) -> Option<String> {
        let kind = match sign.act {
            ConversationAct::Typing => TYPING,
            ConversationAct::Noted => NOTED,
        };
        let AuditActor { kind: is, id, name } = &sign.author;
        let data = json!({
            "conversation_id": sign.conversation.to_string(),
            "user": {"kind": is.as_str(), "id": id, "name": name.as_deref().unwrap_or_default()},
        });
        self.kinds.contains(&kind).then(|| format!("event: {kind}\ndata: {data}\n\n"))
    }
}
