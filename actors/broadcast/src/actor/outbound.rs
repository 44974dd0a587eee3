//! Pure: makes a broadcast's messages from its audience when they are dispatched.

use std::sync::Arc;

use postrider_channel::{Content, Origin, Outbound};
use postrider_domain::template::parameters::Filled;
use postrider_domain::template::{TemplateCategory, TemplateName, parameters};
use postrider_domain::{
    BroadcastId, NumberId, Phone, RenderedContent, TemplateContent, Timestamp, WorkspaceId,
};
use postrider_store::{StoreError, View};
use serde_json::Value;

use crate::audience::{Segment, Variables, with_variables};
use crate::record::{Record, SEGMENT, message_id};

/// The inputs from which the messages of one broadcast are made.
pub(super) struct OutboundMessages {
    workspace: WorkspaceId,
    broadcast: BroadcastId,
    pub(super) number: NumberId,
    template: TemplateName,
    category: TemplateCategory,
    definition: Vec<Value>,
    components: Vec<Value>,
    personal: bool,
    /// The content that all recipients share, where they have no variables.
    common: Option<Arc<RenderedContent>>,
    /// The segment of the audience that was read last.
    segment: Option<Segment>,
}

impl OutboundMessages {
    pub(super) fn new(workspace: &WorkspaceId, record: &Record) -> Self {
        Self {
            workspace: workspace.clone(),
            broadcast: record.id,
            number: record.number,
            template: record.template.clone(),
            category: record.category,
            definition: record.definition.clone(),
            components: record.components.clone(),
            personal: record.personal,
            common: None,
            segment: None,
        }
    }

    /// Applies the changes of the broadcast: its number, or the template that it follows.
    pub(super) fn follow(&mut self, record: &Record) {
        self.number = record.number;
        if self.definition != record.definition {
            self.definition.clone_from(&record.definition);
            self.common = None;
        }
    }

    /// Returns the messages to the recipients at these indices.
    pub(super) fn to(
        &mut self,
        store: &dyn View,
        indices: &[u32],
        give_up_at: Timestamp,
    ) -> Result<Vec<Outbound>, StoreError> {
        let mut messages = Vec::with_capacity(indices.len());
        for &index in indices {
            let (to, variables) = self.recipient(store, index)?;
            messages.push(Outbound {
                message_id: message_id(self.broadcast, index),
                origin: Origin::Broadcast { broadcast: self.broadcast, index },
                number: self.number,
                workspace: self.workspace.clone(),
                to: to.into(),
                give_up_at,
                content: Content::Message(self.content(&variables)?),
                answers: None,
                pinned: false,
            });
        }
        Ok(messages)
    }

    /// Returns the phones of the recipients at these indices.
    pub(super) fn phones(
        &mut self,
        store: &dyn View,
        indices: &[u32],
    ) -> Result<Vec<Phone>, StoreError> {
        indices.iter().map(|&index| Ok(self.recipient(store, index)?.0)).collect()
    }

    fn recipient(
        &mut self,
        store: &dyn View,
        index: u32,
    ) -> Result<(Phone, Variables), StoreError> {
        let number = index / SEGMENT;
        let segment = match self.segment.take().filter(|last| last.number == number) {
            Some(last) => last,
            None => {
                let (workspace, id) = (&self.workspace, self.broadcast);
                Segment::read(store, workspace, id, number, self.personal)?
            }
        };
        let segment = self.segment.insert(segment);
        let missing = || StoreError::Damaged(format!("recipient {index} of {}", self.broadcast));
        let (phone, variables) = segment.recipient(index).ok_or_else(missing)?;
        Ok((phone, variables.into()))
    }

    fn content(&mut self, variables: &[Box<str>]) -> Result<Arc<RenderedContent>, StoreError> {
        if let (true, Some(common)) = (variables.is_empty(), &self.common) {
            return Ok(Arc::clone(common));
        }
        let given = with_variables(&self.components, variables);
        // The parameters fitted when the broadcast was created, and do not change. Its template is
        // chosen again when it starts or resumes, among those that the parameters fit.
        let Filled { components, text } = parameters::fill(&self.definition, &given)
            .map_err(|misfit| StoreError::Damaged(format!("{}: {misfit}", self.broadcast)))?;
        let (components, text) = (components.into(), text.into());
        let (template, category) = (self.template.clone(), self.category);
        let content = TemplateContent { template, components, text, category };
        let content = Arc::new(RenderedContent::Template(content));
        if variables.is_empty() {
            self.common = Some(Arc::clone(&content));
        }
        Ok(content)
    }
}
