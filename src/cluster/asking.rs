//! Asks the owners of other shards for facts that an engine lacks: people are in the first shard.
//!
//! Handlers ask through [`Elsewhere`] once they find that they need such a fact.

use std::sync::{Arc, Weak};
use std::time::Duration;

use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::{AuditContext, PersonId, WorkspaceId};
use postrider_actors::{Person, home_of};
use postrider_cluster::NodeName;
use tokio::task::JoinSet;

use super::door::Shards;
use super::operations::Operations;
use super::questions::{PeerAnswer, Question, SessionReply};
use super::settled::{no_answer, no_owner};
use super::state::State;
use super::system::figures;
use crate::http::ApiError;
use crate::http::elsewhere::{
    Asked, ClusterAnswer, DrainAnswer, Elsewhere, Found, KnownWorkspace, MoveAnswer, ServerFigures,
    WORKSPACES_MAX, people_of, workspaces_of,
};

/// The shard that holds people, their sessions and the tokens of administrators.
pub(super) const PEOPLE: u16 = 0;
/// The wait before an owner is looked up again.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// The time that the owner of people waits for that of a workspace.
///
/// Nobody can become a member meanwhile.
const AT_ONCE: Duration = Duration::from_secs(1);

impl Shards {
    /// Answers a question from the engine of a shard that runs here.
    pub(super) async fn answer_question(
        self: &Arc<Self>,
        shard: u16,
        question: Question,
    ) -> Option<PeerAnswer> {
        let engine = self.engines.engine(shard).filter(|_| self.node.gate().admits(shard))?;
        let answer = match question {
            Question::Session { token, counts } => {
                let people = engine.people();
                PeerAnswer::Session(people.signed_in(&token).map(|signed_in| {
                    let counted = counts.then(|| people.admit(&signed_in.session));
                    let (wait, bucket) = counted.unwrap_or_default();
                    let bucket = bucket.map(|it| (it.limit, it.remaining, it.full_at, it.window_s));
                    Box::new(SessionReply { session: signed_in.remote(), wait, bucket })
                }))
            }
            Question::Token { token } => {
                let info = engine.access().authenticate_admin(&token);
                PeerAnswer::Token(info.map(|it| (it.id.to_string().into(), it.name.into())))
            }
            Question::People { ids } => {
                let people = people_of(&engine, &ids);
                PeerAnswer::People(people.iter().map(|it| it.without_secrets()).collect())
            }
            Question::Workspaces { ids } => {
                PeerAnswer::Workspaces(workspaces_of(&engine, ids.as_deref()).await.ok()?)
            }
            Question::Forget { workspace } => {
                let is_there = self.is_there(workspace.clone());
                let forgotten = engine.people().forget_workspace(workspace, is_there).await;
                forgotten.is_ok_and(|it| it).then_some(PeerAnswer::Forgotten)?
            }
        };
        // The answer counts only if the node may still answer.
        self.node.gate().answers(shard).then_some(answer)
    }

    /// Asks the owner of a shard, and waits a moment for one if there is none.
    pub(super) async fn ask(
        self: &Arc<Self>,
        shard: u16,
        question: Question,
    ) -> Result<PeerAnswer, ApiError> {
        let watch = Stopwatch::start();
        loop {
            match self.ask_once(shard, &question).await {
                Err(_) if watch.elapsed() < self.engines.settings.cluster.hold_ms => {}
                answer => return answer,
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Asks the current owner of a shard.
    pub(super) async fn ask_once(
        self: &Arc<Self>,
        shard: u16,
        question: &Question,
    ) -> Result<PeerAnswer, ApiError> {
        if let Some(answer) = self.answer_question(shard, question.clone()).await {
            return Ok(answer);
        }
        let seen = self.node.seen();
        let owner = seen.owner(shard).filter(|(name, ..)| *name != self.node.name());
        let Some((_, record, _)) = owner else { return Err(no_owner(shard)) };
        match self.peers.ask(&record.advertise, shard, question).await {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, shard, "another node does not answer"),
        }
        Err(no_answer(shard))
    }

    /// Returns whether a workspace exists; `None` if the owner of its shard does not answer at
    /// once.
    fn is_there(self: &Arc<Self>, id: WorkspaceId) -> Asked<'static, Option<bool>> {
        let shards = self.clone();
        Box::pin(async move {
            let shard = shards.shard_of(home_of(&id));
            let question = Question::Workspaces { ids: Some(vec![id]) };
            let asked = tokio::time::timeout(AT_ONCE, shards.ask_once(shard, &question)).await;
            match asked {
                Ok(Ok(PeerAnswer::Workspaces(found))) => Some(!found.is_empty()),
                _ => None,
            }
        })
    }

    /// Returns the workspaces of one shard: all with these ids, or its first ones.
    async fn ask_workspaces(
        self: &Arc<Self>,
        shard: u16,
        ids: Option<Vec<WorkspaceId>>,
    ) -> Result<Vec<KnownWorkspace>, ApiError> {
        match self.ask(shard, Question::Workspaces { ids }).await? {
            PeerAnswer::Workspaces(found) => Ok(found),
            _ => Err(no_answer(shard)),
        }
    }

    /// Returns a workspace as the owner of its shard reports it.
    pub(super) async fn ask_workspace(
        self: &Arc<Self>,
        id: WorkspaceId,
    ) -> Result<Option<KnownWorkspace>, ApiError> {
        let shard = self.shard_of(home_of(&id));
        Ok(self.ask_workspaces(shard, Some(vec![id])).await?.pop())
    }

    pub(super) fn shard_of(&self, home: u16) -> u16 {
        self.node.cluster().1.shard_of(home)
    }
}

/// Access to the other shards for an engine.
pub(super) struct OtherShards(pub(super) Weak<Shards>);

impl std::fmt::Debug for OtherShards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OtherShards")
    }
}

impl OtherShards {
    fn shards(&self) -> Result<Arc<Shards>, ApiError> {
        self.0.upgrade().ok_or_else(|| no_answer(PEOPLE))
    }
}

impl Elsewhere for OtherShards {
    fn people(&self, ids: Vec<PersonId>) -> Asked<'_, Result<Vec<Person>, ApiError>> {
        Box::pin(async move {
            match self.shards()?.ask(PEOPLE, Question::People { ids }).await? {
                PeerAnswer::People(people) => Ok(people),
                _ => Err(no_answer(PEOPLE)),
            }
        })
    }

    fn workspaces(&self, ids: Option<Vec<WorkspaceId>>) -> Asked<'_, Found<KnownWorkspace>> {
        Box::pin(async move {
            let shards = match self.shards() {
                Ok(shards) => shards,
                Err(error) => return (Vec::new(), Some(error)),
            };
            let wanted = ids.as_ref().map_or(0, Vec::len);
            let all = 0..shards.node.cluster().1.shards;
            let mut asked: Vec<(u16, Option<Vec<WorkspaceId>>)> = match ids {
                None => all.map(|shard| (shard, None)).collect(),
                Some(ids) => {
                    let of = |shard| {
                        let home = |id: &&WorkspaceId| shards.shard_of(home_of(id)) == shard;
                        ids.iter().filter(home).cloned().collect::<Vec<_>>()
                    };
                    all.map(|shard| (shard, Some(of(shard)))).collect()
                }
            };
            asked.retain(|(_, ids)| ids.as_ref().is_none_or(|ids| !ids.is_empty()));
            let mut asking = JoinSet::new();
            for (shard, ids) in asked {
                let shards = shards.clone();
                asking.spawn(async move { shards.ask_workspaces(shard, ids).await });
            }
            let (mut found, mut refusal) = (Vec::new(), None);
            while let Some(answer) = asking.join_next().await {
                match answer.unwrap_or_else(|_| Err(no_answer(PEOPLE))) {
                    Ok(some) => found.extend(some),
                    Err(error) => refusal = Some(error),
                }
            }
            found.sort_by(|a: &KnownWorkspace, b| a.id.as_str().cmp(b.id.as_str()));
            found.truncate(WORKSPACES_MAX.max(wanted));
            (found, refusal)
        })
    }

    fn node(&self) -> Asked<'_, Result<ServerFigures, ApiError>> {
        Box::pin(async move {
            let shards = self.shards()?;
            Ok(figures(&shards).await)
        })
    }

    fn cluster(&self) -> Result<ClusterAnswer, ApiError> {
        let shards = self.shards()?;
        Ok(State(&shards).status())
    }

    fn drain(
        &self,
        node: String,
        drains: bool,
        by: Arc<AuditContext>,
    ) -> Asked<'_, Result<DrainAnswer, ApiError>> {
        Box::pin(async move {
            let none = |_| ApiError::not_found("the cluster has no such node");
            let node = NodeName::new(&node).map_err(none)?;
            Operations(self.shards()?).drain(node, drains, &by).await
        })
    }

    fn move_shard(
        &self,
        shard: u16,
        to: String,
        by: Arc<AuditContext>,
    ) -> Asked<'_, Result<MoveAnswer, ApiError>> {
        Box::pin(async move { Operations(self.shards()?).move_shard(shard, &to, &by).await })
    }
}
