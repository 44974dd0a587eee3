//! The real process under crashes, signals and failing disks: every answer stays true.
//!
//! A test runs the binary on a data directory of its own. Clients send and verify codes while a
//! fault hits the process or the disk. The test starts it again, and checks the server against
//! every answer. A request without an answer may have had its effect or not.

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
