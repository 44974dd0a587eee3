//! A child process gives a measurement its own memory.
//!
//! Only the system's cache of files is warm for it, and it can be killed.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{contacts, restart, served};
use crate::Result;

/// The first argument of such a process; the second is its order.
pub(crate) const CHILD: &str = "--measure-in-this-process";

/// The work of such a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Starts with pending one-time passwords.
    Restart(restart::Order),
    /// Serves HTTP until it is asked to stop, or killed.
    Serve(served::Order),
    /// Starts in the middle of a broadcast.
    GoOn(served::Order),
    /// Starts with contacts.
    Contacts(contacts::Order),
}

/// A process that was started.
pub(crate) struct Child {
    process: Process,
    /// The input, until the process was asked to stop.
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Drop for Child {
    fn drop(&mut self) {
        // A process that has ended cannot be killed, and is waited for all the same.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Child {
    /// Starts a process with an order.
    pub(crate) fn start(order: &Order) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(CHILD)
            .arg(serde_json::to_string(order)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or("its output is a pipe")?;
        Ok(Self { process, input, output: BufReader::new(output).lines() })
    }

    /// Reads the next message of the process.
    pub(crate) fn says<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.output.next().ok_or("the process that was to measure failed")??;
        Ok(serde_json::from_str(&line)?)
    }

    /// Sends a question to the process; returns its answer.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, what: &str) -> Result<T> {
        writeln!(self.input.as_mut().ok_or("it was asked to stop")?, "{what}")?;
        self.says()
    }
}

/// Runs as a child process.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    match serde_json::from_str(&arguments.next().ok_or("no order was given")?)? {
        Order::Restart(order) => say(&restart::child(&order)?),
        Order::Serve(order) => served::serve(&order),
        Order::GoOn(order) => say(&served::go_on(&order)?),
        Order::Contacts(order) => say(&contacts::child(&order)?),
    }
}

/// Sends a message to the parent process.
pub(crate) fn say(what: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(what)?);
    Ok(())
}
