//! Tests how single messages are claimed and released.

use postrider_channel::{Content, Origin};
use postrider_domain::RenderedContent;

use crate::core::tests::*;
use crate::core::unsent;

const A: NumberId = NumberId::from_bytes([1; 16]);
const B: NumberId = NumberId::from_bytes([2; 16]);

impl Bench {
    /// Releases and claims messages; returns the ones that may be handed over.
    pub(crate) fn claim(&mut self, released: &[MessageId], asked: &[MessageId]) -> Vec<MessageId> {
        let claim = |core: &mut Core, effects: &mut Effects| {
            unsent::release(core, released, effects);
            Ok::<_, ()>(unsent::claim(core, A, asked.to_vec(), effects))
        };
        self.run(true, claim).unwrap()
    }

    fn message(&mut self) -> MessageId {
        self.unique += 1;
        let id = MessageId::from_parts(self.now, self.unique);
        self.event(queued(id, self.now.plus(HOUR)));
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

#[test]
fn what_was_moved_is_granted_to_its_new_number_alone() {
    let mut bench = Bench::new();
    let (moved, other) = (bench.message(), bench.message());
    bench.core.hot.messages.set_number(moved, B);
    let before = bench.journal.len();
    assert_eq!(bench.claim(&[], &[moved]), [], "the number before has a copy left");
    assert_eq!(bench.journal.len(), before);
    assert_eq!(bench.claim(&[], &[other]), [other]);
    bench.core.hot.messages.set_number(moved, A);
    assert_eq!(bench.claim(&[], &[moved]), [moved]);
}

#[test]
fn what_was_moved_while_it_was_read_is_recovered_to_its_new_number() {
    let mut bench = Bench::new();
    let ids = [bench.message(), bench.message(), bench.message()];
    let read = ids.map(|id| {
        let text = RenderedContent::Text("hello".parse().unwrap());
        Outbound {
            message_id: id,
            origin: Origin::Message(id),
            number: A,
            workspace: bench.core.id.clone(),
            to: "+15550000001".parse().unwrap(),
            give_up_at: bench.now.plus(2 * HOUR),
            content: Content::Message(Arc::new(text)),
            answers: None,
            pinned: false,
        }
    });
    bench.core.hot.messages.set_number(ids[1], B);
    bench.event(Event::MessageSettled { id: ids[2] });
    let recovered = bench.core.recovered(read.to_vec());
    let until = |it: &Outbound| it.give_up_at == bench.now.plus(HOUR);
    assert!(recovered.iter().all(until), "as it is known here");
    let recovered: Vec<_> = recovered.iter().map(|it| (it.message_id, it.number)).collect();
    assert_eq!(recovered, [(ids[0], A), (ids[1], B)]);
}
