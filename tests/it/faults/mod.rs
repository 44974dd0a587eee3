//! The real process under crashes, signals and failing disks: whatever it answered stays true.
//!
//! A test runs the binary on a data directory of its own, has clients send and verify codes while
//! something is done to process or disk, starts it again, and holds everything that was answered
//! against what the server says now. What a client asked and got no answer to may be true or not.

mod check;
mod client;
mod copied_files;
mod copies;
mod disk;
mod journey;
mod ledger;
mod load;
mod process;

mod audit;
mod broadcast;
mod certificates;
mod chain;
mod damage;
mod failing;
mod held;
mod kill;
mod mails;
mod messages;
mod modes;
mod power;
mod refusals;
mod repair;
mod stop;
mod strangers;
mod webhooks;

pub use client::{Answer, Client, Outcome};
pub use disk::{Disk, fill, skip};
pub use process::{Process, signal, wait_for};
