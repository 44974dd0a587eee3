//! Pure: the span of each message that was accepted a short time ago.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::TraceContext;

/// The maximum number of remembered subjects; the oldest is forgotten first.
const REMEMBERED_MAX: usize = 4096;

/// The subject with which a trace continues after its request, by its id.
///
/// It is a message or a request for a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject([u8; 16]);

impl From<[u8; 16]> for Subject {
    fn from(id: [u8; 16]) -> Self {
        Self(id)
    }
}

/// The remembered subjects.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    contexts: HashMap<Subject, TraceContext>,
    /// The subjects in the order in which they came.
    order: VecDeque<Subject>,
}

impl Subjects {
    pub(super) fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// Records the span of a subject. A later span, such as that of a resend, takes its place.
    pub(super) fn note(&mut self, subject: Subject, context: TraceContext) {
        if self.contexts.insert(subject, context).is_some() {
            return;
        }
        self.order.push_back(subject);
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.contexts.remove(&oldest);
        }
    }

    pub(super) fn get(&self, subject: Subject) -> Option<TraceContext> {
        self.contexts.get(&subject).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_subjects_are_remembered() {
        let mut subjects = Subjects::default();
        let subject = |number: usize| Subject((number as u128).to_be_bytes());
        let context = |span: u8| TraceContext::new([1; 16], [span; 8]);
        for number in 0..=REMEMBERED_MAX {
            subjects.note(subject(number), context(1));
        }
        assert_eq!(subjects.get(subject(0)), None, "the oldest is forgotten");
        assert_eq!(subjects.get(subject(1)), Some(context(1)));
        subjects.note(subject(1), context(2));
        assert_eq!(subjects.get(subject(1)), Some(context(2)), "a later one takes its place");
        assert_eq!((subjects.contexts.len(), subjects.order.len()), (4096, 4096));
    }
}
