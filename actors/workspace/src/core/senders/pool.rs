//! Pure: the numbers through which a workspace's messages leave, and the choice for a contact.
//!
//! The pool consists of the connected numbers that may be in it. Once a number of the Cloud API is
//! among them, it has only such numbers. A contact keeps the number that was last used between the
//! two. A contact without one gets the number with the highest weight, a hash of workspace, contact
//! and number. So a new number takes over its share of the contacts, and no contact moves between
//! two others.

use postrider_domain::{NumberId, PartyId, Phone, Timestamp, WorkspaceId};
use postrider_number::record::{NumberInfo, NumberKind};
use serde::{Deserialize, Serialize};

/// The number that was alone in the pool before others joined it. All contacts of that time were
/// written to from this number, and nothing was noted of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alone {
    /// The number's line.
    pub line: NumberId,
    /// The time at which others joined it.
    pub until: Timestamp,
}

/// The time of a number's use with a contact, and its line.
pub(crate) type LastSender = (Timestamp, NumberId);

/// A number of the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PoolMember {
    id: NumberId,
    line: NumberId,
    /// The seed of the weights of this number.
    seed: u64,
    /// Its account, whose templates it sends.
    account: Option<Box<str>>,
}

/// The numbers through which a workspace's messages leave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pool {
    /// Oldest first.
    members: Vec<PoolMember>,
    /// The connected numbers that are not in it, with their accounts.
    beside: Vec<(NumberId, Option<Box<str>>)>,
    /// The account of the number that was connected first, of those that have one.
    home: Option<Box<str>>,
    /// Set if connected numbers are of several accounts.
    is_of_several: bool,
    alone: Option<Alone>,
}

impl Pool {
    /// The maximum of numbers of a workspace.
    pub const NUMBERS_MAX: usize = 64;

    /// Returns the pool of these numbers, oldest first; `alone` was alone in it before.
    #[must_use]
    pub fn of(workspace: &WorkspaceId, numbers: &[NumberInfo], alone: Option<Alone>) -> Self {
        let pooled = || numbers.iter().filter(|number| number.pool);
        let has_provider = pooled().any(|number| number.kind == NumberKind::CloudApi);
        let members: Vec<&NumberInfo> = pooled()
            .filter(|number| !has_provider || number.kind == NumberKind::CloudApi)
            .collect();
        let account = |of: &NumberInfo| {
            of.account.as_ref().map(|it| Box::<str>::from(it.account_id.as_str()))
        };
        let home = members.iter().copied().chain(numbers).find_map(account);
        let mut accounts = numbers.iter().filter_map(account);
        let is_of_several = accounts.any(|of| Some(&of) != home.as_ref());
        let member = |number: &&NumberInfo| {
            let line = number.line();
            let seed = hash(&[workspace.as_str().as_bytes(), &[0], line.as_bytes()]);
            PoolMember { id: number.id, line, seed, account: account(number) }
        };
        let members: Vec<_> = members.iter().map(member).collect();
        let is_member = |id| members.iter().any(|member| member.id == id);
        let others = numbers.iter().filter(|it| !is_member(it.id));
        let beside = others.map(|number| (number.id, account(number))).collect();
        Self { members, beside, home, is_of_several, alone }
    }

    /// Returns the number of the pool that was connected first.
    #[must_use]
    pub fn first(&self) -> Option<NumberId> {
        self.members.first().map(|member| member.id)
    }

    /// Returns whether there is a choice between numbers.
    #[must_use]
    pub fn is_choice(&self) -> bool {
        self.members.len() > 1
    }

    /// Returns the numbers of the pool, oldest first.
    pub fn numbers(&self) -> impl Iterator<Item = NumberId> {
        self.members.iter().map(|member| member.id)
    }

    /// Returns the account of the number connected first, which has templates that name no account.
    #[must_use]
    pub fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    /// Returns whether connected numbers are of no more than one account.
    #[must_use]
    pub const fn is_of_one_account(&self) -> bool {
        !self.is_of_several
    }

    /// Returns the account of a connected number, in the pool or not; `None` if it is not
    /// connected.
    #[must_use]
    pub fn account(&self, number: NumberId) -> Option<Option<&str>> {
        let member = self.members.iter().find(|member| member.id == number);
        let beside = || self.beside.iter().find(|(id, _)| *id == number);
        let account = member.map(|member| &member.account);
        account.or_else(|| beside().map(|(_, account)| account)).map(Option::as_deref)
    }

    /// Returns whether an account is that of a connected number.
    #[must_use]
    pub fn has_account(&self, account: &str) -> bool {
        let members = self.members.iter().map(|member| &member.account);
        let mut all = members.chain(self.beside.iter().map(|(_, account)| account));
        all.any(|it| it.as_deref() == Some(account))
    }

    /// Returns the number that was alone in the pool before others joined it.
    #[must_use]
    pub const fn alone(&self) -> Option<Alone> {
        self.alone
    }

    /// Returns the record of the number that was alone, as this pool becomes `next`.
    #[must_use]
    pub fn alone_before(&self, next: &Self, now: Timestamp) -> Option<Alone> {
        match &*self.members {
            [only] if next.is_choice() => Some(Alone { line: only.line, until: now }),
            _ => self.alone,
        }
    }

    /// Returns the number for a template to this contact, whose number was that of the line `last`.
    ///
    /// It is a free one, or the contact's own if none is free. `None` if no number of the pool is
    /// of an account that has the template.
    pub fn choose(
        &self,
        contact: &PartyId,
        last: Option<NumberId>,
        has_template: impl Fn(Option<&str>) -> bool,
        is_free: impl Fn(NumberId) -> bool,
    ) -> Option<NumberId> {
        let contact = hash(&[&contact.key_bytes()]);
        // The contact's own number comes before all others.
        let rank = |member: &PoolMember| (Some(member.line) == last, mixed(member.seed ^ contact));
        let has = |member: &&PoolMember| has_template(member.account.as_deref());
        let all = || self.members.iter().filter(has);
        let free = all().filter(|member| is_free(member.id)).max_by_key(|member| rank(member));
        free.or_else(|| all().max_by_key(|member| rank(member))).map(|member| member.id)
    }
}

/// The connected number that is called so, by its id or by any form of its phone.
#[must_use]
pub fn find_by_name(numbers: &[NumberInfo], name: &str) -> Option<NumberId> {
    let phone: Option<Phone> = name.parse().ok();
    let has_phone = |number: &NumberInfo| {
        number.account.as_ref().is_some_and(|account| Some(account.phone) == phone)
    };
    let found = numbers.iter().find(|it| it.id.to_string() == name || has_phone(it));
    found.map(|number| number.id)
}

/// A hash that is the same in every version and on every machine: FNV-1a, mixed.
fn hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().copied().flatten();
    mixed(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    }))
}

/// The last step of SplitMix64: each bit of the result depends on each bit that is given.
const fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests;
