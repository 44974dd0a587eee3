//! Tests how single messages are claimed and released.

use crate::core::claims;
use crate::core::tests::*;

impl Bench {
    /// Releases and claims messages; gives those that may be handed over.
    pub(crate) fn claim(&mut self, released: &[MessageId], asked: &[MessageId]) -> Vec<MessageId> {
        let claim = |core: &mut Core, effects: &mut Effects| {
            Ok::<_, ()>(claims::claim(core, released, asked.to_vec(), effects))
        };
        self.run(true, claim).unwrap()
    }

    fn message(&mut self) -> MessageId {
        self.unique += 1;
        let id = MessageId::from_parts(self.now, self.unique);
        self.event(Event::MessageQueued { id, give_up_at: self.now.plus(HOUR) });
        id
    }

    fn claimed(&self) -> Vec<bool> {
        self.replayed().messages.iter().map(|(_, unsent)| unsent.claimed).collect()
    }
}

#[test]
fn what_is_claimed_is_noted_once_and_what_is_settled_is_not_granted() {
    let mut bench = Bench::new();
    let (one, two, settled) = (bench.message(), bench.message(), bench.message());
    bench.event(Event::MessageSettled { id: settled });
    let before = bench.journal.len();
    assert_eq!(bench.claim(&[], &[settled]), []);
    assert_eq!(bench.journal.len(), before);
    assert_eq!(bench.claim(&[], &[two, settled]), [two]);
    assert_eq!(bench.claimed(), [false, true]);
    // A number that has had no answer asks again.
    let once = bench.journal.len();
    assert_eq!(bench.claim(&[], &[two]), [two]);
    assert_eq!(bench.journal.len(), once);
    assert_eq!(bench.claim(&[two, settled], &[one]), [one]);
    assert_eq!(bench.claimed(), [true, false]);
    assert_eq!(bench.claim(&[one], &[one]), [one]);
    assert_eq!(bench.claimed(), [true, false]);
}
