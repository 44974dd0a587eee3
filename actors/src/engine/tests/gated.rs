//! A store whose commits wait while its gate is shut, so that a test decides what piles up.

use parking_lot::{Condvar, Mutex};

use postrider_store::hooked::{Hook, Hooked};

use super::*;

pub(super) type Gated = Hooked<Gate>;

#[derive(Debug, Clone, Default)]
pub(super) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gated {
    pub(super) fn shut(&self) {
        *self.hook.0.0.lock() = true;
    }

    pub(super) fn open(&self) {
        *self.hook.0.0.lock() = false;
        self.hook.0.1.notify_all();
    }
}

impl Hook for Gate {
    fn before_commit(&self) {
        let mut shut = self.0.0.lock();
        while *shut {
            self.0.1.wait(&mut shut);
        }
    }
}
