//! Checks passwords, and counts attempts with passwords and codes.

use crate::attempt::Attempt;
use crate::device;
use crate::directory::People;
use crate::error::PeopleError;
use crate::password::Password;
use crate::person::Person;
use crate::sign_in::Arrival;
use crate::tries::Counted;

/// Notes an attempt with an authenticator's code, once no wait is due. Codes are counted apart from
/// passwords: a right password must not allow more codes.
pub(crate) fn note_code(people: &People, person: &Person) -> Result<(), PeopleError> {
    note_try(people, &[codes_of(person)])
}

/// Notes that the code was right.
pub(crate) fn right_code(people: &People, person: &Person) {
    people.inner.tries.lock().succeeded(&codes_of(person));
}

fn note_try(people: &People, counted: &[Counted]) -> Result<(), PeopleError> {
    let now = people.inner.clock.real();
    let mut tries = people.inner.tries.lock();
    if let Some(wait) = counted.iter().filter_map(|of| tries.wait(of, now)).max() {
        return Err(PeopleError::Wait(wait));
    }
    counted.iter().for_each(|of| tries.note(of, now));
    Ok(())
}

/// Returns the name of a browser by its text, or `None` if the person has not signed in there.
pub(crate) fn device_name(people: &People, person: &Person, device: &str) -> Option<String> {
    device::name(&people.inner.keys, person.id, device, people.inner.clock.real())
}

/// Returns the attempt with a password for an account, without a session.
pub(crate) fn attempt(
    people: &People,
    person: Option<&Person>,
    account: &str,
    arrival: &Arrival,
) -> Attempt {
    let device = person.zip(arrival.device.as_deref());
    match device.and_then(|(person, device)| device_name(people, person, device)) {
        Some(name) => Attempt::in_browser(&name),
        None => Attempt::from_address(arrival.context.address.as_deref(), account),
    }
}

/// Checks a password once no wait is due. If too many are in progress, it does not count the
/// attempt.
pub(crate) async fn check(
    people: &People,
    attempt: &Attempt,
    person: Option<&Person>,
    password: Password,
) -> Result<(), PeopleError> {
    let place = people.inner.hashing.place(&attempt.asker)?;
    note_try(people, &attempt.counted)?;
    let stored = person.and_then(|person| person.password.clone());
    if !place.verify(stored, password).await? {
        return Err(PeopleError::Refused);
    }
    let mut tries = people.inner.tries.lock();
    attempt.counted.iter().for_each(|of| tries.succeeded(of));
    Ok(())
}

/// Returns the counter of attempts with a person's codes.
fn codes_of(person: &Person) -> Counted {
    Counted::Caller(format!("code {}", person.email).into())
}
