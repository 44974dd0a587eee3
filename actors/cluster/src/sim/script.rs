//! What fails in a simulated run, when, and for how long.

use super::World;
use super::call::{Event, Input};

/// Faults end by then, so that a run is short.
const LAST_FAULT_MS: u64 = 28_000;

/// One thing that fails.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The process ends; it starts again, maybe without its disk.
    Kill { node: usize, loses_disk: bool },
    /// The process stands still.
    Pause { node: usize, for_ms: u64 },
    /// Neither log nor bucket nor other nodes hear it.
    Cut { node: usize },
    /// The wall clock is set.
    Jump { node: usize, by_ms: i64 },
    /// The stream has no leader.
    Election { shard: usize, for_ms: u64 },
    /// Nothing of the log and the bucket answers.
    Silence { for_ms: u64 },
    /// A server that no longer leads goes on answering.
    Stale { shard: usize, for_ms: u64 },
    /// The stream loses its last entries, while the owner dies and one node was away.
    Lose { shard: usize, count: usize, kills: usize },
    /// A bit of the stream changes.
    Flip { shard: usize, back: usize, byte: usize },
}

impl World {
    /// Draws what fails in this run.
    pub(super) fn write_script(&mut self) {
        let count = self.draw(7);
        // Nothing is lost in most runs: then everything else is judged to the end.
        let damages = self.draw(4) == 0;
        let mut calm_from = 4_000;
        for number in 0..count {
            let at = 2_500 + self.draw(LAST_FAULT_MS - 8_000);
            let mut lasts = 500 + self.draw(LAST_FAULT_MS - at - 500);
            if self.draw(2) == 0 {
                // A little longer than a lease is where most can go wrong.
                lasts = 13_000 + self.draw(4_000);
            }
            let fault = self.draw_fault(lasts, damages);
            self.faults.push(fault);
            self.later(at, Event::Fault(number as usize));
            self.later(at + lasts, Event::Heal(number as usize));
            calm_from = calm_from.max(at + lasts);
        }
        // What is under way when it heals may be late by some seconds.
        self.calm_from = calm_from;
    }

    fn draw_fault(&mut self, lasts: u64, damages: bool) -> Fault {
        let node = self.draw(self.nodes.len() as u64) as usize;
        let shard = self.draw(self.streams.len() as u64) as usize;
        match self.draw(if damages { 14 } else { 11 }) {
            0 | 1 => Fault::Kill { node, loses_disk: self.draw(3) == 0 },
            2 | 3 => Fault::Pause { node, for_ms: lasts },
            4..=6 => Fault::Cut { node },
            7 => Fault::Jump { node, by_ms: self.draw(7_200_000) as i64 - 5_400_000 },
            8 => Fault::Election { shard, for_ms: lasts.min(9_000) },
            9 => Fault::Silence { for_ms: lasts },
            10 => Fault::Stale { shard, for_ms: lasts.min(9_000) },
            11 | 12 => {
                let (count, kills) = (1 + self.draw(4) as usize, self.draw(3) as usize);
                Fault::Lose { shard, count, kills }
            }
            _ => {
                let (back, byte) = (1 + self.draw(4) as usize, self.draw(1_000) as usize);
                Fault::Flip { shard, back, byte }
            }
        }
    }

    pub(super) fn begin_fault(&mut self, number: usize) {
        let fault = self.faults[number].clone();
        self.told(|| format!("fault: {fault:?}"));
        match fault {
            Fault::Kill { node, .. } => self.nodes[node].is_alive = false,
            Fault::Pause { node, for_ms } => {
                let until = self.now + for_ms;
                let it = &mut self.nodes[node];
                it.paused_until = it.paused_until.max(until);
            }
            Fault::Cut { node } => self.nodes[node].is_cut = true,
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
                self.streams[shard].lose(count);
                let owner =
                    (0..self.nodes.len()).filter(|it| self.nodes[*it].owns(shard, self.now));
                for node in owner.take(kills).collect::<Vec<_>>() {
                    self.nodes[node].is_alive = false;
                }
            }
            Fault::Flip { shard, back, byte } => self.streams[shard].flip(back, byte),
        }
    }

    pub(super) fn end_fault(&mut self, number: usize) {
        match self.faults[number].clone() {
            Fault::Kill { node, loses_disk } => self.restart(node, loses_disk),
            Fault::Cut { node } => self.nodes[node].is_cut = false,
            Fault::Lose { .. } => {
                for node in 0..self.nodes.len() {
                    self.restart(node, false);
                }
            }
            _ => {}
        }
    }

    /// Starts a node's process again if it does not run; the end of its disk may be gone.
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
