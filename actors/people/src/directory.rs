//! All people and sessions, in memory as in the store, and the options of their engine.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dashmap::{DashMap, DashSet};
use hashbrown::HashMap;
use parking_lot::Mutex;
use postrider_domain::{InviteId, MasterKeys, PersonId, SessionId, Timestamp, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_runtime::random;
use postrider_runtime::shared_bucket::BucketState;
use postrider_store::view::codec;
use postrider_store::writer::CommitError;
use postrider_store::{Change, Direction, StoreError, Table, View, Writer};

use crate::authenticator::{Enrolments, TOTP_REQUIRED_ROW};
use crate::error::PeopleError;
use crate::link::{INVITE_ROW, Invite, LINK_ROW, Link};
use crate::password::PasswordHasher;
use crate::person::{Login, PERSON_ROW, Person};
use crate::session::{SESSION_ROW, Session, SessionHolder, SessionRecord, SignedIn};
use crate::sign_in_attempts::Tries;
use crate::token::{self, TokenHash};

/// The row of the name of this data, which is a part of cookies' names.
const NAME_ROW: &[u8] = b"people/name";
/// Bounds for operators, who can do more harm.
const OPERATOR_IDLE: Duration = Duration::from_secs(3600);
const OPERATOR_MAX: Duration = Duration::from_secs(24 * 3600);

/// The options of sign-ins, and of the duration and request limits of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeopleOptions {
    /// The idle time after which a session ends. An operator's ends after an hour at the latest.
    pub session_idle: Duration,
    /// The age at which a session ends. An operator's ends after a day at the latest.
    pub session_max: Duration,
    /// The maximum number of requests of a session in a minute; 0 is no limit.
    pub session_requests_per_minute: u32,
    /// Set if people may sign in with passwords.
    pub password_sign_in: bool,
    /// The name of the data, a part of cookies' names, if engines share it. With `None` each engine
    /// has its own name.
    pub name: Option<[u8; 4]>,
    /// The hash of the current admin token without an id, from the settings, if there is one.
    /// Sessions that started with another such token have ended.
    pub admin_token: Option<TokenHash>,
}

/// Returns whether the admin token of this id still works.
pub type TokenWorks = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl Default for PeopleOptions {
    /// Returns twelve hours, seven days and 600 requests.
    fn default() -> Self {
        Self {
            session_idle: Duration::from_secs(12 * 3600),
            session_max: Duration::from_secs(7 * 24 * 3600),
            session_requests_per_minute: 600,
            password_sign_in: true,
            name: None,
            admin_token: None,
        }
    }
}

/// The people and sessions of an engine. Cheap to clone.
#[derive(Clone)]
pub struct People {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) writer: Writer,
    pub(crate) clock: Clock,
    pub(crate) options: PeopleOptions,
    token_works: TokenWorks,
    name: [u8; 4],
    /// Set once the name is stored. No cookie exists before the first session.
    is_named: AtomicBool,
    pub(crate) people: DashMap<PersonId, Arc<Person>>,
    pub(crate) by_email: DashMap<Login, PersonId>,
    pub(crate) sessions: DashMap<TokenHash, Arc<Session>>,
    pub(crate) links: DashMap<PersonId, Link>,
    pub(crate) invites: DashMap<InviteId, Invite>,
    /// The workspaces whose members need an authenticator.
    pub(crate) strict: DashSet<WorkspaceId>,
    pub(crate) enrolments: Mutex<Enrolments>,
    pub(crate) keys: MasterKeys,
    pub(crate) tries: Mutex<Tries>,
    pub(crate) hashing: PasswordHasher,
    /// Locked while something changes, so that values read before the commit hold after it.
    pub(crate) changes: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for People {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("People")
    }
}

/// The records in the store.
#[derive(Default)]
struct StoredPeople {
    people: Vec<Person>,
    sessions: Vec<SessionRecord>,
    links: Vec<Link>,
    invites: Vec<Invite>,
    strict: Vec<WorkspaceId>,
    name: Option<[u8; 4]>,
}

impl StoredPeople {
    /// Reads the records. A record that cannot be read is logged and skipped.
    fn read(store: &dyn View) -> Result<Self, StoreError> {
        let name = store.get(Table::Meta, NAME_ROW)?.and_then(|name| name.try_into().ok());
        Ok(Self {
            people: rows(store, PERSON_ROW)?,
            sessions: rows(store, SESSION_ROW)?,
            links: rows(store, LINK_ROW)?,
            invites: rows(store, INVITE_ROW)?,
            strict: rows(store, TOTP_REQUIRED_ROW)?,
            name,
        })
    }
}

fn rows<T: for<'a> serde::Deserialize<'a>>(
    store: &dyn View,
    prefix: &[u8],
) -> Result<Vec<T>, StoreError> {
    let mut rows = Vec::new();
    store.scan(Table::Meta, prefix, None, Direction::Forward, &mut |name, value| {
        match codec::decode(value) {
            Ok(row) => rows.push(row),
            Err(error) => {
                let name = name.escape_ascii();
                tracing::error!(%error, %name, "a record of people cannot be read");
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

impl People {
    /// Reads all people from the store, and deletes expired sessions, links and invites.
    /// `token_works` checks the admin token of each session that started with one.
    ///
    /// # Errors
    /// [`CommitError`]: the store cannot be read or written.
    pub async fn load(
        store: Arc<dyn View>,
        writer: Writer,
        clock: Clock,
        keys: MasterKeys,
        (options, token_works): (PeopleOptions, TokenWorks),
    ) -> Result<Self, CommitError> {
        let read = tokio::task::spawn_blocking(move || StoredPeople::read(store.as_ref())).await;
        let stored = read.map_err(|_| CommitError::Closed)?.map_err(CommitError::Store)?;
        let given = options.name;
        let name = given.or(stored.name).unwrap_or_else(random::bytes);
        let inner = Inner {
            writer,
            clock,
            options,
            token_works,
            name,
            is_named: AtomicBool::new(given.is_some() || stored.name.is_some()),
            people: DashMap::new(),
            by_email: DashMap::new(),
            sessions: DashMap::new(),
            links: DashMap::new(),
            invites: stored.invites.into_iter().map(|invite| (invite.id, invite)).collect(),
            strict: stored.strict.into_iter().collect(),
            enrolments: Mutex::default(),
            keys,
            tries: Mutex::default(),
            hashing: PasswordHasher::default(),
            changes: tokio::sync::Mutex::default(),
        };
        let people = Self { inner: Arc::new(inner) };
        stored.people.into_iter().for_each(|person| people.insert(person));
        for record in stored.sessions {
            people.insert_session(record);
        }
        for link in stored.links {
            people.inner.links.insert(link.person, link);
        }
        let mut changes = people.take_expired();
        changes.extend(people.reseal());
        if !changes.is_empty() {
            people.inner.writer.commit(changes).await?;
        }
        Ok(people)
    }

    /// Encrypts each authenticator's secret under the current master key.
    fn reseal(&self) -> Vec<Change> {
        let under_earlier = self.list().into_iter().filter_map(|person| {
            let authenticator = person.authenticator.as_ref()?;
            let authenticator = authenticator.resealed(&self.inner.keys, person.id)?;
            Some(Person { authenticator: Some(authenticator), ..(*person).clone() })
        });
        let changed: Vec<_> = under_earlier.collect();
        let changes = changed.iter().map(Person::put).collect();
        changed.into_iter().for_each(|person| self.insert(person));
        changes
    }

    /// Returns the data's name: eight hexadecimal digits that other data does not have. They
    /// distinguish the cookies of servers on one host, since cookies ignore ports.
    #[must_use]
    pub fn data_name(&self) -> String {
        self.inner.name.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the options of sign-ins and sessions.
    #[must_use]
    pub fn options(&self) -> &PeopleOptions {
        &self.inner.options
    }

    /// Returns the active session of this token, and its person.
    #[must_use]
    pub fn signed_in(&self, token: &str) -> Option<SignedIn> {
        let session = Arc::clone(&*self.inner.sessions.get(&TokenHash::of(token))?);
        let person = match session.record().holder {
            SessionHolder::Person(id) => Some(self.person(id)?),
            SessionHolder::AdminToken { .. } => None,
        };
        let signed_in = SignedIn { session, person };
        self.goes_on(&signed_in).then_some(signed_in)
    }

    /// Returns whether a session that was valid is still valid.
    #[must_use]
    pub fn goes_on(&self, signed_in: &SignedIn) -> bool {
        let now = self.inner.clock.real();
        let is_disabled = signed_in.person.as_ref().is_some_and(|person| person.disabled);
        !is_disabled
            && signed_in.session.is_active(now, self.idle_max(signed_in.is_operator()))
            && self.has_its_token(&signed_in.session)
    }

    /// Returns whether the admin token of the session works, if the session started with one. For a
    /// session of another engine, that engine checks the token.
    fn has_its_token(&self, session: &Session) -> bool {
        match &session.record().holder {
            _ if session.is_remote() => true,
            SessionHolder::Person(_) => true,
            SessionHolder::AdminToken { id: Some(id), .. } => (self.inner.token_works)(id),
            SessionHolder::AdminToken { id: None, hash, .. } => {
                hash.zip(self.inner.options.admin_token).is_some_and(|(hash, token)| {
                    token::is_settings_token(&self.inner.keys, &token, &hash)
                })
            }
        }
    }

    /// Takes one request from the session's bucket, and notes the use of the session.
    #[must_use]
    pub fn admit(&self, session: &Session) -> (Option<Duration>, Option<BucketState>) {
        if let Some(record) = session.note_use(self.inner.clock.real()) {
            let people = self.clone();
            drop(tokio::spawn(async move { people.store_use(record).await }));
        }
        let Some(bucket) = &session.bucket else { return (None, None) };
        let refused = bucket.take(&self.inner.clock).err();
        (refused, Some(bucket.state(self.inner.clock.now())))
    }

    /// Stores the time of a session's last use, unless the session has ended. A record behind the
    /// commit that ended the session would make it valid again after a restart.
    async fn store_use(&self, record: SessionRecord) {
        let _changing = self.inner.changes.lock().await;
        if !self.inner.sessions.contains_key(&record.hash) {
            return;
        }
        let id = record.id;
        if let Err(error) = self.inner.writer.commit_own(vec![record.put()]).await {
            tracing::warn!(%error, session = %id, "the use of a session was not stored");
        }
    }

    /// Returns whether the session may do what needs a recent sign-in.
    #[must_use]
    pub fn is_elevated(&self, session: &Session) -> bool {
        session.is_elevated(self.inner.clock.real())
    }

    /// Returns a signed-in person in their current state. The session may have ended while the
    /// request waited. Needs [`hold`](Self::hold).
    pub(crate) fn current_person(&self, who: &SignedIn) -> Result<Arc<Person>, PeopleError> {
        let person = who.person.as_ref().and_then(|person| self.person(person.id));
        let person = person.ok_or(PeopleError::NoSuchPerson)?;
        let now = SignedIn { session: Arc::clone(&who.session), person: Some(person.clone()) };
        if self.goes_on(&now) { Ok(person) } else { Err(PeopleError::SessionEnded) }
    }

    /// Returns the person of this id.
    #[must_use]
    pub fn person(&self, id: PersonId) -> Option<Arc<Person>> {
        self.inner.people.get(&id).map(|person| Arc::clone(&person))
    }

    /// Returns the person of this address.
    #[must_use]
    pub fn of_email(&self, email: &Login) -> Option<Arc<Person>> {
        let id = *self.inner.by_email.get(email)?;
        self.person(id)
    }

    /// Returns all people in the order of their creation.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Person>> {
        let mut all: Vec<_> = self.inner.people.iter().map(|person| Arc::clone(&person)).collect();
        all.sort_unstable_by_key(|person| person.id);
        all
    }

    /// Returns the active sessions of this holder, oldest first.
    #[must_use]
    pub fn sessions_of(&self, holder: &SessionHolder) -> Vec<Arc<Session>> {
        let now = self.inner.clock.real();
        let own = |session: &&Arc<Session>| session.record().holder == *holder;
        let sessions: Vec<_> = self.inner.sessions.iter().map(|it| Arc::clone(&it)).collect();
        let goes_on =
            |session: &&Arc<Session>| session.is_active(now, self.inner.options.session_idle);
        let mut sessions: Vec<_> = sessions.iter().filter(own).filter(goes_on).cloned().collect();
        sessions.sort_unstable_by_key(|session| session.id());
        sessions
    }

    /// Returns the time of the last use of each person's sessions.
    #[must_use]
    pub fn seen(&self) -> HashMap<PersonId, Timestamp> {
        let mut seen = HashMap::new();
        for session in &self.inner.sessions {
            if let SessionHolder::Person(id) = session.record().holder {
                let last = seen.entry(id).or_insert(session.seen_at());
                *last = session.seen_at().max(*last);
            }
        }
        seen
    }

    /// Returns whether members of this workspace need an authenticator.
    #[must_use]
    pub fn requires_totp(&self, workspace: &WorkspaceId) -> bool {
        self.inner.strict.contains(workspace)
    }

    /// Returns the change that stores the name, or `None` if it is stored.
    pub(crate) fn name_change(&self) -> Option<Change> {
        let is_named = self.inner.is_named.load(Ordering::Acquire);
        (!is_named).then(|| Change::put(Table::Meta, NAME_ROW, self.inner.name))
    }

    pub(crate) fn note_name_stored(&self) {
        self.inner.is_named.store(true, Ordering::Release);
    }

    pub(crate) fn idle_max(&self, is_operator: bool) -> Duration {
        let idle = self.inner.options.session_idle;
        if is_operator { idle.min(OPERATOR_IDLE) } else { idle }
    }

    pub(crate) fn age_max(&self, is_operator: bool) -> Duration {
        let longest = self.inner.options.session_max;
        if is_operator { longest.min(OPERATOR_MAX) } else { longest }
    }

    pub(crate) fn insert(&self, person: Person) {
        self.inner.by_email.insert(person.email.clone(), person.id);
        self.inner.people.insert(person.id, Arc::new(person));
    }

    pub(crate) fn insert_session(&self, record: SessionRecord) -> Arc<Session> {
        let hash = record.hash;
        let rate = self.inner.options.session_requests_per_minute;
        let session = Arc::new(Session::new(record, rate, &self.inner.clock));
        self.inner.sessions.insert(hash, Arc::clone(&session));
        session
    }

    pub(crate) fn forget_session(&self, id: SessionId) {
        self.inner.sessions.retain(|_, session| {
            let stays = session.id() != id;
            if !stays {
                session.end();
            }
            stays
        });
    }

    /// Removes expired sessions and links, and returns the changes that delete them.
    pub(crate) fn take_expired(&self) -> Vec<Change> {
        let (now, idle) = (self.inner.clock.real(), self.inner.options.session_idle);
        let mut changes = Vec::new();
        self.inner.sessions.retain(|_, session| {
            let stays = session.is_active(now, idle) && self.has_its_token(session);
            if !stays {
                changes.push(session.record().delete());
            }
            stays
        });
        self.inner.links.retain(|_, link| {
            let stays = now < link.ends_at;
            if !stays {
                changes.push(link.delete());
            }
            stays
        });
        self.inner.invites.retain(|_, invite| {
            let stays = now < invite.ends_at;
            if !stays {
                changes.push(invite.delete());
            }
            stays
        });
        changes
    }
}
