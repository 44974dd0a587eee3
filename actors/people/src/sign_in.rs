//! Signs people in, by a link, a password or an admin token, and signs them out.
//!
//! Each check of a password or a code counts as a try, also the checks of a person in a session.

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::{AuditContext, AuditEntry, SessionId, Timestamp};
use postrider_runtime::random;
use postrider_runtime::sealed::Secret;
use postrider_runtime::task::detached;
use postrider_store::Change;
use postrider_store::audit_chain::record_change;

use crate::directory::People;
use crate::error::PeopleError;
use crate::password::Password;
use crate::person::{Login, Person};
use crate::session::{Session, SessionHolder, SessionRecord, SignedIn};
use crate::sign_in_attempts::{SignInAttempt, TryCounter};
use crate::token::{self, TokenHash};

/// The duration of an admin token's session.
const TOKEN_SESSION: Duration = Duration::from_secs(30 * 60);
/// The time for which a sign-in counts as recent.
const ELEVATED_FOR: Duration = Duration::from_secs(10 * 60);
/// The maximum number of sessions of one holder; more end the oldest.
const SESSIONS_MAX: usize = 50;
/// The number of characters that are stored of a browser's name.
const USER_AGENT_CHARS_MAX: usize = 256;

/// The browser and the address of a sign-in.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The browser's name for itself.
    pub user_agent: String,
    /// The network address and the request. Its actor is ignored.
    pub context: Arc<AuditContext>,
    /// The text that the browser received at an earlier sign-in.
    pub device: Option<String>,
}

/// A new session. Its token is shown here and never again.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The token that its requests must carry.
    pub token: Secret,
    /// The session and its holder.
    pub signed_in: SignedIn,
    /// The text that the browser shows at its next sign-in, so that strangers' tries do not delay
    /// it. `None` if no person has signed in.
    pub device: Option<Secret>,
}

/// The proof of a person's identity.
pub(crate) struct Proof {
    pub(crate) holder: SessionHolder,
    pub(crate) person: Option<Arc<Person>>,
    pub(crate) method: &'static str,
    /// The time until which it counts as recent; `None` for ten minutes.
    pub(crate) recent_until: Option<Timestamp>,
    /// The changes of the same commit, such as the deletion of the used link.
    pub(crate) spent: Vec<Change>,
}

impl People {
    /// Signs a person in by the token of a link, which does not work again. If only an invite has
    /// vouched for the address, the link vouches for it now. Then the earlier password,
    /// authenticator and sessions end.
    ///
    /// # Errors
    /// [`PeopleError`]: the link is unknown, used or too old, or the sign-in cannot run now.
    pub async fn sign_in_by_link(
        &self,
        token: &str,
        arrival: Arrival,
    ) -> Result<NewSession, PeopleError> {
        let (people, hash) = (self.clone(), TokenHash::of(token));
        detached(async move {
            let _changing = people.inner.changes.lock().await;
            let now = people.inner.clock.real();
            let found = people.inner.links.iter().find(|link| link.hash == hash).map(|it| *it);
            let link = found.filter(|link| now < link.ends_at).ok_or(PeopleError::Refused)?;
            let person = people.person(link.person).filter(|person| !person.disabled);
            let person = person.ok_or(PeopleError::Refused)?;
            let holder = SessionHolder::Person(person.id);
            let mut spent = vec![link.delete()];
            let vouched_for = person.unproven.then(|| (*person).clone().vouched_for());
            let mut ended = Vec::new();
            if let Some(person) = &vouched_for {
                ended = people.sessions_except(person.id, None);
                let entry = AuditEntry::new("password.delete").target(person.id);
                let by = person.context(&arrival.context);
                let now = people.inner.clock.now();
                spent.push(person.put());
                spent.push(record_change(now, &entry.record(random::audit_id(now), &by)));
                spent.extend(ended.iter().map(|session| session.record().delete()));
            }
            let shown = vouched_for.clone().map_or(person, Arc::new);
            let (person, recent_until) = (Some(shown), None);
            let proof = Proof { holder, person, method: "link", recent_until, spent };
            let session = people.start_session(proof, arrival).await?;
            vouched_for.into_iter().for_each(|person| people.insert(person));
            ended.iter().for_each(|session| people.forget_session(session.id()));
            people.inner.links.remove(&link.person);
            Ok(session)
        })
        .await
    }

    /// Signs a person in by a password, and by the authenticator's code if they have one. An
    /// account that does not exist gets the answer of a wrong password, after the same time.
    ///
    /// # Errors
    /// [`PeopleError`]: the password is wrong, there were too many tries, or the sign-in cannot run
    /// now.
    pub async fn sign_in_by_password(
        &self,
        email: &str,
        password: &str,
        totp: Option<&str>,
        arrival: Arrival,
    ) -> Result<NewSession, PeopleError> {
        if !self.inner.options.password_sign_in {
            return Err(PeopleError::Refused);
        }
        let (people, password) = (self.clone(), Password::typed(password));
        let totp = totp.map(str::to_owned);
        let email = Login::new(email).ok();
        detached(async move {
            let found = email.as_ref().and_then(|email| people.of_email(email));
            let found = found.filter(|person| !person.disabled);
            let account = email.as_ref().map_or("", Login::as_str);
            let attempt = password_attempt(&people, found.as_deref(), account, &arrival);
            check_password(&people, &attempt, found.as_deref(), password).await?;
            let _changing = people.inner.changes.lock().await;
            // The person may have changed during the check of the password.
            let person = found.and_then(|found| {
                let now = people.person(found.id)?;
                (!now.disabled && now.password == found.password).then_some(now)
            });
            let person = person.ok_or(PeopleError::Refused)?;
            let holder = SessionHolder::Person(person.id);
            let used = people.use_code(&person, totp.as_deref())?;
            let (method, spent) = match &used {
                None => ("password", Vec::new()),
                Some(used) => ("password_totp", vec![used.put()]),
            };
            let shown = used.clone().map_or(person, Arc::new);
            let (person, recent_until) = (Some(shown), None);
            let proof = Proof { holder, person, method, recent_until, spent };
            let session = people.start_session(proof, arrival).await?;
            used.into_iter().for_each(|person| people.insert(person));
            Ok(session)
        })
        .await
    }

    /// Returns the person after the use of their authenticator's code, or `None` if they have none.
    /// Needs [`hold`](Self::hold).
    fn use_code(
        &self,
        person: &Arc<Person>,
        code: Option<&str>,
    ) -> Result<Option<Person>, PeopleError> {
        let Some(authenticator) = &person.authenticator else { return Ok(None) };
        let code = code.ok_or(PeopleError::TotpRequired)?;
        note_code_try(self, person)?;
        let used = authenticator.used(&self.inner.keys, person.id, code, self.inner.clock.real());
        let authenticator = Some(used.ok_or(PeopleError::TotpRequired)?);
        clear_code_tries(self, person);
        Ok(Some(Person { authenticator, ..(**person).clone() }))
    }

    /// Returns whether this text comes from a browser in which the account's person has signed in.
    #[must_use]
    pub fn knows_device(&self, email: &str, device: &str) -> bool {
        let found = Login::new(email).ok().and_then(|email| self.of_email(&email));
        found.is_some_and(|person| device_name(self, &person, device).is_some())
    }

    /// Starts a session for a caller with an admin token, which the caller of this has checked. The
    /// session ends when the token stops working, for whatever reason.
    ///
    /// # Errors
    /// [`PeopleError::Unavailable`]
    pub async fn sign_in_by_admin_token(
        &self,
        token: &str,
        (id, name): (Option<Box<str>>, Option<Box<str>>),
        arrival: Arrival,
    ) -> Result<NewSession, PeopleError> {
        let people = self.clone();
        // A token with an id is known by its id.
        let stored = || token::settings_token_hash(&people.inner.keys, &TokenHash::of(token));
        let hash = id.is_none().then(stored);
        detached(async move {
            let _changing = people.inner.changes.lock().await;
            let holder = SessionHolder::AdminToken { id, name, hash };
            let (person, recent_until, method) = (None, None, "admin_token");
            let proof = Proof { holder, person, method, recent_until, spent: Vec::new() };
            people.start_session(proof, arrival).await
        })
        .await
    }

    /// Confirms the identity of a signed-in person: by password and by authenticator, if they have
    /// them.
    ///
    /// # Errors
    /// [`PeopleError`]: a factor is wrong or missing, there were too many tries, or they have
    /// neither.
    pub async fn elevate(
        &self,
        who: &SignedIn,
        password: Option<&str>,
        totp: Option<&str>,
    ) -> Result<(), PeopleError> {
        let person = who.person.as_ref().and_then(|person| self.person(person.id));
        let person = person.ok_or(PeopleError::Refused)?;
        match password {
            Some(password) => {
                let password = Password::typed(password);
                let attempt = SignInAttempt::in_session(who.session.id());
                check_password(self, &attempt, Some(&person), password).await?;
            }
            None if person.has_password() || !person.has_authenticator() => {
                return Err(PeopleError::Refused);
            }
            None => {}
        }
        let (people, who, totp) = (self.clone(), who.clone(), totp.map(str::to_owned));
        detached(async move {
            let _changing = people.inner.changes.lock().await;
            let person = people.current_person(&who)?;
            if let Some(used) = people.use_code(&person, totp.as_deref())? {
                people.inner.writer.commit(vec![used.put()]).await?;
                people.insert(used);
            }
            people.elevate_now(&who.session);
            Ok(())
        })
        .await
    }

    pub(crate) fn elevate_now(&self, session: &Session) {
        session.elevate(self.inner.clock.real().plus(ELEVATED_FOR));
    }

    /// Ends one session of the same holder. It no longer works when this returns.
    ///
    /// # Errors
    /// [`PeopleError`]: there is none of this id, or the change cannot be made now.
    pub async fn end_session(
        &self,
        holder: &SessionHolder,
        id: SessionId,
        by: Arc<AuditContext>,
    ) -> Result<(), PeopleError> {
        let own = self.sessions_of(holder);
        let one: Vec<_> = own.into_iter().filter(|session| session.id() == id).collect();
        if one.is_empty() {
            return Err(PeopleError::NoSuchSession);
        }
        self.end_sessions(one.iter().map(|it| it.record().clone()).collect(), by).await
    }

    /// Ends the other sessions of the same holder.
    ///
    /// # Errors
    /// [`PeopleError::Unavailable`]
    pub async fn end_other_sessions(
        &self,
        holder: &SessionHolder,
        than: SessionId,
        by: Arc<AuditContext>,
    ) -> Result<(), PeopleError> {
        let own = self.sessions_of(holder);
        let others = own.into_iter().filter(|session| session.id() != than);
        self.end_sessions(others.map(|it| it.record().clone()).collect(), by).await
    }

    /// Ends the sessions that started with an admin token.
    ///
    /// # Errors
    /// [`PeopleError::Unavailable`]
    pub async fn end_sessions_of_token(
        &self,
        token_id: &str,
        by: Arc<AuditContext>,
    ) -> Result<(), PeopleError> {
        let is_of_token = |holder: &SessionHolder| match holder {
            SessionHolder::AdminToken { id: Some(id), .. } => **id == *token_id,
            SessionHolder::AdminToken { id: None, .. } | SessionHolder::Person(_) => false,
        };
        let sessions = self.inner.sessions.iter().map(|session| session.record().clone());
        let ended = sessions.filter(|record| is_of_token(&record.holder)).collect();
        self.end_sessions(ended, by).await
    }

    async fn end_sessions(
        &self,
        ended: Vec<SessionRecord>,
        by: Arc<AuditContext>,
    ) -> Result<(), PeopleError> {
        if ended.is_empty() {
            return Ok(());
        }
        let people = self.clone();
        detached(async move {
            let _changing = people.inner.changes.lock().await;
            let now = people.inner.clock.now();
            let changes = ended.iter().flat_map(|record| {
                let entry = record.deleted_entry().record(random::audit_id(now), &by);
                [record.delete(), record_change(now, &entry)]
            });
            people.inner.writer.commit(changes.collect()).await?;
            ended.iter().for_each(|record| people.forget_session(record.id));
            Ok(())
        })
        .await
    }

    /// Starts a session. The same commit deletes expired sessions and links.
    pub(crate) async fn start_session(
        &self,
        proof: Proof,
        arrival: Arrival,
    ) -> Result<NewSession, PeopleError> {
        let Proof { holder, person, method, recent_until, spent } = proof;
        let real = self.inner.clock.real();
        let longest = match &person {
            Some(person) => self.age_max(person.operator),
            None => TOKEN_SESSION,
        };
        let token = token::create();
        let context = &arrival.context;
        let record = SessionRecord {
            id: random::session_id(real),
            holder: holder.clone(),
            hash: TokenHash::of(token.reveal()),
            created_at: real,
            seen_at: real,
            ends_at: real.plus(longest),
            user_agent: arrival.user_agent.chars().take(USER_AGENT_CHARS_MAX).collect(),
            address: context.address.clone().unwrap_or_default(),
            elevated_until: recent_until.or(Some(real.plus(ELEVATED_FOR))),
        };
        let mut changes = self.take_expired();
        let own = self.sessions_of(&holder);
        let surplus: Vec<_> = own.iter().rev().skip(SESSIONS_MAX - 1).collect();
        changes.extend(surplus.iter().map(|session| session.record().delete()));
        changes.extend(spent);
        changes.extend(self.name_change());
        changes.push(record.put());
        let now = self.inner.clock.now();
        let session = self.unlisted(record.clone());
        let signed_in = SignedIn { session, person };
        let by = AuditContext { actor: signed_in.actor(), ..(**context).clone() };
        let entry = record.created_entry(method).record(random::audit_id(now), &by);
        changes.push(record_change(now, &entry));
        self.inner.writer.commit(changes).await?;
        self.note_name_stored();
        surplus.iter().for_each(|session| self.forget_session(session.id()));
        let session = self.insert_session(record);
        let device = signed_in.person.as_ref();
        let device = device.map(|person| token::new_device_text(&self.inner.keys, person.id, real));
        Ok(NewSession { token, signed_in: SignedIn { session, ..signed_in }, device })
    }

    fn unlisted(&self, record: SessionRecord) -> Arc<Session> {
        Arc::new(Session::new(record, 0, &self.inner.clock))
    }
}

/// Notes an attempt with an authenticator's code, once no wait is due. Codes are counted apart from
/// passwords: a right password must not allow more codes.
pub(crate) fn note_code_try(people: &People, person: &Person) -> Result<(), PeopleError> {
    note_tries(people, &[code_counter(person)])
}

/// Notes that the code was right.
pub(crate) fn clear_code_tries(people: &People, person: &Person) {
    people.inner.tries.lock().succeeded(&code_counter(person));
}

fn note_tries(people: &People, counters: &[TryCounter]) -> Result<(), PeopleError> {
    let now = people.inner.clock.real();
    let mut tries = people.inner.tries.lock();
    if let Some(wait) = counters.iter().filter_map(|of| tries.wait(of, now)).max() {
        return Err(PeopleError::Wait(wait));
    }
    counters.iter().for_each(|of| tries.note(of, now));
    Ok(())
}

/// Returns the name of a browser by its text, or `None` if the person has not signed in there.
fn device_name(people: &People, person: &Person, device: &str) -> Option<String> {
    token::device_name(&people.inner.keys, person.id, device, people.inner.clock.real())
}

/// Returns the attempt with a password for an account, without a session.
pub(crate) fn password_attempt(
    people: &People,
    person: Option<&Person>,
    account: &str,
    arrival: &Arrival,
) -> SignInAttempt {
    let device = person.zip(arrival.device.as_deref());
    match device.and_then(|(person, device)| device_name(people, person, device)) {
        Some(name) => SignInAttempt::in_browser(&name),
        None => SignInAttempt::from_address(arrival.context.address.as_deref(), account),
    }
}

/// Checks a password once no wait is due. If too many are in progress, it does not count the
/// attempt.
pub(crate) async fn check_password(
    people: &People,
    attempt: &SignInAttempt,
    person: Option<&Person>,
    password: Password,
) -> Result<(), PeopleError> {
    let place = people.inner.hashing.place(&attempt.asker)?;
    note_tries(people, &attempt.counters)?;
    let stored = person.and_then(|person| person.password.clone());
    if !place.verify(stored, password).await? {
        return Err(PeopleError::Refused);
    }
    let mut tries = people.inner.tries.lock();
    attempt.counters.iter().for_each(|of| tries.succeeded(of));
    Ok(())
}

/// Returns the counter of attempts with a person's codes.
fn code_counter(person: &Person) -> TryCounter {
    TryCounter::Caller(format!("code {}", person.email).into())
}
