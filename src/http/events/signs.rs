//! Reports on the event stream what agents do in conversations. No entry of the log is made for it.

use postrider_actors::domain::AuditActor;
use postrider_actors::{ConversationAct, ConversationSign, Workspace};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

pub(super) const TYPING: &str = "conversation.typing";
pub(super) const NOTED: &str = "conversation.noted";

/// What a stream emits of the signs.
pub(super) struct SignFeed {
    signs: Receiver<ConversationSign>,
    /// The types that are asked for.
    kinds: Vec<&'static str>,
}

impl SignFeed {
    pub(super) fn of(workspace: &Workspace, kinds: Vec<&'static str>) -> Self {
        Self { signs: workspace.watch_signs(), kinds }
    }

    /// The next sign as a message of the stream.
    pub(super) async fn next(&mut self) -> String {
        loop {
            match self.signs.recv().await {
                Ok(sign) => match self.message(&sign) {
                    Some(message) => return message,
                    None => continue,
                },
                // Signs pass anyhow.
                Err(RecvError::Lagged(_)) => {}
                // The workspace was removed, and so is what could come.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Those that have come already.
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
