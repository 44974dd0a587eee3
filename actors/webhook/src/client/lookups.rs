//! Looks up the names of receivers: a bounded number at once, and few of one workspace.
//!
//! The system's resolver takes a thread for as long as a name server lets it wait, and cannot be
//! interrupted. So a look-up holds its places until it has ended, even if its caller waits no more.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use postrider_domain::WorkspaceId;
use postrider_runtime::task::BoxFuture;
use tokio::sync::Semaphore;

/// The maximum of look-ups of all workspaces at once.
const LOOKUPS_MAX: usize = 16;
/// The maximum of look-ups of one workspace at once.
const LOOKUPS_PER_WORKSPACE_MAX: usize = 2;
/// The maximum time that a caller waits for a look-up, once it has started.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

tokio::task_local! {
    /// The workspace whose delivery the task makes. The connector asks for names without naming
    /// one.
    static DELIVERS_FOR: WorkspaceId;
}

/// Runs `posting`, whose look-ups are those of this workspace.
pub(crate) async fn on_behalf_of<T>(
    workspace: &WorkspaceId,
    posting: impl Future<Output = T> + Send,
) -> T {
    DELIVERS_FOR.scope(workspace.clone(), posting).await
}

/// Returns the workspace whose delivery the current task makes, if it makes one.
pub(crate) fn current_workspace() -> Option<WorkspaceId> {
    DELIVERS_FOR.try_with(Clone::clone).ok()
}

/// The source of a name's addresses: the system, or in tests a script.
pub(crate) trait Resolver: Send + Sync + 'static {
    /// Returns the addresses of `name`. Their port is 0.
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// The resolver of the operating system.
pub(crate) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
    }
}

/// All look-ups under way.
pub(crate) struct Lookups {
    resolver: Box<dyn Resolver>,
    all: Arc<Semaphore>,
    /// The places of each workspace that looks a name up or did so lately.
    workspaces: Mutex<HashMap<Option<WorkspaceId>, Arc<Semaphore>>>,
}

impl Lookups {
    pub(crate) fn new(resolver: impl Resolver) -> Self {
        Self {
            resolver: Box::new(resolver),
            all: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            workspaces: Mutex::default(),
        }
    }

    /// Returns the addresses of `name`, looked up for this workspace in its turn.
    pub(crate) async fn resolve(
        &self,
        workspace: Option<WorkspaceId>,
        name: String,
    ) -> io::Result<Vec<SocketAddr>> {
        // The workspace's place comes first: so the workspace has no more look-ups than its places
        // in the queue of all, which is served in order.
        let own = self.places_of(workspace).acquire_owned().await;
        let of_all = Arc::clone(&self.all).acquire_owned().await;
        let looking_up = self.resolver.resolve(name);
        let looking_up = tokio::spawn(async move {
            let found = looking_up.await;
            drop((own, of_all));
            found
        });
        match tokio::time::timeout(LOOKUP_TIMEOUT, looking_up).await {
            Ok(Ok(found)) => found,
            Ok(Err(failed)) => Err(io::Error::other(failed)),
            Err(late) => Err(late.into()),
        }
    }

    fn places_of(&self, workspace: Option<WorkspaceId>) -> Arc<Semaphore> {
        let mut workspaces = self.workspaces.lock();
        // At most as many are in use as there are requests under way, so this looks at few.
        workspaces.retain(|_, places| Arc::strong_count(places) > 1);
        let new = || Arc::new(Semaphore::new(LOOKUPS_PER_WORKSPACE_MAX));
        Arc::clone(workspaces.entry(workspace).or_insert_with(new))
    }
}

/// A resolver that goes by a script, for tests.
#[cfg(test)]
pub(crate) mod scripted {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    /// Look-ups that end one by one, when the test lets them.
    #[derive(Clone)]
    pub(crate) struct Scripted {
        may_end: Arc<Semaphore>,
        under_way: Arc<Mutex<Vec<String>>>,
    }

    impl Scripted {
        pub(crate) fn new() -> Self {
            Self { may_end: Arc::new(Semaphore::new(0)), under_way: Arc::default() }
        }

        /// Lets so many look-ups end.
        pub(crate) fn end(&self, count: usize) {
            self.may_end.add_permits(count);
        }

        /// Returns the names that are looked up now, in order.
        pub(crate) async fn under_way(&self) -> Vec<String> {
            // All ready tasks start before this task's turn comes again.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let mut names = self.under_way.lock().clone();
            names.sort();
            names
        }
    }

    impl Resolver for Scripted {
        fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
            let Self { may_end, under_way } = self.clone();
            under_way.lock().push(name.clone());
            Box::pin(async move {
                may_end.acquire_owned().await.unwrap().forget();
                let mut names = under_way.lock();
                let at = names.iter().position(|it| *it == name).unwrap();
                names.remove(at);
                Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)])
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::scripted::Scripted;
    use super::*;

    struct Rig {
        script: Scripted,
        lookups: Arc<Lookups>,
        callers: JoinSet<io::Result<Vec<SocketAddr>>>,
    }

    impl Rig {
        fn new() -> Self {
            let script = Scripted::new();
            let lookups = Arc::new(Lookups::new(script.clone()));
            Self { script, lookups, callers: JoinSet::new() }
        }

        fn look_up(&mut self, of: &str, names: impl IntoIterator<Item = &'static str>) {
            for name in names {
                let (lookups, of) = (Arc::clone(&self.lookups), of.parse().unwrap());
                self.callers.spawn(async move { lookups.resolve(Some(of), name.into()).await });
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_workspace_has_two_look_ups_at_once_and_all_have_sixteen() {
        let mut rig = Rig::new();
        rig.look_up("loud", ["l"; 50]);
        assert_eq!(rig.script.under_way().await, ["l"; 2]);
        for of in 0..20 {
            rig.look_up(&format!("w{of}"), ["q"]);
        }
        let under_way = rig.script.under_way().await;
        let loud = under_way.iter().filter(|name| *name == "l").count();
        assert_eq!((under_way.len(), loud), (16, 2));
        // As they end, every caller has its answer, and the bound stays.
        for _ in 0..70 {
            rig.script.end(1);
            rig.callers.join_next().await.unwrap().unwrap().unwrap();
            assert!(rig.script.under_way().await.len() <= 16);
        }
        assert!(rig.callers.is_empty());
        assert!(rig.script.under_way().await.is_empty());
        drop(rig.lookups.places_of(None));
        assert!(rig.lookups.workspaces.lock().len() <= 1, "nothing is kept of who is done");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_waits_five_seconds_and_the_place_is_held_until_the_end() {
        let mut rig = Rig::new();
        rig.look_up("acme", ["never", "never"]);
        assert_eq!(rig.script.under_way().await.len(), 2);
        for _ in 0..2 {
            let late = rig.callers.join_next().await.unwrap().unwrap().unwrap_err();
            assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        }
        rig.look_up("acme", ["next"]);
        rig.look_up("other", ["other"]);
        assert_eq!(rig.script.under_way().await, ["never", "never", "other"]);
        rig.script.end(3);
        rig.callers.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(rig.script.under_way().await, ["next"]);
        rig.script.end(1);
        rig.callers.join_next().await.unwrap().unwrap().unwrap();
    }
}
