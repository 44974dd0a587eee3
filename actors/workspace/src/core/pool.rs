//! Pure: the numbers that a workspace's messages leave through, and which of them is a contact's.
//!
//! The pool are the connected numbers that may be in it; once a number of the Cloud API is among
//! them, only such numbers. A contact keeps the number that was last used between the two. Whoever
//! has none gets the one with the highest weight, a hash of workspace, contact and number: so a new
//! number takes over its share of the contacts, and nobody moves between two others.

use postrider_domain::{NumberId, PartyId, Timestamp, WorkspaceId};
use postrider_number::record::{NumberInfo, NumberKind};
use serde::{Deserialize, Serialize};

/// The number that was alone in the pool before others joined it: whoever was written to in that
/// time was written to from this number, and nothing was noted of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alone {
    /// The number's line.
    pub line: NumberId,
    /// When others joined it.
    pub until: Timestamp,
}

/// A number of the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    id: NumberId,
    line: NumberId,
    /// What the weights of this number are made of.
    seed: u64,
    /// Whether it can send the workspace's templates, which are those of one account.
    has_templates: bool,
}

/// The numbers that a workspace's messages leave through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pool {
    /// Oldest first.
    members: Vec<Member>,
    /// The connected numbers that are not in it, but can send the workspace's templates.
    beside: Vec<NumberId>,
    alone: Option<Alone>,
}

impl Pool {
    /// Most numbers of a workspace.
    pub const NUMBERS_MAX: usize = 64;

    /// The pool of these numbers, oldest first, of which this one was alone in it before.
    #[must_use]
    pub fn of(workspace: &WorkspaceId, numbers: &[NumberInfo], alone: Option<Alone>) -> Self {
        let pooled = || numbers.iter().filter(|number| number.pool);
        let has_provider = pooled().any(|number| number.kind == NumberKind::CloudApi);
        let members: Vec<&NumberInfo> = pooled()
            .filter(|number| !has_provider || number.kind == NumberKind::CloudApi)
            .collect();
        let account = |of: &NumberInfo| of.account.as_ref().map(|it| it.account_id.clone());
        let templates_of = members.iter().copied().chain(numbers).find_map(account);
        let has_templates = |number: &NumberInfo| {
            let own = account(number);
            own.is_none() || own == templates_of
        };
        let member = |number: &&NumberInfo| {
            let line = number.line();
            let seed = hash(&[workspace.as_str().as_bytes(), &[0], line.as_bytes()]);
            Member { id: number.id, line, seed, has_templates: has_templates(number) }
        };
        let members: Vec<_> = members.iter().map(member).collect();
        let is_member = |id| members.iter().any(|member| member.id == id);
        let others = numbers.iter().filter(|it| !is_member(it.id) && has_templates(it));
        let beside = others.map(|number| number.id).collect();
        Self { members, beside, alone }
    }

    /// The number of the pool that was connected first.
    #[must_use]
    pub fn first(&self) -> Option<NumberId> {
        self.members.first().map(|member| member.id)
    }

    /// Whether there is a choice between numbers.
    #[must_use]
    pub fn is_choice(&self) -> bool {
        self.members.len() > 1
    }

    /// The numbers that can send the workspace's templates, oldest first.
    pub fn with_templates(&self) -> impl Iterator<Item = NumberId> {
        self.members.iter().filter(|member| member.has_templates).map(|member| member.id)
    }

    /// Whether a connected number can send the workspace's templates, in the pool or not.
    #[must_use]
    pub fn has_templates(&self, number: NumberId) -> bool {
        self.with_templates().any(|id| id == number) || self.beside.contains(&number)
    }

    /// The number that was alone in the pool before others joined it.
    #[must_use]
    pub const fn alone(&self) -> Option<Alone> {
        self.alone
    }

    /// What is to be remembered of the numbers that were alone, as this pool becomes `next`.
    #[must_use]
    pub fn alone_before(&self, next: &Self, now: Timestamp) -> Option<Alone> {
        match &*self.members {
            [only] if next.is_choice() => Some(Alone { line: only.line, until: now }),
            _ => self.alone,
        }
    }

    /// The number for a template to this contact, whose number was that of the line `last`: a free
    /// one, or that which the contact would have if none is free. `None` where no number of the
    /// pool has the templates.
    pub fn choose(
        &self,
        contact: &PartyId,
        last: Option<NumberId>,
        is_free: impl Fn(NumberId) -> bool,
    ) -> Option<NumberId> {
        let contact = hash(&[&contact.key_bytes()]);
        // The contact's own number comes before all others.
        let rank = |member: &Member| (Some(member.line) == last, mixed(member.seed ^ contact));
        let all = || self.members.iter().filter(|member| member.has_templates);
        let free = all().filter(|member| is_free(member.id)).max_by_key(|member| rank(member));
        free.or_else(|| all().max_by_key(|member| rank(member))).map(|member| member.id)
    }
}

/// The connected number that is called so, by its id or its phone.
#[must_use]
pub fn called(numbers: &[NumberInfo], name: &str) -> Option<NumberId> {
    let has_phone = |number: &NumberInfo| {
        number.account.as_ref().is_some_and(|account| account.phone.to_string() == name)
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
