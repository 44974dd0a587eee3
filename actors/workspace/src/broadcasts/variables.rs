//! The choice of the template for the variables of a new broadcast's recipients.

use postrider_broadcast::parameters::with_variables;
use postrider_domain::Phone;
use postrider_domain::template::parameters;
use postrider_domain::unavailable::Unavailable;
use serde_json::Value;

use crate::Workspace;
use crate::broadcasts::create::{CreateBroadcastError, NewBroadcast};
use crate::broadcasts::sender::{candidates, sendable};
use crate::core::command::{Command, Context};
use crate::core::sticky;
use crate::templates::find_template;

/// The maximum of recipients that a refusal names.
const MISFITS_MAX: usize = 20;

/// Reads the candidate templates for recipients' variables.
///
/// They are those of the numbers from which the broadcast may be sent, each once.
struct Definitions {
    name: Box<str>,
    language: Box<str>,
    from: Vec<Box<str>>,
}

impl Command for Definitions {
    type Answer = Vec<Vec<Value>>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Vec<Vec<Value>>, Unavailable> {
        let Self { name, language, from } = self;
        let Some(row) = find_template(context, &name, &language)? else { return Ok(Vec::new()) };
        let from: Vec<_> = from.iter().filter_map(|name| sticky::named(context, name)).collect();
        let mut found: Vec<Vec<Value>> = Vec::new();
        for number in candidates(context, &from) {
            let Some(template) = sendable(context, &row, number) else { continue };
            if !found.contains(&template.components) {
                found.push(template.into_owned().components);
            }
        }
        // The reason for a refusal is reported after the variables were checked.
        if found.is_empty() {
            found.push(row.components);
        }
        Ok(found)
    }
}

impl Workspace {
    /// Returns the candidate templates for the variables of recipients; none if they have no
    /// variables.
    pub(super) async fn definitions(
        &self,
        new: &NewBroadcast,
    ) -> Result<Vec<Vec<Value>>, Unavailable> {
        if new.audience.variables.is_none() {
            return Ok(Vec::new());
        }
        let (name, language) = (new.template.clone(), new.language.clone());
        self.perform(Definitions { name, language, from: new.from.clone() }).await
    }
}

/// Returns the first template that fits every recipient's variables.
///
/// `None` if they have none, or there is no template, which the command reports later.
pub(super) fn check_variables(
    definitions: Vec<Vec<Value>>,
    new: &NewBroadcast,
) -> Result<Option<Vec<Value>>, CreateBroadcastError> {
    let Some(all) = &new.audience.variables else { return Ok(None) };
    let mut refusal = None;
    for definition in definitions {
        let (mut misfits, mut more) = (Vec::new(), 0);
        for (place, variables) in all.iter().enumerate() {
            let given = with_variables(&new.components, variables);
            match parameters::fill(&definition, &given) {
                Ok(_) => {}
                // Misfits are reported of the first template only.
                Err(_) if refusal.is_some() => {
                    more += 1;
                    break;
                }
                Err(misfit) if misfits.len() < MISFITS_MAX => {
                    // An audience consists of phones only.
                    let phone = Phone::from_digits(new.audience.phones[place]).ok();
                    misfits.extend(phone.map(|phone| (place, phone, misfit)));
                }
                Err(_) => more += 1,
            }
        }
        if misfits.is_empty() && more == 0 {
            return Ok(Some(definition));
        }
        refusal = refusal.or(Some(CreateBroadcastError::Variables { misfits, more }));
    }
    refusal.map_or(Ok(None), Err)
}
