//! Commands that wait for an actor share a message of its mailbox.
//!
//! A message of a mailbox costs as much as a command, so the actor takes the waiting ones together.
//! The mailbox alone keeps a batch alive: an actor that dies drops its commands with it, which
//! answers their callers.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The maximum number of commands in a batch: other tasks of the runtime run between two.
const COMMANDS_MAX: usize = 64;

/// Commands that the actor takes at once, in the order of arrival; `None` after that.
#[derive(Debug)]
pub struct CommandBatch<C>(Mutex<Option<Vec<C>>>);

impl<C> CommandBatch<C> {
    /// Takes the commands. No command can join them any more.
    pub(crate) fn take(&self) -> Vec<C> {
        self.0.lock().take().unwrap_or_default()
    }

    /// Adds a command, or returns it if the batch was taken or is full.
    fn join(&self, command: C) -> Option<C> {
        match &mut *self.0.lock() {
            Some(commands) if commands.len() < COMMANDS_MAX => commands.push(command),
            _ => return Some(command),
        }
        None
    }
}

/// The way of commands into a mailbox.
#[derive(Debug)]
pub(crate) struct CommandBatches<C>(Mutex<Weak<CommandBatch<C>>>);

impl<C> Default for CommandBatches<C> {
    fn default() -> Self {
        Self(Mutex::new(Weak::new()))
    }
}

impl<C> CommandBatches<C> {
    /// Adds a command to the waiting batch, or else has `cast` put a new one into the mailbox.
    ///
    /// # Errors
    /// The command, and the error of `cast`.
    pub(crate) fn put<E>(
        &self,
        command: C,
        cast: impl FnOnce(Arc<CommandBatch<C>>) -> Result<(), E>,
    ) -> Result<(), (C, E)> {
        let mut newest = self.0.lock();
        let command = match newest.upgrade() {
            Some(waiting) => match waiting.join(command) {
                Some(command) => command,
                None => return Ok(()),
            },
            None => command,
        };
        let batch = Arc::new(CommandBatch(Mutex::new(Some(vec![command]))));
        // This is done under the lock: no command joins a batch that no actor received.
        match cast(Arc::clone(&batch)) {
            Ok(()) => {
                *newest = Arc::downgrade(&batch);
                Ok(())
            }
            // If its command is gone, the batch was received after all.
            Err(why) => batch.take().pop().map_or(Ok(()), |command| Err((command, why))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot::error::TryRecvError;
    use tokio::sync::oneshot::{Receiver, Sender, channel};

    /// A command that reports when it is dropped.
    type Command = Sender<()>;

    /// A mailbox and its contents.
    #[derive(Default)]
    struct Mailbox(Vec<Arc<CommandBatch<Command>>>);

    impl Mailbox {
        fn put(&mut self, batches: &CommandBatches<Command>) -> Receiver<()> {
            let (command, dropped) = channel();
            let cast = |batch| {
                self.0.push(batch);
                Ok::<_, ()>(())
            };
            assert!(batches.put(command, cast).is_ok());
            dropped
        }
    }

    #[test]
    fn commands_join_what_waits_until_it_is_taken_or_full() {
        let (batches, mut mailbox) = (CommandBatches::default(), Mailbox::default());
        let _first: Vec<_> = (0..3).map(|_| mailbox.put(&batches)).collect();
        assert_eq!((mailbox.0.len(), mailbox.0[0].take().len()), (1, 3));
        let _second: Vec<_> = (0..=COMMANDS_MAX).map(|_| mailbox.put(&batches)).collect();
        let sizes: Vec<_> = mailbox.0.iter().map(|batch| batch.take().len()).collect();
        assert_eq!(sizes, [0, COMMANDS_MAX, 1]);
    }

    #[test]
    fn commands_keep_their_order() {
        let (batches, mut mailbox) = (CommandBatches::default(), Mailbox::default());
        let mut waiting: Vec<_> = (0..5).map(|_| mailbox.put(&batches)).collect();
        for command in mailbox.0[0].take() {
            drop(command);
            let mut next = waiting.remove(0);
            assert_eq!(next.try_recv(), Err(TryRecvError::Closed));
            assert!(waiting.iter_mut().all(|it| it.try_recv() == Err(TryRecvError::Empty)));
        }
    }

    #[test]
    fn nobody_joins_what_no_actor_received() {
        let (batches, mut mailbox) = (CommandBatches::default(), Mailbox::default());
        let (command, mut dropped) = channel();
        let (command, why) = batches.put(command, |_| Err("no actor")).unwrap_err();
        assert_eq!((why, dropped.try_recv()), ("no actor", Err(TryRecvError::Empty)));
        drop(command);
        let _next = mailbox.put(&batches);
        assert_eq!(mailbox.0[0].take().len(), 1);
    }

    #[test]
    fn a_mailbox_that_goes_drops_its_commands() {
        let (batches, mut mailbox) = (CommandBatches::default(), Mailbox::default());
        let mut waiting: Vec<_> = (0..3).map(|_| mailbox.put(&batches)).collect();
        mailbox.0.clear();
        assert!(waiting.iter_mut().all(|it| it.try_recv() == Err(TryRecvError::Closed)));
        let _next = mailbox.put(&batches);
        assert_eq!(mailbox.0[0].take().len(), 1, "and none joins them");
    }
}
