//! The faults of a simulated run, with their times and durations.

use super::World;
use super::call::{Event, Input};
use super::node::Node;

/// The time by which faults end, so that a run is short.
const LAST_FAULT_MS: u64 = 28_000;
/// The time between looks for a doubting node.
const LOOK_EVERY_MS: u64 = 10;
/// The time between looks for a claiming node: an append is soon acknowledged.
const CLAIMS_EVERY_MS: u64 = 2;
/// The number of runs of which one has a claimer that hears of the log late.
const SLOW_CLAIMER_IN: u64 = 8;

/// One fault.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The process ends; it starts again, maybe without its disk.
    Kill { node: usize, loses_disk: bool },
    /// The process is paused.
    Pause { node: usize, for_ms: u64 },
    /// The process of the present owner of the shard is paused.
    PauseOwner { shard: usize, for_ms: u64 },
    /// The process of the first node that sees the log end too early is paused after it has asked
    /// again.
    PauseDoubter { shard: usize, for_ms: u64 },
    /// The process of the first node that claims the shard is drained, and hears of the log late.
    ///
    /// Others ask for the shard while they see the claim and the node does not.
    SlowClaimer { shard: usize, until: u64, for_ms: u64 },
    /// The log, the bucket and other nodes do not hear the node, or it does not hear them, or both.
    Cut { node: usize, is_mute: bool, is_deaf: bool },
    /// The bucket does not hear the node; the log and other nodes do.
    CutFromBucket { node: usize },
    /// The node shall own nothing for a while.
    Drain { node: usize },
    /// The wall clock is set wrong, and set right again.
    Jump { node: usize, by_ms: i64 },
    /// The stream has no leader.
    Election { shard: usize, for_ms: u64 },
    /// The log and the bucket do not answer.
    Silence { for_ms: u64 },
    /// A server that no longer leads continues to answer.
    Stale { shard: usize, for_ms: u64 },
    /// The stream loses its last entries, while the owner dies and one node was away.
    Lose { shard: usize, count: usize, kills: usize },
    /// A bit of the stream changes.
    Flip { shard: usize, back: usize, byte: usize },
    /// The newest checkpoint is damaged.
    Rot { shard: usize },
}

impl World {
    /// Draws the faults of this run.
    pub(super) fn write_script(&mut self) {
        let count = self.draw(7);
        // Nothing is lost in most runs: then everything else is judged to the end.
        let damages = self.draw(4) == 0;
        let mut calm_from = 4_000;
        let mut before = 2_500;
        for number in 0..count {
            let mut at = 2_500 + self.draw(LAST_FAULT_MS - 8_000);
            if number > 0 && self.draw(3) == 0 {
                // Some faults come close together.
                at = (before + self.draw(2_000)).min(LAST_FAULT_MS - 5_500);
            }
            before = at;
            let mut lasts = 500 + self.draw(LAST_FAULT_MS - at - 500);
            if self.draw(2) == 0 {
                // Durations slightly longer than a lease are the most likely to cause failures.
                lasts = 13_000 + self.draw(4_000);
            }
            let fault = self.draw_fault(lasts, damages);
            let again = self.draw_pause(&fault, at);
            self.add_fault(fault, at, lasts);
            calm_from = calm_from.max(at + lasts);
            if let Some((fault, at, lasts)) = again {
                self.add_fault(fault, at, lasts);
                calm_from = calm_from.max(at + lasts);
            }
        }
        if let Some((at, lasts, fault)) = self.slow_claimer() {
            self.add_fault(fault, at, lasts);
            calm_from = calm_from.max(at + lasts);
        }
        // Work that is under way at the end of the faults may be late by some seconds.
        self.calm_from = calm_from;
    }

    /// Returns a claimer that hears of the log late, in some runs.
    ///
    /// Nothing is drawn for it, so that the other runs stay the same.
    fn slow_claimer(&self) -> Option<(u64, u64, Fault)> {
        let (kind, number) =
            (self.options.seed % SLOW_CLAIMER_IN, self.options.seed / SLOW_CLAIMER_IN);
        let shard = number as usize % self.streams.len();
        // The times are those of the first claims, or of claims that follow other faults.
        let at = (number % 4) * 5_000;
        let for_ms = 1_500 + (number * 700) % 5_000;
        let (lasts, until) = (9_000, at + 2_500);
        (kind == 5).then_some((at, lasts, Fault::SlowClaimer { shard, until, for_ms }))
    }

    /// Draws the node that is paused after a fault, the time, and the duration of about a lease.
    fn draw_pause(&mut self, fault: &Fault, at: u64) -> Option<(Fault, u64, u64)> {
        match *fault {
            // The answer of such a server is read long after it was asked.
            Fault::Stale { shard, for_ms: stale_ms } => {
                let for_ms = 12_000 + self.draw(3_000);
                Some((Fault::PauseDoubter { shard, for_ms }, at + 1, stale_ms + for_ms))
            }
            // The node that knows the lost entries has started to append behind them, or has not
            // yet. It wakes when the next owner has written about as much.
            Fault::Lose { shard, kills: 0, .. } => {
                let (within, for_ms) = (1_500 + self.draw(1_500), 12_500 + self.draw(1_500));
                let at = if within % 2 == 0 { at + within } else { at };
                Some((Fault::PauseOwner { shard, for_ms }, at, for_ms))
            }
            _ => None,
        }
    }

    fn add_fault(&mut self, fault: Fault, at: u64, lasts: u64) {
        let number = self.faults.len();
        self.faults.push(fault);
        self.later(at, Event::Fault(number));
        self.later(at + lasts, Event::Heal(number));
    }

    fn draw_fault(&mut self, lasts: u64, damages: bool) -> Fault {
        let node = self.draw(self.nodes.len() as u64) as usize;
        let shard = self.draw(self.streams.len() as u64) as usize;
        match self.draw(if damages { 25 } else { 19 }) {
            0 | 1 => Fault::Kill { node, loses_disk: self.draw(3) == 0 },
            2..=4 => Fault::Pause { node, for_ms: lasts },
            5 | 6 => Fault::Cut { node, is_mute: true, is_deaf: true },
            7 => {
                let is_mute = lasts.is_multiple_of(2);
                Fault::Cut { node, is_mute, is_deaf: !is_mute }
            }
            8 => Fault::CutFromBucket { node },
            9..=11 => Fault::Drain { node },
            12 | 13 => Fault::Jump { node, by_ms: self.draw(7_200_000) as i64 - 5_400_000 },
            14 => Fault::Election { shard, for_ms: lasts.min(9_000) },
            15 => Fault::Silence { for_ms: lasts },
            16 | 17 => Fault::Stale { shard, for_ms: lasts.min(9_000) },
            18 => Fault::Rot { shard },
            19..=23 => {
                let (count, kills) = (1 + self.draw(4) as usize, self.draw(3) as usize);
                Fault::Lose { shard, count, kills }
            }
            _ => {
                let (back, byte) = (1 + self.draw(4) as usize, self.draw(1_000) as usize);
                Fault::Flip { shard, back, byte }
            }
        }
    }

    /// Marks nodes as unsteady for a while when a fault starts or ends at them.
    fn disturb(&mut self, fault: &Fault) {
        let now = self.now;
        match fault {
            Fault::Kill { node, .. }
            | Fault::Pause { node, .. }
            | Fault::Cut { node, .. }
            | Fault::CutFromBucket { node }
            | Fault::Drain { node }
            | Fault::Jump { node, .. } => self.nodes[*node].steady_since = now,
            // The fault looks for its node again and again; a paused node is not steady.
            Fault::PauseDoubter { .. } | Fault::SlowClaimer { .. } => {}
            _ => self.nodes.iter_mut().for_each(|node| node.steady_since = now),
        }
    }

    pub(super) fn begin_fault(&mut self, number: usize) {
        let fault = self.faults[number].clone();
        self.trace(|| format!("fault: {fault:?}"));
        self.disturb(&fault);
        match fault {
            Fault::Kill { node, .. } => self.nodes[node].is_alive = false,
            Fault::Pause { node, for_ms } => {
                let until = self.now + for_ms;
                let it = &mut self.nodes[node];
                it.paused_until = it.paused_until.max(until);
            }
            Fault::PauseOwner { shard, for_ms } => {
                let until = self.now + for_ms;
                let owner = (0..self.nodes.len()).find(|it| self.nodes[*it].owns(shard, self.now));
                if let Some(node) = owner {
                    let it = &mut self.nodes[node];
                    it.paused_until = it.paused_until.max(until);
                }
            }
            Fault::PauseDoubter { shard, for_ms } => {
                if !self.pause_a_doubter(shard, for_ms) && self.now < self.streams[shard].stale.0 {
                    self.later(LOOK_EVERY_MS, Event::Fault(number));
                }
            }
            Fault::SlowClaimer { shard, until, for_ms } => {
                if !self.slow_a_claimer(shard, for_ms) && self.now < until {
                    self.later(CLAIMS_EVERY_MS, Event::Fault(number));
                }
            }
            Fault::Cut { node, is_mute, is_deaf } => self.nodes[node].cut(is_mute, is_deaf),
            Fault::CutFromBucket { node } => self.nodes[node].has_no_bucket = true,
            Fault::Drain { node } => self.nodes[node].is_draining = true,
            Fault::Jump { node, by_ms } => self.nodes[node].jumps += by_ms,
            Fault::Election { shard, for_ms } => {
                self.streams[shard].silent_until = self.now + for_ms;
            }
            Fault::Silence { for_ms } => self.silent_until = self.now + for_ms,
            Fault::Stale { shard, for_ms } => {
                let stream = &mut self.streams[shard];
                stream.stale = (self.now + for_ms, stream.entries.len());
            }
            Fault::Lose { shard, count, kills } => {
                let unseen = self.unseen(shard);
                let count = if kills == 0 { unseen.unwrap_or(count) } else { count };
                self.streams[shard].lose(count);
                self.streams[shard].lost_at = self.now;
                let owner =
                    (0..self.nodes.len()).filter(|it| self.nodes[*it].owns(shard, self.now));
                for node in owner.take(kills).collect::<Vec<_>>() {
                    self.nodes[node].is_alive = false;
                }
            }
            Fault::Flip { shard, back, byte } => self.streams[shard].flip(back, byte),
            Fault::Rot { shard } => {
                if let Some(newest) = self.archives[shard].first_mut() {
                    newest.is_damaged = true;
                }
            }
        }
    }

    fn pause_a_doubter(&mut self, shard: usize, for_ms: u64) -> bool {
        let doubts = |it: &Node| it.is_alive && it.shards[shard].shard.doubts();
        let Some(it) = self.nodes.iter_mut().find(|it| doubts(it)) else { return false };
        it.paused_until = it.paused_until.max(self.now + for_ms);
        it.steady_since = it.paused_until;
        true
    }

    fn slow_a_claimer(&mut self, shard: usize, for_ms: u64) -> bool {
        let claims = |it: &Node| it.is_alive && it.shards[shard].is_claiming();
        let Some(it) = self.nodes.iter_mut().find(|it| claims(it)) else { return false };
        (it.late_until, it.is_draining) = (self.now + for_ms, true);
        it.steady_since = it.late_until;
        true
    }

    /// Returns the number of entries that only the owner has, if there are some.
    ///
    /// Another node may continue without them.
    fn unseen(&self, shard: usize) -> Option<usize> {
        let others = self.nodes.iter().filter(|it| !it.owns(shard, self.now));
        let applied = others.map(|it| it.shards[shard].shard.chain().last().0 as usize).max()?;
        let count = self.streams[shard].entries.len().checked_sub(applied)?;
        (1..=4).contains(&count).then_some(count)
    }

    pub(super) fn end_fault(&mut self, number: usize) {
        let fault = self.faults[number].clone();
        self.trace(|| format!("ends: {fault:?}"));
        self.disturb(&fault);
        match fault {
            Fault::Kill { node, loses_disk } => self.restart(node, loses_disk),
            Fault::Cut { node, .. } => self.nodes[node].cut(false, false),
            Fault::CutFromBucket { node } => self.nodes[node].has_no_bucket = false,
            Fault::Drain { node } => self.nodes[node].is_draining = false,
            Fault::SlowClaimer { .. } => {
                for it in self.nodes.iter_mut().filter(|it| it.late_until > 0) {
                    (it.is_draining, it.late_until) = (false, 0);
                }
            }
            Fault::Jump { node, by_ms } => self.nodes[node].jumps -= by_ms,
            Fault::Lose { .. } => {
                for node in 0..self.nodes.len() {
                    self.restart(node, false);
                }
            }
            _ => {}
        }
    }

    /// Starts a node's process again if it does not run; the end of its disk may be lost.
    fn restart(&mut self, node: usize, loses_disk: bool) {
        if self.nodes[node].is_alive {
            return;
        }
        let unsynced = self.draw(4) as usize;
        let kept = |had: usize| if loses_disk { 0 } else { had.saturating_sub(unsynced) };
        let logs = self.logs.clone();
        self.nodes[node].start(&logs, kept);
        let within = self.draw(500);
        self.after_a_while(node, within, Input::Tick);
        self.after_a_while(node, within, Input::ShardTick);
    }
}
