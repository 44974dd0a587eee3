//! Pure: the one-time passwords to a region that have ended, and that were verified.
//!
//! A region is a country calling code with the next three digits. It is counted in spans of five
//! minutes, by the send time of its requests. Only the last hour is kept, so a region takes 56
//! bytes. The counts of a country are the sums of its regions. A span in which nobody of a busy
//! workspace verified a code counts nowhere. In such a span codes did not arrive, or could not be
//! submitted.
//!
//! It also owns the destinations that stay limited for a while, and the number of their probes.
//! Refused codes do not count, so under a flood the counts of a destination run dry. Its limit is
//! held for a time after the counts last showed it. A fifth of the codes shows it again meanwhile.
//! No snapshot has the limits: a restart starts with the present counts.

use std::collections::BTreeMap;
use std::time::Duration;

use hashbrown::HashMap;
use postrider_domain::destination::{Prefix, region};
use postrider_domain::event::{EventDecodeError, encode};
use postrider_domain::{Phone, Timestamp};
use serde::{Deserialize, Serialize};

use crate::core::settings::AdaptiveOptions;

/// The seconds of a span.
const SPAN_SECONDS: u64 = 300;
/// The number of spans in which a region is counted.
const SPANS: usize = 12;
/// The maximum of regions that are counted.
const REGIONS_MAX: usize = 100_000;
/// The number of verified codes of all regions that make a span a busy one.
const BUSY_VERIFIED: u16 = 5;
/// The number of busy spans of the last hour that make a workspace a busy one.
const BUSY_SPANS: usize = 6;
/// The maximum of destinations that are held.
const HELD_MAX: usize = 10_000;
/// The divisor of `min_sends` for a destination that is held: a fifth of the codes is enough.
const HELD_SHARE: u32 = 5;

/// The counts of all regions.
#[derive(Debug, Default)]
pub(crate) struct ConversionCounts {
    regions: BTreeMap<Prefix, RegionCounts>,
    /// The newest span of all.
    newest: u32,
    /// The sums of countries, with the second of each sum; no snapshot has them.
    countries: HashMap<u16, (u64, Conversion)>,
    /// The counts of all regions together; no snapshot has them.
    all: RegionCounts,
    /// The span in which regions were forgotten last.
    swept: u32,
    pub(crate) emitted: EmittedRefusals,
    pub(crate) limits: ConversionLimits,
}

impl ConversionCounts {
    /// Counts the end of a code that was first sent at `sent_at`, and `sends` times in all.
    pub(crate) fn ended(
        &mut self,
        sent_at: Timestamp,
        phone: Phone,
        (verified, sends): (bool, u8),
    ) {
        let (span, region) = (span(sent_at), region(phone));
        if span.saturating_add(SPANS as u32) <= self.newest {
            return;
        }
        if self.newest < span {
            self.newest = span;
            self.regions.retain(|_, region| !region.is_over(span));
        }
        if self.regions.len() >= REGIONS_MAX && !self.regions.contains_key(&region) {
            self.forget_quietest();
        }
        let new = RegionCounts { newest: span, ..RegionCounts::default() };
        let counts = self.regions.entry(region).or_insert(new);
        for counts in [counts, &mut self.all] {
            if let Some(span) = counts.span_mut(span) {
                span.add(verified, sends);
            }
        }
    }

    /// Forgets the regions whose counts are over. They are looked at once in a span.
    pub(crate) fn forget_over(&mut self, now: Timestamp) {
        if self.swept < span(now) {
            self.swept = span(now);
            self.regions.retain(|_, region| !region.is_over(span(now)));
        }
    }

    /// Forgets the tenth of all regions that has the fewest codes.
    ///
    /// Regions without verified codes go first, as a spray has them.
    fn forget_quietest(&mut self) {
        let newest = self.newest;
        let of = |(prefix, region): (&Prefix, &RegionCounts)| {
            let Conversion { ended, verified } = region.sum((newest, SPANS as u32), &[]);
            (verified > 0, ended, *prefix)
        };
        let mut all: Vec<_> = self.regions.iter().map(of).collect();
        let tenth = all.len() / 10;
        all.select_nth_unstable(tenth);
        for (.., prefix) in &all[..tenth] {
            self.regions.remove(prefix);
        }
    }

    /// Returns the silent spans: nobody of a busy workspace verified a code that was sent in one.
    fn silent(&self, now: Timestamp) -> Vec<u32> {
        let last = || self.all.last(span(now), SPANS as u32);
        let is_busy = |(_, span): &(u32, CountSpan)| span.verified >= BUSY_VERIFIED;
        if last().filter(is_busy).count() < BUSY_SPANS {
            return Vec::new();
        }
        last().filter(|(_, span)| span.verified == 0).map(|(number, _)| number).collect()
    }

    /// Returns the counts of a region in the last `spans` spans.
    pub(crate) fn of_region(&self, region: Prefix, now: Timestamp, spans: u32) -> Conversion {
        let sum = |it: &RegionCounts| it.sum((span(now), spans), &self.silent(now));
        self.regions.get(&region).map_or_else(Conversion::default, sum)
    }

    /// Returns the counts of a country, without held regions and those that `leaves_out` names.
    ///
    /// They are summed up once a second.
    pub(crate) fn of_country(
        &mut self,
        code: u16,
        (now, spans): (Timestamp, u32),
        leaves_out: impl Fn(Conversion) -> bool,
    ) -> Conversion {
        let known = self.countries.get(&code).filter(|(second, _)| *second == now.as_secs());
        if let Some((_, known)) = known {
            return *known;
        }
        let regions = self.regions.range(Prefix::regions_of(code));
        let regions = regions.filter(|(region, _)| !self.limits.is_held(**region, now));
        let silent = self.silent(now);
        let counts = regions.map(|(_, region)| region.sum((span(now), spans), &silent));
        let counts = counts.filter(|conversion| !leaves_out(*conversion));
        let sum = counts.fold(Conversion::default(), Conversion::plus);
        self.countries.insert(code, (now.as_secs(), sum));
        sum
    }

    /// Counts sends after `to` as of that moment: the clock was ahead. A second call changes
    /// nothing.
    pub(crate) fn rebase(&mut self, to: Timestamp) {
        let to = span(to);
        (self.newest, self.swept) = (self.newest.min(to), self.swept.min(to));
        self.countries.clear();
        self.limits.clear();
        let all = self.regions.values_mut().chain([&mut self.all]);
        for region in all.filter(|region| region.newest > to) {
            let later = ((region.newest - to) as usize).min(SPANS);
            let mut at = RegionCounts { newest: to, ..RegionCounts::default() };
            at.spans[..SPANS - later].copy_from_slice(&region.spans[later..]);
            for span in &region.spans[..later] {
                at.spans[0].ended = at.spans[0].ended.saturating_add(span.ended);
                at.spans[0].verified = at.spans[0].verified.saturating_add(span.verified);
            }
            *region = at;
        }
    }

    /// Appends the counts that are not over, for a snapshot.
    pub(crate) fn encode_into(&self, now: Timestamp, out: &mut Vec<u8>) {
        let regions = self.regions.iter().filter(|(_, region)| !region.is_over(span(now)));
        encode(&(self.newest, regions.collect::<Vec<_>>()), out);
    }

    /// Reads the bytes of [`encode_into`](Self::encode_into) from the front of `bytes`.
    pub(crate) fn take_from(bytes: &mut &[u8]) -> Result<Self, EventDecodeError> {
        type Encoded = (u32, Vec<(Prefix, RegionCounts)>);
        let ((newest, regions), rest) =
            postcard::take_from_bytes::<Encoded>(bytes).map_err(|_| EventDecodeError)?;
        *bytes = rest;
        let mut all = RegionCounts { newest, ..RegionCounts::default() };
        for (number, span) in
            regions.iter().flat_map(|(_, region)| region.last(newest, SPANS as u32))
        {
            if let Some(sum) = all.span_mut(number) {
                sum.ended = sum.ended.saturating_add(span.ended);
                sum.verified = sum.verified.saturating_add(span.verified);
            }
        }
        let regions = regions.into_iter().collect();
        Ok(Self { regions, newest, all, ..Self::default() })
    }

    /// Returns the number of regions that are counted.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.regions.len()
    }

    /// Returns all counts of the last hour, by region.
    #[cfg(test)]
    pub(crate) fn all(&self, now: Timestamp) -> Vec<(Prefix, Conversion)> {
        let all = self.regions.keys().map(|it| (*it, self.of_region(*it, now, SPANS as u32)));
        all.filter(|(_, conversion)| conversion.ended > 0).collect()
    }
}

/// Sends of codes that have ended, and the codes of them that were verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Conversion {
    pub(crate) ended: u32,
    pub(crate) verified: u32,
}

impl Conversion {
    const fn plus(self, other: Self) -> Self {
        Self {
            ended: self.ended.saturating_add(other.ended),
            verified: self.verified.saturating_add(other.verified),
        }
    }
}

/// The destinations that are limited, or were of late.
#[derive(Debug, Default)]
pub(crate) struct ConversionLimits(BTreeMap<Prefix, DestinationHold>);

impl ConversionLimits {
    /// Returns whether a destination is held, whatever its counts show.
    pub(crate) fn is_held(&self, destination: Prefix, now: Timestamp) -> bool {
        self.0.get(&destination).is_some_and(|hold| now < hold.until)
    }

    /// Returns whether a destination with these counts is limited.
    pub(crate) fn judge(
        &mut self,
        destination: Prefix,
        now: Timestamp,
        counts: Conversion,
        options: &AdaptiveOptions,
    ) -> bool {
        let is_held = self.is_held(destination, now);
        let least = match is_held {
            true => options.min_sends.div_ceil(HELD_SHARE),
            false => options.min_sends,
        };
        if counts.ended < least {
            return is_held;
        }
        if !options.is_under(counts) {
            self.0.remove(&destination);
            return false;
        }
        if self.0.len() >= HELD_MAX && !self.0.contains_key(&destination) {
            let is_over = |hold: &DestinationHold| {
                hold.until.max(hold.probes.0.plus(options.window())) <= now
            };
            self.0.retain(|_, hold| !is_over(hold));
        }
        if self.0.len() < HELD_MAX {
            let new = DestinationHold { until: now, probes: (now, 0) };
            self.0.entry(destination).or_insert(new).until = now.plus(options.hold());
        }
        true
    }

    /// Takes one of the probes that a limited destination may have in a window, if one is left.
    pub(crate) fn take_probe(
        &mut self,
        destination: Prefix,
        now: Timestamp,
        options: &AdaptiveOptions,
    ) -> bool {
        let Some(DestinationHold { probes: (since, count), .. }) = self.0.get_mut(&destination)
        else {
            return true;
        };
        if since.plus(options.window()) <= now {
            (*since, *count) = (now, 0);
        }
        let is_left = *count < options.min_sends;
        *count += u32::from(is_left);
        is_left
    }

    /// Ends all holds, as the clock was ahead.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl AdaptiveOptions {
    /// Returns whether so many codes, by their verified share, limit a destination by themselves.
    pub(crate) fn has_too_few(&self, of: Conversion) -> bool {
        of.ended >= self.min_sends && self.is_under(of)
    }

    /// Returns whether the verified share is too small.
    pub(crate) fn is_under(&self, of: Conversion) -> bool {
        let percent = u64::from(self.conversion_percent);
        u64::from(of.verified) * 100 < percent * u64::from(of.ended)
    }

    fn window(&self) -> Duration {
        Duration::from_secs(self.window_seconds.into())
    }

    fn hold(&self) -> Duration {
        Duration::from_secs(self.hold_seconds.into())
    }
}

/// The refusals in the newest span for which events were emitted.
///
/// Sends are limited by themselves, but refusals cost their cause nothing. No snapshot has them: a
/// restart starts at zero.
#[derive(Debug, Default)]
pub(crate) struct EmittedRefusals {
    span: u32,
    counts: HashMap<String, u16>,
    all: u16,
}

impl EmittedRefusals {
    /// The maximum of events for one destination in a span: one a second.
    pub(crate) const OF_DESTINATION_MAX: u16 = 300;
    /// The maximum of events for all destinations in a span.
    pub(crate) const ALL_MAX: u16 = 3000;

    /// Returns whether an event of a refusal for a destination is to be emitted; it then counts.
    pub(crate) fn admits(&mut self, now: Timestamp, prefix: &str) -> bool {
        if self.span != span(now) {
            *self = Self { span: span(now), ..Self::default() };
        }
        if self.all == Self::ALL_MAX {
            return false;
        }
        let count = self.counts.entry(prefix.to_owned()).or_default();
        let is_admitted = *count < Self::OF_DESTINATION_MAX;
        *count += u16::from(is_admitted);
        self.all += u16::from(is_admitted);
        is_admitted
    }
}

/// Returns the number of spans in a window of so many seconds.
pub(crate) fn spans_of(seconds: u16) -> u32 {
    u32::from(seconds).div_ceil(SPAN_SECONDS as u32).clamp(1, SPANS as u32)
}

/// The limit of one destination.
#[derive(Debug, Clone, Copy)]
struct DestinationHold {
    until: Timestamp,
    /// The start of the window of probes, and the probes since then.
    probes: (Timestamp, u32),
}

/// The counts of one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct RegionCounts {
    /// The newest span, in spans since the epoch.
    newest: u32,
    /// The newest span first.
    spans: [CountSpan; SPANS],
}

impl RegionCounts {
    /// Returns the counts of a span, while they are held.
    fn span_mut(&mut self, span: u32) -> Option<&mut CountSpan> {
        if let Some(later) = span.checked_sub(self.newest).filter(|later| *later > 0) {
            let later = (later as usize).min(SPANS);
            self.spans.copy_within(..SPANS - later, later);
            self.spans[..later].fill(CountSpan::default());
            self.newest = span;
        }
        self.spans.get_mut((self.newest - span) as usize)
    }

    /// Returns the last spans up to that of `now`, newest first, with their numbers.
    fn last(&self, now: u32, spans: u32) -> impl Iterator<Item = (u32, CountSpan)> {
        let oldest = (now + 1).saturating_sub(spans);
        let numbered = (0..=self.newest).rev().zip(self.spans);
        numbered.filter(move |(number, _)| (oldest..=now).contains(number))
    }

    /// Returns the sum of the last spans, except those in `without`.
    fn sum(&self, (now, spans): (u32, u32), without: &[u32]) -> Conversion {
        let counts = self.last(now, spans).filter(|(number, _)| !without.contains(number));
        counts.fold(Conversion::default(), |sum, (_, span)| sum.plus(span.conversion()))
    }

    const fn is_over(&self, now: u32) -> bool {
        self.newest as u64 + SPANS as u64 <= now as u64
    }
}

/// The counts of one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct CountSpan {
    ended: u16,
    verified: u16,
}

impl CountSpan {
    fn add(&mut self, verified: bool, sends: u8) {
        if self.ended > u16::MAX - u16::from(u8::MAX) {
            // The share stays.
            (self.ended, self.verified) = (self.ended / 2, self.verified / 2);
        }
        self.ended += u16::from(sends);
        self.verified = self.verified.saturating_add(verified.into());
    }

    const fn conversion(self) -> Conversion {
        Conversion { ended: self.ended as u32, verified: self.verified as u32 }
    }
}

/// Returns the number of the span that contains a moment.
fn span(at: Timestamp) -> u32 {
    u32::try_from(at.as_secs() / SPAN_SECONDS).unwrap_or(u32::MAX - SPANS as u32)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use postrider_domain::golden::Sheet;

    use super::*;

    const SPAN: u64 = SPAN_SECONDS * 1000;

    fn at(span: u64) -> Timestamp {
        Timestamp::from_millis(span * SPAN)
    }

    fn phone(text: &str) -> Phone {
        text.parse().unwrap()
    }

    fn conversion(ended: u32, verified: u32) -> Conversion {
        Conversion { ended, verified }
    }

    #[test]
    fn a_region_is_small() {
        assert!(size_of::<(Prefix, RegionCounts)>() <= 64);
    }

    #[test]
    fn spans_are_counted_by_themselves() {
        let (mut counts, to) = (ConversionCounts::default(), phone("+15550123456"));
        for (span, verified) in [(100, false), (100, true), (103, false), (101, true)] {
            counts.ended(at(span), to, (verified, 1));
        }
        let of = |now, spans| counts.of_region(region(to), at(now), spans);
        assert_eq!(of(103, 12), conversion(4, 2));
        assert_eq!(of(103, 3), conversion(2, 1));
        assert_eq!(of(111, 12), conversion(4, 2));
        assert_eq!(of(112, 12), conversion(2, 1), "the oldest are over");
        assert_eq!(of(115, 12), conversion(0, 0));
        assert_eq!(of(102, 12), conversion(3, 2), "what is later is left out");
        counts.ended(at(91), to, (false, 1));
        assert_eq!(counts.of_region(region(to), at(103), 12), conversion(4, 2), "too old");
        counts.ended(at(130), phone("+4915112345678"), (true, 1));
        assert_eq!(counts.regions.len(), 1, "a region that is over is forgotten");
    }

    #[test]
    fn a_country_is_the_sum_of_its_regions() {
        let mut counts = ConversionCounts::default();
        for (to, times) in [("+15550123456", 3), ("+15560123456", 2), ("+4915112345678", 9)] {
            (0..times).for_each(|_| counts.ended(at(100), phone(to), (false, 1)));
        }
        let none = |_| false;
        assert_eq!(counts.of_country(1, (at(100), 12), none), conversion(5, 0));
        assert_eq!(counts.of_country(7, (at(100), 12), none), conversion(0, 0));
        let later = Timestamp::from_millis(100 * SPAN + 1000);
        assert_eq!(counts.of_country(1, (later, 12), |it| it.ended == 3), conversion(2, 0));
    }

    #[test]
    fn the_quietest_are_forgotten() {
        let mut counts = ConversionCounts::default();
        let loud = phone("+15550123456");
        (0..3).for_each(|_| counts.ended(at(100), loud, (true, 1)));
        let quiet = RegionCounts { newest: 100, ..RegionCounts::default() };
        let numbers = (200_000_u32..).filter_map(|digits| digits.to_string().parse().ok());
        counts.regions.extend(numbers.take(REGIONS_MAX - 1).map(|it: Prefix| (it, quiet)));
        assert_eq!(counts.regions.len(), REGIONS_MAX);
        counts.ended(at(100), phone("+998901234567"), (true, 1));
        assert_eq!(counts.regions.len(), REGIONS_MAX - REGIONS_MAX / 10 + 1);
        assert_eq!(counts.of_region(region(loud), at(100), 12), conversion(3, 3));
    }

    #[test]
    fn counts_are_written_as_ever() {
        let mut counts = ConversionCounts::default();
        counts.ended(at(1000), phone("+15550123456"), (true, 1));
        counts.ended(at(1001), phone("+15550123456"), (false, 1));
        counts.ended(at(1001), phone("+4915112345678"), (false, 1));
        let (mut sheet, mut bytes) = (Sheet::default(), Vec::new());
        counts.encode_into(at(1001), &mut bytes);
        sheet.bytes("regions", &bytes);
        sheet.is(expect![[r#"
            regions:
                e907020431353535e907010001010000000000000000000000000000000000000000053439313531
                e907010000000000000000000000000000000000000000000000
        "#]]);
    }

    #[test]
    fn a_full_span_keeps_its_share() {
        let (mut counts, to) = (ConversionCounts::default(), phone("+15550123456"));
        (0..200_000).for_each(|number| counts.ended(at(100), to, (number % 4 == 0, 1)));
        let Conversion { ended, verified } = counts.of_region(region(to), at(100), 12);
        assert!((24..=26).contains(&(verified * 100 / ended)), "{verified} of {ended}");
    }

    #[test]
    fn a_clock_that_was_ahead_changes_no_count() {
        let (mut counts, to) = (ConversionCounts::default(), phone("+15550123456"));
        for span in [100, 105, 108, 110] {
            counts.ended(at(span), to, (span > 105, 1));
        }
        for _ in 0..2 {
            counts.rebase(at(106));
            assert_eq!(counts.of_region(region(to), at(106), 12), conversion(4, 2));
            assert_eq!(counts.of_region(region(to), at(106), 1), conversion(2, 2));
        }
        let mut bytes = Vec::new();
        counts.encode_into(at(106), &mut bytes);
        let read = ConversionCounts::take_from(&mut bytes.as_slice()).unwrap();
        assert_eq!((read.all(at(106)), read.newest), (counts.all(at(106)), 106));
    }
}
