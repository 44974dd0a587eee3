//! The gauges of each number's maximum rate.

use std::collections::BTreeMap;

use metrics::{Gauge, Key, Label, Level, Metadata};

use postrider_domain::NumberId;
use postrider_workspace::services::Services;

use super::SharedRecorder;

const NAME: &str = "postrider_number_pace";

/// The pace of each number that was connected since the start.
pub(super) struct NumberPaces {
    recorder: SharedRecorder,
    gauges: BTreeMap<NumberId, Gauge>,
}

impl NumberPaces {
    pub(super) fn register(recorder: SharedRecorder) -> Self {
        let what = "Most messages a second through a number, 0 for no limit";
        recorder.describe_gauge(NAME.into(), None, what.into());
        Self { recorder, gauges: BTreeMap::new() }
    }

    pub(super) fn sample(&mut self, shared: &Services) {
        let paces = shared.numbers.paces();
        let metadata = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
        for (number, pace) in &paces {
            let gauge = self.gauges.entry(*number).or_insert_with(|| {
                let labels = vec![Label::new("number", number.to_string())];
                self.recorder.register_gauge(&Key::from_parts(NAME, labels), &metadata)
            });
            gauge.set(f64::from(*pace));
        }
        let is_removed = |number: &NumberId, gauge: &mut Gauge| {
            let is_removed = !paces.contains_key(number);
            if is_removed {
                gauge.set(f64::NAN);
            }
            is_removed
        };
        self.gauges.retain(|number, gauge| !is_removed(number, gauge));
    }
}
