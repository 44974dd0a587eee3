//! What the owner of a shard is asked by other nodes, and what it answers.

use std::time::Duration;

use postrider_actors::domain::{PersonId, Timestamp, WorkspaceId};
use postrider_actors::{BucketState, Person, RemoteSession, SignedIn};
use serde::{Deserialize, Serialize};

use crate::http::elsewhere::KnownWorkspace;

/// What an owner of a shard is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Question {
    /// Whose session this is. A request is counted, unless it is only looked at.
    Session { token: String, counts: bool },
    /// Which admin token this is.
    Token { token: String },
    /// Who has these ids.
    People { ids: Vec<PersonId> },
    /// Which workspaces have these ids, or the first ones of the shard.
    Workspaces { ids: Option<Vec<WorkspaceId>> },
    /// Nobody shall be a member of this workspace, if it is not there.
    Forget { workspace: WorkspaceId },
}

/// What it answers.
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
    /// What it allows and what is left of it, when it is full again, and its seconds.
    pub(super) bucket: Option<(u32, u32, Timestamp, u32)>,
}

impl SessionReply {
    /// What the pipeline of an engine gets.
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
