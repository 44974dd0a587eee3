//! The questions that other nodes ask the owner of a shard, and its answers.

use std::time::Duration;

use postrider_actors::domain::{PersonId, Timestamp, WorkspaceId};
use postrider_actors::{BucketState, Person, RemoteSession, SignedIn};
use serde::{Deserialize, Serialize};

use crate::http::elsewhere::KnownWorkspace;

/// A question to the owner of a shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Question {
    /// Asks for the session of a token. It counts as a request if `counts` is set.
    Session { token: String, counts: bool },
    /// Asks for the admin token.
    Token { token: String },
    /// Asks for the people with these ids.
    People { ids: Vec<PersonId> },
    /// Asks for the workspaces with these ids, or for the first ones of the shard.
    Workspaces { ids: Option<Vec<WorkspaceId>> },
    /// Removes all members of this workspace, if it does not exist.
    Forget { workspace: WorkspaceId },
}

/// The answer to a question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PeerAnswer {
    Session(Option<Box<SessionReply>>),
    Token(Option<(Box<str>, Box<str>)>),
    People(Vec<Person>),
    Workspaces(Vec<KnownWorkspace>),
    Forgotten,
}

/// A session, how long its holder has to wait, and its bucket.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SessionReply {
    pub(super) session: RemoteSession,
    pub(super) wait: Option<Duration>,
    /// The limit, the remainder, the time when it is full again, and the window in seconds.
    pub(super) bucket: Option<(u32, u32, Timestamp, u32)>,
}

impl SessionReply {
    /// Returns the parts that the pipeline of an engine needs.
    pub(super) fn visit(self) -> (SignedIn, Option<Duration>, Option<BucketState>) {
        let bucket = self.bucket.map(|(limit, remaining, full_at, window_s)| BucketState {
            limit,
            remaining,
            full_at,
            window_s,
        });
        (self.session.signed_in(), self.wait, bucket)
    }
}
