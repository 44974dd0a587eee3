//! Counts of the events of one-time passwords, by day and country.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use postrider_domain::day::Day;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::Workspace;
use crate::core::otp::day_counts::{OtpCounts, TodayCounts, key_into, prefix, read_key};
use crate::sweep::{self, Look, RecordKeys, SweepCursor};

/// The number of further days for which counted days are kept.
const DAYS_KEPT: u32 = 400;
/// The interval of the search for days to forget.
const ROUND: std::time::Duration = std::time::Duration::from_secs(3600);

/// The counts of one-time passwords on some days.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtpDays {
    /// The counts by day, oldest first, of the days that have any.
    pub days: BTreeMap<Day, OtpCounts>,
    /// The counts by calling code.
    pub countries: BTreeMap<u16, OtpCounts>,
    /// The counts of all together.
    pub totals: OtpCounts,
}

impl Workspace {
    /// Returns the counts of one-time passwords from one day to another, both included.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub async fn otp_days(&self, from: Day, to: Day) -> Result<OtpDays, Unavailable> {
        self.scan(move |store, workspace| {
            let mut found = OtpDays::default();
            scan(store, workspace, (from, to), &mut |day, code, counts| {
                found.days.entry(day).or_default().add(&counts);
                found.countries.entry(code).or_default().add(&counts);
                found.totals.add(&counts);
            })?;
            Ok(found)
        })
        .await
    }
}

fn scan(
    store: &dyn View,
    workspace: &WorkspaceId,
    (from, to): (Day, Day),
    visit: &mut dyn FnMut(Day, u16, OtpCounts),
) -> Result<(), StoreError> {
    let (prefix, mut first, mut damage) = (prefix(workspace), Vec::new(), None);
    key_into(&prefix, from, 0, &mut first);
    let direction = Direction::Forward;
    store.scan(Table::Analytics, &prefix, Some(&first), direction, &mut |key, value| {
        let Some((day, code)) = read_key(&key[prefix.len()..]) else {
            return ControlFlow::Continue(());
        };
        if day > to {
            return ControlFlow::Break(());
        }
        match OtpCounts::decode(value) {
            Ok(counts) => visit(day, code, counts),
            Err(error) => damage = Some(error),
        }
        ControlFlow::Continue(())
    })?;
    damage.map_or(Ok(()), Err)
}

/// Reads the counts of the running day, for an actor that starts.
pub(crate) fn counts_of_today(
    store: &dyn View,
    workspace: &WorkspaceId,
    now: Timestamp,
) -> Result<TodayCounts, StoreError> {
    let (today, mut found) = (Day::of(now), Vec::new());
    scan(store, workspace, (today, today), &mut |_, code, counts| found.push((code, counts)))?;
    Ok(TodayCounts::stored(today, found.into_iter()))
}

/// Reads the counts of days long past.
pub(crate) fn expired_days(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let first = Day::of(look.now).minus(DAYS_KEPT);
    let of = prefix(look.workspace);
    let is_past = |key: &[u8]| read_key(key).is_some_and(|(day, _)| day < first);
    let (keys, more) = sweep::while_over(look, (Table::Analytics, &of), &cursor.from, is_past)?;
    if let Some((_, key)) = keys.last() {
        cursor.pass(key);
    }
    if !more {
        cursor.rest_until(look.now.plus(ROUND));
    }
    Ok(keys)
}
