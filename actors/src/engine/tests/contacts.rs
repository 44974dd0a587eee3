//! Tests of contacts and their indexes, through failures and crashes.

use postrider_store::Log;
use std::collections::BTreeMap;

use proptest::prelude::*;
use tokio::task::JoinSet;

use crate::{
    Contact, ContactChange, ContactFilter, CreateContactError, IdempotentError, NewContact,
    UpdateContactError,
};
use postrider_domain::{ContactId, ContactName, CustomFields, Email, Tags};
use postrider_store::{CrashOutcome, Keep};
use postrider_workspace::whole_contacts;

use super::*;

const ACME: &str = "acme";

/// One command; the numbers pick phones, texts and contacts.
#[derive(Debug, Clone, Copy)]
enum Command {
    Create(u32),
    Batch(u32, usize),
    Update(usize, u32),
    Delete(usize),
}

#[derive(Debug, Clone)]
enum Step {
    /// All commands run at once.
    Run(Vec<Command>),
    /// The next commit fails.
    Fail(CrashOutcome),
    /// The power is cut while these are in progress.
    Crash(Vec<Command>, usize, Keep),
}

/// The result of a command.
#[derive(Debug)]
enum Answer {
    Made(Contact),
    Changed(Contact),
    Deleted(ContactId),
    /// The command had no effect.
    Refused,
    /// It may have made so many contacts.
    MayHaveMade(usize),
    /// It may have changed or deleted this one.
    MayHaveChanged(ContactId),
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => any::<u32>().prop_map(Command::Create),
        1 => (any::<u32>(), 1_usize..150).prop_map(|(seed, count)| Command::Batch(seed, count)),
        4 => (any::<usize>(), any::<u32>()).prop_map(|(at, seed)| Command::Update(at, seed)),
        3 => any::<usize>().prop_map(Command::Delete),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = || prop::collection::vec(command(), 1..8);
    let outcome = prop_oneof![
        Just(CrashOutcome::Lost),
        Just(CrashOutcome::Kept),
        Just(CrashOutcome::Unsynced)
    ];
    let keep = prop_oneof![
        Just(Keep::Nothing),
        Just(Keep::Everything),
        (0_usize..4000).prop_map(Keep::Bytes)
    ];
    let step = prop_oneof![
        6 => some().prop_map(Step::Run),
        1 => outcome.prop_map(Step::Fail),
        2 => (some(), 0_usize..12, keep).prop_map(|(under_way, yields, keep)| {
            Step::Crash(under_way, yields, keep)
        }),
    ];
    prop::collection::vec(step, 1..20)
}

fn new(seed: u32) -> NewContact {
    // A few phones, so that they are taken and released again.
    let phone = (!seed.is_multiple_of(3)).then(|| phone(seed % 7));
    let fields = serde_json::json!({"n": seed % 3, "text": "x".repeat(seed as usize % 50)});
    NewContact {
        name: ContactName::new(&format!("Name {}", seed % 11)).unwrap(),
        phone,
        email: (seed.is_multiple_of(2)).then(|| Email::new("a@example.com").unwrap()),
        tags: Tags::new(["a", "b", "c"][..seed as usize % 4].iter()).unwrap(),
        custom_fields: CustomFields::new(&fields).unwrap(),
    }
}

async fn carry_out(workspace: Workspace, command: Command, id: Option<ContactId>) -> Vec<Answer> {
    match (command, id) {
        (Command::Create(seed), _) => vec![match workspace.create_contact(new(seed), None).await {
            Ok(made) => Answer::Made(made.answer),
            Err(IdempotentError::Refused(CreateContactError::Unavailable(_))) => {
                Answer::MayHaveMade(1)
            }
            Err(_) => Answer::Refused,
        }],
        (Command::Batch(seed, count), _) => {
            let all = (0..count as u32).map(|at| new(seed.wrapping_add(at * 3))).collect();
            match workspace.create_contacts(all, None).await.map(|made| made.answer) {
                Ok(made) => made
                    .into_iter()
                    .map(|made| match made {
                        Ok(contact) => Answer::Made(contact),
                        Err(CreateContactError::Unavailable(_)) => Answer::MayHaveMade(1),
                        Err(_) => Answer::Refused,
                    })
                    .collect(),
                Err(_) => vec![Answer::MayHaveMade(count)],
            }
        }
        (Command::Update(_, seed), Some(id)) => {
            let NewContact { name, phone, email, tags, custom_fields } = new(seed);
            let (tags, custom_fields) = (Some(tags), Some(custom_fields));
            let change =
                ContactChange { name, phone: Some(phone), email: Some(email), tags, custom_fields };
            vec![match workspace.update_contact(id, change).await {
                Ok(contact) => Answer::Changed(contact),
                Err(UpdateContactError::Unavailable(_)) => Answer::MayHaveChanged(id),
                Err(_) => Answer::Refused,
            }]
        }
        (Command::Delete(_), Some(id)) => vec![match workspace.delete_contact(id).await {
            Ok(()) => Answer::Deleted(id),
            Err(crate::DeleteContactError::Unavailable(_)) => Answer::MayHaveChanged(id),
            Err(_) => Answer::Refused,
        }],
        (_, None) => vec![Answer::Refused],
    }
}

struct Run {
    store: CrashingStore,
    engine: Engine,
    /// The contacts as they were last read.
    known: BTreeMap<ContactId, Contact>,
}

impl Run {
    async fn new() -> Self {
        let store = CrashingStore::new();
        let engine = Self::engine(&store).await;
        workspace(&engine, ACME, 0).await;
        Self { store, engine, known: BTreeMap::new() }
    }

    async fn engine(store: &CrashingStore) -> Engine {
        loop {
            drop(store.reopen());
            let mut options = options(store.clone(), START);
            options.limits.contacts_per_minute = 0;
            if let Ok(engine) = Engine::start(options).await {
                return engine;
            }
        }
    }

    fn begin(&self, commands: &[Command]) -> JoinSet<Vec<Answer>> {
        let mut under_way = JoinSet::new();
        let ids: Vec<_> = self.known.keys().copied().collect();
        for command in commands {
            let id = match command {
                Command::Update(at, _) | Command::Delete(at) if !ids.is_empty() => {
                    Some(ids[at % ids.len()])
                }
                _ => None,
            };
            let workspace = self.engine.workspace(&id_of_acme()).unwrap();
            under_way.spawn(carry_out(workspace, *command, id));
        }
        under_way
    }

    async fn step(&mut self, step: Step) {
        let crashes = matches!(step, Step::Crash(..));
        let under_way = match step {
            Step::Fail(outcome) => return self.store.fail_next_commits(1, outcome),
            Step::Run(commands) => self.begin(&commands),
            Step::Crash(commands, yields, keep) => {
                let under_way = self.begin(&commands);
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
                self.store = self.store.crash(keep);
                self.engine.inner.root.kill();
                under_way
            }
        };
        let answers = under_way.join_all().await.into_iter().flatten().collect();
        if crashes {
            self.engine = Self::engine(&self.store).await;
        }
        healed(&self.engine.workspace(&id_of_acme()).unwrap()).await;
        self.check(answers).await;
    }

    /// Checks that each acknowledged contact exists, and only contacts that may exist besides.
    async fn check(&mut self, answers: Vec<Answer>) {
        let stored = whole_contacts(&self.store, &id_of_acme());
        let stored: BTreeMap<_, _> = stored.into_iter().map(|it| (it.id, it)).collect();
        let mut may_have_made = 0;
        let mut unsure = Vec::new();
        // Several may have changed one contact at the same time, in any order.
        let mut changed: BTreeMap<ContactId, Vec<Option<Contact>>> = BTreeMap::new();
        for answer in answers {
            match answer {
                Answer::Made(contact) => {
                    changed.entry(contact.id).or_default().push(Some(contact));
                }
                Answer::Changed(contact) => {
                    changed.entry(contact.id).or_default().push(Some(contact));
                }
                Answer::Deleted(id) => {
                    changed.insert(id, vec![None]);
                    unsure.retain(|other| *other != id);
                }
                Answer::MayHaveMade(count) => may_have_made += count,
                Answer::MayHaveChanged(id) => unsure.push(id),
                Answer::Refused => {}
            }
        }
        for (id, contact) in &self.known {
            if !changed.contains_key(id) && !unsure.contains(id) {
                assert_eq!(stored.get(id), Some(contact), "it was not changed");
            }
        }
        for (id, outcomes) in &changed {
            let is_deleted = outcomes.contains(&None) && !stored.contains_key(id);
            let is_one = outcomes.contains(&stored.get(id).cloned());
            assert!(
                is_deleted || is_one || unsure.contains(id),
                "{outcomes:?} {:?}",
                stored.get(id)
            );
        }
        let unexplained =
            stored.keys().filter(|id| !self.known.contains_key(id) && !changed.contains_key(id));
        assert!(unexplained.count() <= may_have_made);
        self.known = stored;
        let workspace = self.engine.workspace(&id_of_acme()).unwrap();
        let page = workspace.contacts(ContactFilter::default(), 0, usize::MAX).await.unwrap();
        assert_eq!(page.total, self.known.len());
        assert!(page.contacts.iter().eq(self.known.values().rev()));
    }
}

fn id_of_acme() -> WorkspaceId {
    id(ACME)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(48),
        max_shrink_iters: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn contacts_and_their_index_are_never_apart(steps in steps()) {
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
            run.step(Step::Crash(Vec::new(), 0, Keep::Nothing)).await;
        });
    }
}
