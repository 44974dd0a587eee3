//! A contact as it is kept for a repeated request that created it.
//!
//! Kept answers are in postcard's format, which has no names of fields: no field may be added. The
//! fields that only the channel sets are absent, since no request creates a contact with them.

use serde::{Deserialize, Serialize};

use postrider_domain::{ContactId, ContactName, CustomFields, Email, Phone, Tags, Timestamp};

use crate::contacts::record::Contact;

/// The fields of a contact that a request has created.
#[derive(Serialize, Deserialize)]
pub(crate) struct CreatedContact {
    id: ContactId,
    name: ContactName,
    phone: Option<Phone>,
    email: Option<Email>,
    tags: Tags,
    custom_fields: CustomFields,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Contact> for CreatedContact {
    fn from(contact: Contact) -> Self {
        let Contact { id, name, phone, email, tags, custom_fields, .. } = contact;
        let (created_at, updated_at) = (contact.created_at, contact.updated_at);
        Self { id, name, phone, email, tags, custom_fields, created_at, updated_at }
    }
}

impl From<CreatedContact> for Contact {
    fn from(created: CreatedContact) -> Self {
        let CreatedContact { id, name, phone, email, tags, custom_fields, .. } = created;
        let (created_at, updated_at) = (created.created_at, created.updated_at);
        let (user_id, username) = (None, None);
        Self {
            id,
            name,
            phone,
            user_id,
            former_ids: Vec::new(),
            username,
            renamed_at: None,
            email,
            tags,
            custom_fields,
            created_at,
            updated_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::contacts::golden::contact;
    use postrider_domain::golden::Sheet;

    #[test]
    fn it_is_stored_as_contacts_were_before_they_had_more_fields() {
        let mut bytes = Vec::new();
        postrider_domain::event::encode(&CreatedContact::from(contact()), &mut bytes);
        let mut sheet = Sheet::default();
        sheet.bytes("created", &bytes);
        sheet.is(expect![[r#"
            created:
                10018bcfe5687b0000000102060708090a08c3816e6e20c5907a01c09bf0f639010f416e6e404578
                616d706c652e636f6d020376697002c3a93c7b22616765223a34312c226c697374223a5b3130302e
                302c2278222c6e756c6c5d2c22706c616e223a22676f6c64222c2273756d223a3130302e307dfbd0
                95ffbc31fbd095ffbc31
        "#]]);
        let read: CreatedContact = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(Contact::from(read), contact());
    }
}
