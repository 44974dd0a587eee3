//! Pure: the recipients that count of each portfolio, in memory and as rows for a commit.
//!
//! Broadcasts and the workspace's actor share them. They are changed at once, and their rows share
//! the commit of the messages for which they count. A recipient whose commit fails keeps its place
//! until its time is over. A sender that relies on a recipient that counts writes its row again. So
//! it does not matter which of several commits became durable. The sweep of a workspace deletes
//! rows that count no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;
use postrider_domain::{MasterKeys, PartyId, Timestamp, WorkspaceId};
use postrider_store::{StoreError, View};
use sha2::{Digest, Sha256};

use super::limit::PortfolioLimit;
use super::recipients::{MessageMark, UniqueRecipients, step_of};
use super::rows::{self, RowChange};

/// The hash of a recipient, and the mark of its message.
pub(crate) type CountedRecipient = (u64, MessageMark);

/// A portfolio of a workspace.
pub(crate) type PortfolioKey<'a> = (&'a WorkspaceId, &'a str);

/// A ledger; `None` until it is read from its rows.
type SharedLedger = Arc<Mutex<Option<Ledger>>>;

/// The recipients that count, of all workspaces' portfolios that were used since the start.
pub struct Portfolios {
    /// The key of the hashes.
    key: [u8; 32],
    all: DashMap<(WorkspaceId, Box<str>), SharedLedger>,
    /// Set once the limits that were reached before the start are checked.
    has_begun: AtomicBool,
}

/// The recipients that count of one portfolio.
pub(crate) struct Ledger {
    workspace: WorkspaceId,
    portfolio: Box<str>,
    pub(crate) recipients: UniqueRecipients,
    /// The last sequence that a row has.
    sequence: u64,
    /// The limit for broadcasts at the last check, and whether it was reached; `None`: check again.
    seen: Option<(Option<u32>, bool)>,
    /// The limit, until something may have changed it.
    limit: Option<PortfolioLimit>,
}

impl Portfolios {
    /// Creates an empty set of ledgers.
    ///
    /// Under another master key than before, a recipient who is written to again counts twice.
    #[must_use]
    pub fn new(keys: &MasterKeys) -> Self {
        let (_, key) = keys.current_for(b"portfolios");
        Self { key, all: DashMap::new(), has_begun: AtomicBool::new(false) }
    }

    /// Returns the hash of a recipient.
    pub(crate) fn hash(&self, workspace: &WorkspaceId, party: &PartyId) -> u64 {
        let digest = Sha256::new().chain_update(self.key).chain_update(workspace.as_str());
        let digest = digest.chain_update([0]).chain_update(party.key_bytes()).finalize();
        u64::from_be_bytes(std::array::from_fn(|at| digest[at]))
    }

    /// Lets `act` see and change the recipients that count of a portfolio at this moment.
    pub(crate) fn with<T>(
        &self,
        view: &dyn View,
        (workspace, portfolio): PortfolioKey<'_>,
        now: Timestamp,
        act: impl FnOnce(&mut Ledger) -> T,
    ) -> Result<T, StoreError> {
        let shared = self.shared((workspace, portfolio));
        let mut held = shared.lock();
        if held.is_none() {
            *held = Some(Ledger::load(view, (workspace, portfolio), now)?);
        }
        let missing = || StoreError::Failed("a portfolio was not loaded".into());
        let ledger = held.as_mut().ok_or_else(missing)?;
        ledger.recipients.advance(now);
        Ok(act(ledger))
    }

    /// Returns the ledger of a portfolio, which may not be read yet.
    fn shared(&self, (workspace, portfolio): PortfolioKey<'_>) -> SharedLedger {
        let made = || {
            let key = (workspace.clone(), Box::from(portfolio));
            Arc::clone(&self.all.entry(key).or_default())
        };
        self.known((workspace, portfolio)).unwrap_or_else(made)
    }

    /// Returns how many recipients count of a portfolio, and when the first of them counts no more.
    ///
    /// A portfolio that was not used since the start is not kept in memory for this.
    pub(crate) fn use_of(
        &self,
        view: &dyn View,
        (workspace, portfolio): PortfolioKey<'_>,
        now: Timestamp,
    ) -> Result<(u32, Option<Timestamp>), StoreError> {
        let use_of = |it: &UniqueRecipients| (it.used(), it.frees_at(1));
        if self.all.contains_key(&(workspace.clone(), Box::from(portfolio))) {
            return self.with(view, (workspace, portfolio), now, |it| use_of(&it.recipients));
        }
        Ok(use_of(&Ledger::load(view, (workspace, portfolio), now)?.recipients))
    }

    /// Returns all ledgers.
    ///
    /// The holder of a ledger does no more than read the store, so no lock of one is awaited while
    /// the map is held.
    fn every(&self) -> Vec<((WorkspaceId, Box<str>), SharedLedger)> {
        let all = self.all.iter();
        all.map(|entry| (entry.key().clone(), Arc::clone(entry.value()))).collect()
    }

    /// Returns the limit of a portfolio, unless something may have changed it since it was noted.
    pub(crate) fn limit(&self, (workspace, portfolio): PortfolioKey<'_>) -> Option<PortfolioLimit> {
        self.known((workspace, portfolio))?.lock().as_ref()?.limit
    }

    /// Notes the limit of a portfolio in use.
    ///
    /// Only the workspace's actor calls it: it sees changes that are not durable yet.
    pub(crate) fn note_limit(&self, place: PortfolioKey<'_>, limit: PortfolioLimit) {
        if let Some(shared) = self.known(place)
            && let Some(ledger) = &mut *shared.lock()
        {
            ledger.limit = Some(limit);
        }
    }

    fn known(&self, (workspace, portfolio): PortfolioKey<'_>) -> Option<SharedLedger> {
        let known = self.all.get(&(workspace.clone(), Box::from(portfolio)))?;
        Some(Arc::clone(&known))
    }

    /// Has the limits of a workspace read and checked again.
    pub(crate) fn look_again(&self, workspace: &WorkspaceId) {
        for ((of, _), ledger) in self.every() {
            if of == *workspace
                && let Some(ledger) = &mut *ledger.lock()
            {
                (ledger.seen, ledger.limit) = (None, None);
            }
        }
    }

    /// Returns whether this is the first call since the start.
    pub(crate) fn begins(&self) -> bool {
        !self.has_begun.swap(true, Ordering::Relaxed)
    }

    /// Reads the recipients of a workspace's portfolios whose limit is reported as reached.
    ///
    /// So it is noticed when a limit no longer is.
    pub(crate) fn read_reported(
        &self,
        view: &dyn View,
        workspace: &WorkspaceId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        for portfolio in rows::reported(view, workspace)? {
            self.with(view, (workspace, &portfolio), now, |_| ())?;
        }
        Ok(())
    }

    /// Returns the portfolios whose limits are to be checked, for being reached or no longer
    /// reached.
    pub(crate) fn to_look_at(&self, now: Timestamp) -> Vec<(WorkspaceId, Box<str>)> {
        let mut found = Vec::new();
        for (place, ledger) in self.every() {
            // A ledger that is held is checked with the next beat.
            let Some(mut held) = ledger.try_lock() else { continue };
            let Some(ledger) = &mut *held else { continue };
            ledger.recipients.advance(now);
            if ledger.is_to_look_at() {
                found.push(place);
            }
        }
        found
    }

    /// Returns how many recipients count of each portfolio that was used since the start.
    pub fn used(&self, now: Timestamp) -> Vec<(WorkspaceId, Box<str>, u32)> {
        let used = |((workspace, id), ledger): ((_, _), SharedLedger)| {
            let mut held = ledger.try_lock()?;
            let recipients = &mut held.as_mut()?.recipients;
            recipients.advance(now);
            Some((workspace, id, recipients.used()))
        };
        self.every().into_iter().filter_map(used).collect()
    }

    /// Forgets the portfolios of a deleted workspace.
    pub fn forget(&self, workspace: &WorkspaceId) {
        self.all.retain(|(of, _), _| of != workspace);
    }
}

impl Ledger {
    fn load(
        view: &dyn View,
        (workspace, portfolio): PortfolioKey<'_>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let rows::LoadedRows { recipients, sequence, damaged } =
            rows::load(view, workspace, portfolio, now)?;
        if damaged > 0 {
            tracing::error!(%workspace, portfolio, damaged, "rows of a budget cannot be read");
        }
        Ok(Self {
            workspace: workspace.clone(),
            portfolio: portfolio.into(),
            recipients,
            sequence,
            seen: None,
            limit: None,
        })
    }

    /// Notes the limit for broadcasts, and whether it is reached.
    pub(crate) fn note_seen(&mut self, limit: Option<u32>, is_reached: bool) {
        self.seen = Some((limit, is_reached));
    }

    /// Returns whether the limit is to be checked again.
    fn is_to_look_at(&mut self) -> bool {
        let used = self.recipients.used();
        let is_new = self.seen.is_none_or(|(limit, was_reached)| {
            limit.is_some_and(|limit| used >= limit) != was_reached
        });
        if is_new {
            self.seen = Some((None, false));
        }
        is_new
    }

    /// Counts recipients at this moment. Returns the rows to commit with their messages.
    pub(crate) fn count(&mut self, all: &[CountedRecipient], now: Timestamp) -> Vec<RowChange> {
        if all.is_empty() {
            return Vec::new();
        }
        let recipients = &mut self.recipients;
        let since = all.iter().map(|(hash, mark)| (*hash, recipients.count(*hash, *mark, now)));
        let since: Vec<_> = since.collect();
        self.sequence += 1;
        let place = (&self.workspace, &*self.portfolio);
        vec![rows::counted(place, (step_of(now), self.sequence), &since)]
    }

    /// Gives recipients back whose messages were surely not sent. Returns the rows to commit.
    pub(crate) fn give_back(&mut self, all: &[CountedRecipient], now: Timestamp) -> Vec<RowChange> {
        let (place, at) = ((&self.workspace, &*self.portfolio), (step_of(now), self.sequence));
        let recipients = &mut self.recipients;
        let given = all.iter().filter(|(hash, mark)| recipients.give_back(*hash, *mark));
        given.map(|(hash, _)| rows::given_back(place, at, *hash)).collect()
    }
}

impl std::fmt::Debug for Portfolios {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Portfolios").field(&self.all.len()).finish()
    }
}
