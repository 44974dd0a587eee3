//! Creating many contacts with one call, and the handling of phones that are already taken.

use postrider_domain::UserId;
use postrider_runtime::random;
use postrider_store::view::codec;
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::contacts::create::{
    CreateContactError, CreatedContact, Limit, create, holder, put_changed,
};
use crate::contacts::record::{Contact, ContactChange, NewContact};
use crate::core::command::{Command, Context, Footprint};
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};

/// The maximum number of contacts that one commit creates.
const COMMIT_CONTACTS_MAX: usize = 64;
/// The bytes of events after which a commit creates no more contacts: a commit's events are
/// bounded.
const COMMIT_BYTES_MAX: usize = 64 * 1024;

/// The handling of a contact whose phone another contact has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// It is not created, and that is a refusal.
    #[default]
    Refuse,
    /// It is not created; the existing one stays as it is.
    Skip,
    /// The existing one is changed to it.
    Update,
}

/// One of many contacts.
#[derive(Debug, Clone)]
pub struct NewContactRow {
    /// The data of the contact to create.
    pub new: NewContact,
    /// The change to the contact that has its phone.
    pub change: ContactChange,
}

/// The outcome for one of many contacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContactWritten {
    /// It was created.
    Created,
    /// The one with its phone was changed.
    Updated,
    /// The one with its phone stays as it was.
    Skipped,
}

/// The result for one of many contacts: the outcome and the contact as it is now.
pub type ContactRowMade = Result<(ContactWritten, Contact), CreateContactError>;

/// The result for one of many contacts to create.
pub type ContactMade = Result<Contact, CreateContactError>;

impl Workspace {
    /// Creates contacts, each or not as [`create_contact`](Self::create_contact) would.
    ///
    /// Together they count as one against the limit. They are created in several commits. If one of
    /// them fails, its contacts get the error, and the later commits are still tried.
    ///
    /// With an idempotency key each commit is carried out once. A second call with the key and the
    /// same body continues at the end of the first one.
    ///
    /// # Errors
    /// [`CreateContactError`]: a limit is reached, or the workspace is unavailable. None was
    /// created, unless the reason says that this is unknown. [`IdempotentError`]: the key was used
    /// for another request.
    pub async fn create_contacts(
        &self,
        new: Vec<NewContact>,
        key: Option<IdempotencyKey>,
    ) -> Result<Replayable<Vec<ContactMade>>, IdempotentError<CreateContactError>> {
        let row = |new: NewContact| NewContactRow { change: ContactChange::to(&new), new };
        let rows = new.into_iter().map(row).collect();
        let Replayable { answer, replayed } =
            self.upsert_contacts(rows, OnConflict::Refuse, key).await?;
        let answer = answer.into_iter().map(|made| made.map(|(_, contact)| contact)).collect();
        Ok(Replayable { answer, replayed })
    }

    /// Does the same, with a choice for contacts whose phone is already taken.
    ///
    /// # Errors
    /// As for [`create_contacts`](Self::create_contacts).
    pub async fn upsert_contacts(
        &self,
        rows: Vec<NewContactRow>,
        on_conflict: OnConflict,
        key: Option<IdempotencyKey>,
    ) -> Result<Replayable<Vec<ContactRowMade>>, IdempotentError<CreateContactError>> {
        let mut made: Vec<ContactRowMade> = Vec::with_capacity(rows.len());
        let (mut all_replayed, mut number) = (true, 0);
        for mut part in parts(rows) {
            while !part.is_empty() {
                let limit = (number == 0).then(|| self.creation_limit());
                let rows = part.iter().map(|row| (row.clone(), random::unique())).collect();
                let command = UpsertContacts { part: rows, on_conflict, limit };
                let key = key.map(|key| key.part(number));
                match self.perform(Idempotent { key, command }).await {
                    Ok(Replayable { answer, replayed }) => {
                        all_replayed &= replayed;
                        // Each call does at least one row.
                        part.drain(..answer.len().clamp(1, part.len()));
                        made.extend(answer.into_iter().map(RowOutcome::into_made));
                    }
                    Err(IdempotentError::Refused(error)) if number > 0 => {
                        all_replayed = false;
                        made.extend(std::iter::repeat_n(Err(error), part.len()));
                        part.clear();
                    }
                    Err(error) => return Err(error),
                }
                number += 1;
            }
        }
        Ok(Replayable { answer: made, replayed: all_replayed })
    }
}

/// Returns the parts that fit in a commit, in order.
fn parts(all: Vec<NewContactRow>) -> Vec<Vec<NewContactRow>> {
    let mut parts: Vec<Vec<NewContactRow>> = Vec::new();
    let mut bytes = usize::MAX;
    for row in all {
        bytes = bytes.saturating_add(row.new.event_bytes_max());
        match parts.last_mut() {
            Some(part) if bytes <= COMMIT_BYTES_MAX && part.len() < COMMIT_CONTACTS_MAX => {
                part.push(row);
            }
            _ => {
                bytes = row.new.event_bytes_max();
                parts.push(vec![row]);
            }
        }
    }
    parts
}

/// The outcome of a row, as it is kept for a repeated request.
///
/// Kept answers are in postcard's format, so the order of the variants is part of it.
#[derive(Serialize, Deserialize)]
enum RowOutcome {
    Refused,
    Created(CreatedContact),
    Updated(KnownContact),
    Skipped(KnownContact),
}

/// An existing contact, with the fields that only the channel sets.
#[derive(Serialize, Deserialize)]
struct KnownContact {
    contact: CreatedContact,
    user_id: Option<UserId>,
    username: Option<Box<str>>,
}

impl From<Contact> for KnownContact {
    fn from(contact: Contact) -> Self {
        let (user_id, username) = (contact.user_id.clone(), contact.username.clone());
        Self { contact: contact.into(), user_id, username }
    }
}

impl From<KnownContact> for Contact {
    fn from(known: KnownContact) -> Self {
        let KnownContact { contact, user_id, username } = known;
        Self { user_id, username, ..contact.into() }
    }
}

impl RowOutcome {
    fn into_made(self) -> ContactRowMade {
        match self {
            Self::Refused => Err(CreateContactError::PhoneTaken),
            Self::Created(contact) => Ok((ContactWritten::Created, contact.into())),
            Self::Updated(contact) => Ok((ContactWritten::Updated, contact.into())),
            Self::Skipped(contact) => Ok((ContactWritten::Skipped, contact.into())),
        }
    }
}

/// Creates contacts, counted if there is a limit here.
struct UpsertContacts {
    part: Vec<(NewContactRow, u128)>,
    on_conflict: OnConflict,
    limit: Option<Limit>,
}

impl Command for UpsertContacts {
    /// The outcomes in order.
    ///
    /// If existing contacts make the commit too large, the remaining rows have no outcome.
    type Answer = Vec<RowOutcome>;
    type Error = CreateContactError;

    const FOOTPRINT: Footprint = Footprint::Grows;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, CreateContactError> {
        if let Some(limit) = self.limit {
            limit.take(context)?;
        }
        let mut made = Vec::with_capacity(self.part.len());
        let mut event_bytes = 0;
        for (NewContactRow { new, change }, unique) in self.part {
            if event_bytes > COMMIT_BYTES_MAX {
                break;
            }
            let there = match new.phone {
                Some(phone) => holder(context, phone)?,
                None => None,
            };
            made.push(match (there, self.on_conflict) {
                (None, _) => RowOutcome::Created(create(context, new, unique)?.into()),
                (Some(_), OnConflict::Refuse) => RowOutcome::Refused,
                (Some(contact), OnConflict::Skip) => RowOutcome::Skipped(contact.into()),
                (Some(old), OnConflict::Update) => {
                    let contact = change.applied(&old, context.now());
                    put_changed(context, &old, &contact)?;
                    event_bytes += codec::encode(&contact).len();
                    RowOutcome::Updated(contact.into())
                }
            });
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contacts::golden::contact;
    use postrider_domain::{ContactName, CustomFields, Tags};
    use serde_json::json;

    fn row(new: NewContact) -> NewContactRow {
        NewContactRow { change: ContactChange::to(&new), new }
    }

    #[test]
    fn parts_are_bounded_in_number_and_bytes_and_keep_the_order() {
        let new = |number: usize, bytes: usize| NewContact {
            name: ContactName::new(&number.to_string()).unwrap(),
            phone: None,
            email: None,
            tags: Tags::default(),
            custom_fields: CustomFields::new(&json!({"x": "y".repeat(bytes)})).unwrap(),
        };
        let lengths = |bytes: usize, count| {
            let parts = parts((0..count).map(|number| row(new(number, bytes))).collect());
            let names = parts.iter().flatten().map(|row| row.new.name.as_str().to_owned());
            assert!(names.eq((0..count).map(|number| number.to_string())));
            parts.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert!(lengths(10, 0).is_empty());
        assert_eq!(lengths(10, 65), [64, 1]);
        assert_eq!(lengths(16_000, 7), [3, 3, 1]);
    }

    #[test]
    fn what_was_kept_before_there_were_more_outcomes_is_read() {
        let before = [None, Some(CreatedContact::from(contact()))];
        let bytes = postcard::to_allocvec(&before[..]).unwrap();
        let read: Vec<RowOutcome> = postcard::from_bytes(&bytes).unwrap();
        let read: Vec<_> = read.into_iter().map(RowOutcome::into_made).collect();
        let created = Ok((ContactWritten::Created, contact()));
        assert_eq!(read, [Err(CreateContactError::PhoneTaken), created]);
        let known = Contact { username: Some("ann".into()), ..contact() };
        let bytes = postcard::to_allocvec(&RowOutcome::Skipped(known.clone().into())).unwrap();
        let read: RowOutcome = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(read.into_made(), Ok((ContactWritten::Skipped, known)));
    }
}
