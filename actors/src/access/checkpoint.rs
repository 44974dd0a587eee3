//! Saves the used buckets of keys and addresses, so that a restart does not refill them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use postrider_domain::Timestamp;
use postrider_runtime::shared_bucket::nanos;

use super::key_buckets::WINDOWS;
use super::{Access, Caller, last_use, saved_buckets};

/// The buckets and keys that were used since the last checkpoint.
pub(super) struct Used {
    /// The name in the store of each bucket, and the time at which it is full, in nanoseconds.
    pub(super) buckets: Vec<(Vec<u8>, u64)>,
    /// The last use of each key whose last use is not saved.
    uses: Vec<(Arc<Caller>, Timestamp)>,
}

impl Access {
    /// Writes the buckets that were used since the last checkpoint, so that a restart does not
    /// refill them. Also writes the times at which keys were last used.
    pub(crate) async fn checkpoint(&self) {
        let Used { buckets, uses } = self.used();
        let mut changes = self.inner.saved.changes(buckets, self.clock().now());
        changes.extend(uses.iter().map(|(caller, at)| last_use::put(caller.key_id, *at)));
        let strays = std::mem::take(&mut *self.inner.stray_uses.lock());
        changes.extend(strays.iter().map(|key| last_use::delete(*key)));
        if changes.is_empty() {
            return;
        }
        match self.inner.shared.writer.commit(changes).await {
            Ok(()) => uses.iter().for_each(|(caller, at)| caller.last_use.note_saved(*at)),
            Err(error) => {
                // They are written again next time: only durable values are recorded as saved.
                tracing::warn!(%error, "request limits were not saved");
                self.inner.saved.forget_noted();
                uses.iter().for_each(|(caller, _)| self.note_use(caller));
                self.inner.stray_uses.lock().extend(strays);
            }
        }
    }

    /// Does the same in the background, unless the last checkpoint is still in progress.
    pub(crate) fn checkpoint_in_background(&self) {
        if self.inner.saving.swap(true, Ordering::AcqRel) {
            return;
        }
        let access = self.clone();
        drop(tokio::spawn(async move {
            access.checkpoint().await;
            access.inner.saving.store(false, Ordering::Release);
        }));
    }

    /// Returns the values used since the last checkpoint, and each bucket that was not full then.
    /// Unused buckets cost nothing.
    pub(super) fn used(&self) -> Used {
        let now = self.clock().now();
        let (mut buckets, mut uses) = (Vec::new(), Vec::new());
        buckets.extend(self.inner.orphans.lock().drain(..).map(|name| (name, 0)));
        let callers = std::mem::take(&mut *self.inner.used.lock());
        for caller in callers {
            // First, so that a caller that takes from them after this is noted again.
            caller.is_used.store(false, Ordering::Release);
            let is_revoked = caller.is_revoked.load(Ordering::Acquire);
            if is_revoked {
                let names = WINDOWS.map(|window| window.as_secs() as u32);
                let names = names.map(|window| saved_buckets::key_name(caller.key_id, window));
                // A full bucket is deleted.
                buckets.extend(names.map(|name| (name, 0)));
                // A checkpoint in progress may have saved it after the revocation.
                self.inner.stray_uses.lock().push(caller.key_id);
                continue;
            }
            let mut fills = false;
            for bucket in caller.buckets.load().iter() {
                let name = saved_buckets::key_name(caller.key_id, bucket.window_s());
                let full_at_ns = bucket.full_at_ns();
                fills |= full_at_ns > nanos(now);
                buckets.push((name, full_at_ns));
            }
            if fills {
                self.note_use(&caller);
            }
            if let Some(at) = caller.last_use.unsaved() {
                uses.push((caller, at));
            }
        }
        self.inner.addresses.collect(&mut buckets, now);
        self.inner.shared.creations.collect(&mut buckets, now);
        Used { buckets, uses }
    }
}
