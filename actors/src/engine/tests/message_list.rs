//! Tests the list of messages against a model, under random operations and crashes.

use std::collections::{BTreeMap, BTreeSet};

use postrider_domain::template::TemplateName;
use postrider_domain::{BroadcastId, MessageId, PartyId, SenderNotes};
use postrider_store::Keep;
use proptest::prelude::*;
use tokio::task::JoinSet;

use crate::{
    MessageContent, MessageFilter, MessageState, MessageStatus, SendMessage, TemplateMessage,
};

use super::message_commands::{Reported, report, reported};
use super::support::broadcasts::{broadcast_to, with_template};
use super::*;

/// The number of phones that single messages go to, and the first recipients of every broadcast.
const PHONES: u32 = 4;

#[derive(Debug, Clone, Copy)]
enum Operation {
    /// To this phone, under this reference.
    Send(u32, Option<u8>),
    /// To so many phones.
    Broadcast(u32),
    Report(usize, Reported),
}

#[derive(Debug, Clone)]
enum Step {
    Run(Operation),
    Pass(u64),
    /// The power is cut while these are in progress.
    Crash(Vec<Operation>, usize, Keep),
    Restart,
    Check,
}

fn operation() -> impl Strategy<Value = Operation> {
    let reference = prop_oneof![Just(None), (0_u8..2).prop_map(Some)];
    prop_oneof![
        6 => (0..PHONES, reference).prop_map(|(to, name)| Operation::Send(to, name)),
        1 => (1_u32..6).prop_map(Operation::Broadcast),
        3 => (any::<usize>(), reported()).prop_map(|(at, what)| Operation::Report(at, what)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let millis = prop_oneof![Just(1_u64), 1_u64..100_000, 1_u64..8_000_000];
    let some = prop::collection::vec(operation(), 0..5);
    let keep = prop_oneof![
        Just(Keep::Nothing),
        Just(Keep::Everything),
        (0_usize..300).prop_map(Keep::Bytes)
    ];
    prop_oneof![
        14 => operation().prop_map(Step::Run),
        4 => millis.prop_map(Step::Pass),
        1 => (some, 0_usize..10, keep)
            .prop_map(|(some, yields, keep)| Step::Crash(some, yields, keep)),
        1 => Just(Step::Restart),
        3 => Just(Step::Check),
    ]
}

/// The result of an operation, if it was answered.
enum Answered {
    Sent(MessageId, Phone, Option<String>),
    Made(BroadcastId, u32),
    Nothing,
}

struct Run {
    store: CrashingStore,
    engine: Engine,
    /// The acknowledged single messages: their recipients, and their senders' references.
    single: BTreeMap<MessageId, (Phone, Option<String>)>,
    /// The acknowledged broadcasts, with their recipients.
    broadcasts: BTreeMap<BroadcastId, u32>,
}

async fn carry_out(acme: Workspace, operation: Operation) -> Answered {
    match operation {
        Operation::Send(to, name) => {
            let reference = name.map(|name| format!("order-{name}"));
            let TemplateName { name, language } =
                TemplateName { name: "sale".into(), language: "en".into() };
            let template = TemplateMessage { name, language, components: Vec::new() };
            let content = MessageContent::Template(template);
            let notes = SenderNotes { reference: reference.clone(), ..SenderNotes::default() };
            let to = phone(to);
            let message = SendMessage { to: to.into(), content, answers: None, notes, from: None };
            match acme.send_message(message, None).await {
                Ok(sent) => Answered::Sent(sent.answer.message_id, to, reference),
                Err(_) => Answered::Nothing,
            }
        }
        Operation::Broadcast(recipients) => {
            match acme.create_broadcast(broadcast_to(recipients), None).await {
                Ok(made) => Answered::Made(made.answer.broadcast_id, recipients),
                Err(_) => Answered::Nothing,
            }
        }
        Operation::Report(..) => Answered::Nothing,
    }
}

async fn page(
    acme: &Workspace,
    filter: &MessageFilter,
    after: Option<MessageId>,
    limit: usize,
) -> (Vec<MessageState>, Option<MessageId>) {
    loop {
        // A store that was cut off answers again once its actor has restarted.
        if let Ok(page) = acme.messages(filter.clone(), after, limit).await {
            assert!(page.messages.len() <= limit);
            return (page.messages, page.next);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn pages(acme: &Workspace, filter: &MessageFilter, limit: usize) -> Vec<MessageState> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let (some, next) = page(acme, filter, after, limit).await;
        rows.extend(some);
        assert!(next.is_none() || after.is_none() || next < after, "it goes on");
        after = next;
        if after.is_none() {
            return rows;
        }
    }
}

fn ids(rows: &[MessageState]) -> Vec<MessageId> {
    rows.iter().map(|row| row.message_id).collect()
}

/// All messages of a workspace, newest first: by each broadcast, and single ones.
#[derive(Debug, PartialEq)]
struct Everything {
    single: Vec<MessageState>,
    broadcasts: BTreeMap<BroadcastId, Vec<MessageState>>,
}

async fn everything(acme: &Workspace) -> Everything {
    let single = pages(acme, &MessageFilter::default(), 200).await;
    let made = loop {
        if let Ok((made, _)) = acme.broadcasts(0, 1000).await {
            break made;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let mut broadcasts = BTreeMap::new();
    for broadcast in made {
        let id = broadcast.id;
        let of = MessageFilter { broadcast: Some(id), ..MessageFilter::default() };
        broadcasts.insert(id, pages(acme, &of, 200).await);
    }
    Everything { single, broadcasts }
}

impl Everything {
    fn all(&self) -> Vec<MessageState> {
        let mut all: Vec<_> =
            self.single.iter().chain(self.broadcasts.values().flatten()).cloned().collect();
        all.sort_by_key(|row| std::cmp::Reverse(row.message_id));
        all
    }

    /// Returns filters, each with its expected result.
    fn filters(&self) -> Vec<(MessageFilter, Vec<MessageState>)> {
        let every = MessageFilter::default;
        let at = |part: usize| self.single.get(self.single.len() / part).map(|row| row.created_at);
        let (middle, late) = (at(2), at(4));
        let reference = Some("order-1".to_owned());
        let mut filters = vec![
            MessageFilter { to: Some(phone(9).into()), ..every() },
            MessageFilter { reference: reference.clone(), ..every() },
            MessageFilter { to: Some(phone(1).into()), reference, since: middle, ..every() },
            MessageFilter { since: middle, until: late, ..every() },
            MessageFilter { template: Some("hello".into()), ..every() },
            MessageFilter { template: Some("sale".into()), until: middle, ..every() },
        ];
        for status in [MessageStatus::Sent, MessageStatus::Read, MessageStatus::Failed] {
            filters.push(MessageFilter { status: Some(status), ..every() });
            filters.push(MessageFilter {
                status: Some(status),
                to: Some(phone(0).into()),
                ..every()
            });
        }
        for to in 0..PHONES {
            filters.push(MessageFilter { to: Some(phone(to).into()), ..every() });
            filters.push(MessageFilter { to: Some(phone(to).into()), until: middle, ..every() });
        }
        let wanted = |filter: MessageFilter| {
            // Messages of broadcasts are listed by recipient only.
            let from = if filter.to.is_some() { self.all() } else { self.single.clone() };
            let found = from.into_iter().filter(|row| is_wanted(row, &filter)).collect();
            (filter, found)
        };
        filters.into_iter().map(wanted).collect()
    }
}

fn is_wanted(row: &MessageState, of: &MessageFilter) -> bool {
    of.to.as_ref().is_none_or(|to| *to == row.to)
        && of.status.is_none_or(|status| status == row.status)
        && (of.reference.is_none() || of.reference == row.notes.reference)
        && (of.template.is_none()
            || of.template.as_deref() == row.template.as_ref().map(|it| &*it.name))
        && of.since.is_none_or(|since| since <= row.created_at)
        && of.until.is_none_or(|until| row.created_at < until)
}

impl Run {
    async fn new() -> Self {
        let store = CrashingStore::new();
        let engine = engine(&store, START).await;
        with_template(&engine).await;
        let (single, broadcasts) = (BTreeMap::new(), BTreeMap::new());
        Self { store, engine, single, broadcasts }
    }

    fn acme(&self) -> Workspace {
        self.engine.workspace(&id("acme")).unwrap()
    }

    fn begin(&self, operations: &[Operation]) -> JoinSet<Answered> {
        let known: Vec<_> = self.single.keys().copied().collect();
        let mut under_way = JoinSet::new();
        for operation in operations {
            match operation {
                Operation::Report(_, _) if known.is_empty() => {}
                Operation::Report(at, what) => {
                    let (message, what) = (known[at % known.len()], *what);
                    let engine = self.engine.clone();
                    under_way.spawn(async move {
                        report(engine, message, what).await;
                        Answered::Nothing
                    });
                }
                other => drop(under_way.spawn(carry_out(self.acme(), *other))),
            }
        }
        under_way
    }

    async fn take(&mut self, answered: JoinSet<Answered>) {
        for answered in answered.join_all().await {
            match answered {
                Answered::Sent(id, to, name) => drop(self.single.insert(id, (to, name))),
                Answered::Made(id, recipients) => drop(self.broadcasts.insert(id, recipients)),
                Answered::Nothing => {}
            }
        }
    }

    async fn step(&mut self, step: Step) {
        let now = self.engine.clock().now();
        match step {
            Step::Run(operation) => self.take(self.begin(&[operation])).await,
            Step::Pass(ms) => self.engine.clock().advance(Duration::from_millis(ms)),
            Step::Check => self.check().await,
            Step::Crash(operations, yields, keep) => {
                let under_way = self.begin(&operations);
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
                let store = self.store.crash(keep);
                self.start_again(store, now, under_way).await;
            }
            Step::Restart => {
                self.engine.shutdown(LONG).await.ok();
                self.start_again(self.store.clone(), now, JoinSet::new()).await;
            }
        }
    }

    async fn start_again(
        &mut self,
        store: CrashingStore,
        now: Timestamp,
        under_way: JoinSet<Answered>,
    ) {
        self.engine.inner.root.kill();
        self.take(under_way).await;
        self.store = store;
        self.engine = Engine::start(options(self.store.clone(), now)).await.unwrap();
        self.check().await;
    }

    /// Checks that the list has the acknowledged messages, and that each filter and page agrees.
    async fn check(&mut self) {
        let acme = self.acme();
        let mut known = everything(&acme).await;
        loop {
            self.compare(&known);
            let mut differences = Vec::new();
            for (filter, wanted) in known.filters() {
                for limit in [1, 3, 50] {
                    if pages(&acme, &filter, limit).await != wanted {
                        differences.push(format!("{limit} {filter:?}"));
                    }
                }
            }
            let now = everything(&acme).await;
            // A status may change between two reads.
            if now == known {
                assert!(differences.is_empty(), "{differences:?} of {known:?}");
                break;
            }
            known = now;
        }
        self.walk_while_it_grows(&known.single).await;
    }

    fn compare(&self, known: &Everything) {
        let Everything { single, broadcasts } = known;
        assert!(single.is_sorted_by(|a, b| a.message_id > b.message_id), "in order, none twice");
        let by_id: BTreeMap<_, _> = single.iter().map(|row| (row.message_id, row)).collect();
        for (id, (to, reference)) in &self.single {
            let row = by_id[id];
            assert_eq!((&row.to, &row.notes.reference), (&PartyId::from(*to), reference));
        }
        for (id, recipients) in &self.broadcasts {
            let rows = &broadcasts[id];
            assert!(rows.is_sorted_by(|a, b| a.message_id > b.message_id), "in order, none twice");
            let to: Vec<_> = rows.iter().rev().map(|row| row.to.clone()).collect();
            let wanted: Vec<PartyId> =
                (0..*recipients).map(|number| phone(number).into()).collect();
            assert_eq!(to, wanted);
        }
    }

    /// Checks that each message of the start is listed once, whatever arrives meanwhile.
    async fn walk_while_it_grows(&mut self, all: &[MessageState]) {
        let (acme, mut after, mut answered) = (self.acme(), None, Vec::new());
        for at in 0_u32.. {
            // The operation runs while the page is read.
            let operations = [Operation::Send(at % PHONES, None)];
            let under_way = self.begin(if at < 6 { &operations } else { &[] });
            let (rows, next) = page(&acme, &MessageFilter::default(), after, 2).await;
            self.take(under_way).await;
            answered.extend(ids(&rows));
            after = next;
            if after.is_none() {
                break;
            }
        }
        let known: BTreeSet<_> = ids(all).into_iter().collect();
        answered.retain(|id| known.contains(id));
        assert_eq!(answered, ids(all));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(8),
        max_shrink_iters: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_list_of_messages_has_what_was_acknowledged(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut run = Run::new().await;
            for step in steps {
                run.step(step).await;
            }
            run.check().await;
        });
    }
}
