//! Stands in for the exporter of spans in a build without the feature `otlp`.

use postrider_actors::Traces;
use postrider_actors::clock::Clock;

use crate::boot::BootError;
use crate::metrics::Metrics;
use crate::settings::TracesSettings;

/// No exporter: none is ever made.
pub(crate) enum Exporter {}

impl Exporter {
    /// Follows no request.
    ///
    /// # Errors
    /// [`BootError::Traces`]: the settings name a collector.
    pub(crate) fn start(
        settings: &TracesSettings,
        _: &Clock,
        _: &Metrics,
    ) -> Result<(Traces, Option<Self>), BootError> {
        match settings.endpoint {
            None => Ok((Traces::default(), None)),
            Some(_) => Err(BootError::Traces(
                "this program was built without the feature `otlp`".to_owned(),
            )),
        }
    }

    /// Cannot be called, as there is no exporter.
    pub(crate) async fn finish(self) {
        match self {}
    }
}
