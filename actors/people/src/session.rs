//! Sessions: their holder, their start and end, and the signed-in person of a request.
//!
//! An engine without people gets a session and its person as another engine reports them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use postrider_domain::{
    ActorKind, AuditActor, AuditEntry, PersonId, SessionId, Timestamp, WorkspaceId,
};
use postrider_runtime::clock::Clock;
use postrider_runtime::shared_bucket::SharedBucket;
use postrider_store::view::codec;
use postrider_store::{Change, Table};
use serde::{Deserialize, Serialize};

use crate::permission::Permissions;
use crate::person::{Membership, Person};
use crate::token::TokenHash;

/// The prefix of a session's row in [`Table::Meta`]. The id follows.
pub(crate) const SESSION_ROW: &[u8] = b"session/";
const MINUTE: Duration = Duration::from_secs(60);
/// The maximum age of the stored time of the last use.
const SEEN_STORED_EVERY: Duration = Duration::from_secs(5 * 60);

/// The holder of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionHolder {
    /// A person.
    Person(PersonId),
    /// The user of an admin token: an operator without a name.
    AdminToken {
        /// The token's id, if it has one.
        id: Option<Box<str>>,
        /// The token's name, if it has one.
        name: Option<Box<str>>,
        /// The keyed hash of the token without an id. It changes with the token.
        hash: Option<TokenHash>,
    },
}

/// A session in the store. All times are real time: a sandbox that moves time signs nobody out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The session's id.
    pub id: SessionId,
    /// The session's holder.
    pub holder: SessionHolder,
    pub(crate) hash: TokenHash,
    /// The time of its start.
    pub created_at: Timestamp,
    /// The time of its last use, as stored.
    pub(crate) seen_at: Timestamp,
    /// The time at which it ends at the latest.
    pub ends_at: Timestamp,
    /// The browser's name for itself.
    pub user_agent: Box<str>,
    /// The network address at its start.
    pub address: Box<str>,
    /// The time until which changes that need a recent sign-in are allowed.
    pub(crate) elevated_until: Option<Timestamp>,
}

impl SessionRecord {
    pub(crate) fn put(&self) -> Change {
        Change::put(Table::Meta, self.row(), codec::encode(self))
    }

    pub(crate) fn delete(&self) -> Change {
        Change::delete(Table::Meta, self.row())
    }

    fn row(&self) -> Vec<u8> {
        [SESSION_ROW, self.id.as_bytes()].concat()
    }

    /// Returns the entry of the session's start in the audit log.
    pub(crate) fn created_entry(&self, method: &'static str) -> AuditEntry {
        AuditEntry::new("session.create").target(self.id).change("method", method)
    }

    /// Returns the entry of the session's end in the audit log.
    pub(crate) fn deleted_entry(&self) -> AuditEntry {
        AuditEntry::new("session.delete").target(self.id)
    }
}

/// A session in memory.
#[derive(Debug)]
pub struct Session {
    record: SessionRecord,
    seen_ms: AtomicU64,
    stored_ms: AtomicU64,
    elevated_until_ms: AtomicU64,
    ended: AtomicBool,
    is_remote: bool,
    pub(crate) bucket: Option<SharedBucket>,
}

impl Session {
    pub(crate) fn new(record: SessionRecord, requests_per_minute: u32, clock: &Clock) -> Self {
        let bucket = SharedBucket::new(requests_per_minute, MINUTE, None, clock);
        Self { is_remote: false, bucket, ..Self::remote(record) }
    }

    /// Creates a session of another engine, which counts its requests and stores its use.
    pub(crate) const fn remote(record: SessionRecord) -> Self {
        let seen_ms = record.seen_at.as_millis();
        let elevated_until_ms = match record.elevated_until {
            Some(until) => until.as_millis(),
            None => 0,
        };
        Self {
            record,
            seen_ms: AtomicU64::new(seen_ms),
            stored_ms: AtomicU64::new(seen_ms),
            elevated_until_ms: AtomicU64::new(elevated_until_ms),
            ended: AtomicBool::new(false),
            is_remote: true,
            bucket: None,
        }
    }

    /// Returns whether the session is another engine's, as that engine reported it.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        self.is_remote
    }

    pub(crate) fn note_remote_use(&self, now: &SessionRecord) {
        self.seen_ms.fetch_max(now.seen_at.as_millis(), Ordering::Relaxed);
    }

    /// Returns the session's record, as it was at its creation or load.
    #[must_use]
    pub const fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// Returns the session's id.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.record.id
    }

    /// Returns the time of its last use.
    #[must_use]
    pub fn seen_at(&self) -> Timestamp {
        Timestamp::from_millis(self.seen_ms.load(Ordering::Relaxed))
    }

    /// Returns the time until which changes that need a recent sign-in are allowed.
    #[must_use]
    pub fn elevated_until(&self) -> Option<Timestamp> {
        let until = self.elevated_until_ms.load(Ordering::Acquire);
        (until > 0).then(|| Timestamp::from_millis(until))
    }

    /// Returns whether the session is not ended, and was elevated within the last ten minutes.
    pub(crate) fn is_elevated(&self, now: Timestamp) -> bool {
        let ended = self.ended.load(Ordering::Acquire);
        !ended && self.elevated_until().is_some_and(|until| now < until)
    }

    pub(crate) fn elevate(&self, until: Timestamp) {
        self.elevated_until_ms.store(until.as_millis(), Ordering::Release);
    }

    /// Returns whether the session is active: not ended, not too old, and used within `idle`.
    pub(crate) fn is_active(&self, now: Timestamp, idle: Duration) -> bool {
        !self.ended.load(Ordering::Acquire)
            && now < self.record.ends_at
            && now < self.seen_at().plus(idle)
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Notes a use. Returns the record to store, every few minutes.
    pub(crate) fn note_use(&self, now: Timestamp) -> Option<SessionRecord> {
        self.seen_ms.fetch_max(now.as_millis(), Ordering::Relaxed);
        let stored = self.stored_ms.load(Ordering::Relaxed);
        let is_due = now >= Timestamp::from_millis(stored).plus(SEEN_STORED_EVERY);
        // Of several callers that find the record due, only one stores it.
        let is_ours = is_due
            && self
                .stored_ms
                .compare_exchange(stored, now.as_millis(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        is_ours.then(|| self.current_record())
    }

    /// Returns the record in its current state.
    pub(crate) fn current_record(&self) -> SessionRecord {
        let (seen_at, elevated_until) = (self.seen_at(), self.elevated_until());
        SessionRecord { seen_at, elevated_until, ..self.record.clone() }
    }
}

/// The session of a request, and its person.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The session.
    pub session: Arc<Session>,
    /// The person; `None` for a holder of an admin token.
    pub person: Option<Arc<Person>>,
}

impl SignedIn {
    /// Returns whether the holder may do everything.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.person.as_ref().is_none_or(|person| person.operator)
    }

    /// Returns the holder's permissions in a workspace, or `None` if they have no role there.
    #[must_use]
    pub fn permissions_in(&self, workspace: &WorkspaceId, sandbox: bool) -> Option<Permissions> {
        if self.is_operator() {
            return Some(Permissions::all());
        }
        let role = self.person.as_ref()?.role_in(workspace)?;
        Some(role.permissions(sandbox))
    }

    /// Returns the actor as the audit log names them.
    #[must_use]
    pub fn actor(&self) -> AuditActor {
        match (&self.session.record().holder, &self.person) {
            (_, Some(person)) => AuditActor {
                kind: ActorKind::User,
                id: Some(person.id.to_string().into()),
                name: Some(person.email.as_str().into()),
            },
            (SessionHolder::AdminToken { id, name, .. }, None) => {
                AuditActor { kind: ActorKind::AdminToken, id: id.clone(), name: name.clone() }
            }
            // A person's session is known only with the person.
            (SessionHolder::Person(_), None) => AuditActor::of_kind(ActorKind::Anonymous),
        }
    }

    /// Returns the session and the person in the form that another engine needs.
    #[must_use]
    pub fn remote(&self) -> RemoteSession {
        let person = self.person.as_ref();
        let person = person.map(|person| Person { password: None, ..(**person).clone() });
        RemoteSession { session: self.session.current_record(), person }
    }
}

/// A session and its person, without the password, as one engine reports them to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSession {
    session: SessionRecord,
    person: Option<Person>,
}

impl RemoteSession {
    /// Returns the reported session and its person.
    #[must_use]
    pub fn signed_in(self) -> SignedIn {
        let Self { session, person } = self;
        SignedIn { session: Arc::new(Session::remote(session)), person: person.map(Arc::new) }
    }

    /// Updates a remote session from its current state; `None` says that it has ended. The session
    /// also ends if its holder's rights have changed: a reader has to connect again.
    pub fn refresh(now: Option<Self>, known: &SignedIn) {
        match now {
            Some(now) if now.person.as_ref().map(rights) == known.person.as_deref().map(rights) => {
                known.session.note_remote_use(&now.session);
            }
            _ => known.session.end(),
        }
    }
}

/// Returns the fields that decide what a person may do. The name and the last use of the
/// authenticator do not.
fn rights(person: &Person) -> (PersonId, [bool; 3], &[Membership]) {
    let marks = [person.operator, person.disabled, person.has_authenticator()];
    (person.id, marks, &person.memberships)
}

#[cfg(test)]
mod tests {
    use postrider_domain::MasterKeys;

    use super::*;
    use crate::authenticator::{Authenticator, SECRET_BYTES};
    use crate::permission::Role;
    use crate::person::Login;

    fn session(person: &Person) -> RemoteSession {
        let at = Timestamp::from_millis(1_000);
        let session = SessionRecord {
            id: postrider_runtime::random::session_id(at),
            holder: SessionHolder::Person(person.id),
            hash: TokenHash::of("token"),
            created_at: at,
            seen_at: at,
            ends_at: Timestamp::from_millis(1_000_000),
            user_agent: "test".into(),
            address: "192.0.2.7".into(),
            elevated_until: None,
        };
        RemoteSession { session, person: Some(person.clone()) }
    }

    fn with_code_of(person: Person, step: u64) -> Person {
        let keys = MasterKeys::single([7; 32]);
        let (authenticator, _) = Authenticator::new(&keys, person.id, &[1; SECRET_BYTES], step);
        Person { authenticator: Some(authenticator), ..person }
    }

    #[test]
    fn a_session_ends_when_its_holder_may_do_something_else_and_not_when_a_code_was_used() {
        let (at, email) = (Timestamp::from_millis(1_000), Login::new("ada@acme.com").unwrap());
        let ada = Person::new(postrider_runtime::random::person_id(at), email, at);
        let acme = "acme".parse().unwrap();
        let ada = with_code_of(ada.with_role(&acme, Some(Role::Agent)), 1);
        let goes_on = |now: Option<Person>| {
            let known = session(&ada).signed_in();
            RemoteSession::refresh(now.as_ref().map(session), &known);
            known.session.is_active(at, std::time::Duration::from_secs(60))
        };
        assert!(goes_on(Some(ada.clone())));
        assert!(goes_on(Some(with_code_of(ada.clone(), 2))));
        assert!(goes_on(Some(Person { name: "Ada".into(), ..ada.clone() })));
        for other in [
            ada.clone().with_role(&acme, Some(Role::Owner)),
            ada.clone().with_role(&acme, None),
            Person { operator: true, ..ada.clone() },
            Person { disabled: true, ..ada.clone() },
            Person { authenticator: None, ..ada.clone() },
        ] {
            assert!(!goes_on(Some(other)));
        }
        assert!(!goes_on(None));
    }
}
