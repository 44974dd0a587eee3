//! Maps the columns of a CSV file to the fields of a contact, or says why it cannot.

use csv::StringRecord;
use postrider::csv_cell as cell;
use postrider_actors::domain::CustomFields;
use serde_json::{Map, Value, json};

use super::error::{ColumnsError, LineRefusal};
use super::phones::{self, Country};

/// The prefix of the columns of custom fields.
const CUSTOM: &str = "custom.";

/// The content of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ContactColumn {
    Name,
    Phone,
    Email,
    Tags,
    CustomFields,
    /// One custom field of this name.
    Custom(String),
    /// A field that the server sets.
    Ignored,
}

/// The columns of a file, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Columns(Vec<ContactColumn>);

impl Columns {
    pub(super) fn of(header: &StringRecord) -> Result<Self, ColumnsError> {
        let mut columns = Vec::new();
        for title in header {
            let title = title.trim();
            let column = match title.to_ascii_lowercase().as_str() {
                "name" => ContactColumn::Name,
                "phone" => ContactColumn::Phone,
                "email" => ContactColumn::Email,
                "tags" => ContactColumn::Tags,
                "custom_fields" => ContactColumn::CustomFields,
                "id" | "created_at" | "updated_at" => ContactColumn::Ignored,
                lower if lower.starts_with(CUSTOM) && lower.len() > CUSTOM.len() => {
                    ContactColumn::Custom(title[CUSTOM.len()..].to_owned())
                }
                _ => return Err(ColumnsError::Unknown(title.to_owned())),
            };
            if column != ContactColumn::Ignored && columns.contains(&column) {
                return Err(ColumnsError::Twice(title.to_owned()));
            }
            columns.push(column);
        }
        if columns.contains(&ContactColumn::Name) {
            Ok(Self(columns))
        } else {
            Err(ColumnsError::NoName)
        }
    }

    /// Returns the phone of a line as it is written, or an empty text.
    pub(super) fn phone<'a>(&self, line: &'a StringRecord) -> &'a str {
        let at = self.0.iter().position(|column| *column == ContactColumn::Phone);
        at.and_then(|at| line.get(at)).unwrap_or_default().trim()
    }

    /// Converts a line into the JSON of a contact. `country` is that of national numbers.
    ///
    /// The server validates the fields other than the phone.
    pub(super) fn contact(
        &self,
        line: &StringRecord,
        country: Option<Country>,
    ) -> Result<Value, LineRefusal> {
        if line.len() != self.0.len() {
            let (has, wants) = (line.len(), self.0.len());
            let reason = format!("it has {has} cells, and the first line has {wants}");
            return Err(LineRefusal::new("", reason));
        }
        let mut contact = Map::new();
        let (mut fields, mut single) = (Map::new(), Map::new());
        for (column, cell) in self.0.iter().zip(line).filter(|(_, cell)| !cell.trim().is_empty()) {
            // The phone is read below, with its quotes.
            let cell = if *column == ContactColumn::Phone { cell } else { cell::parse(cell) };
            match column {
                ContactColumn::Name => drop(contact.insert("name".into(), json!(cell))),
                ContactColumn::Phone => {
                    let phone = phones::parse_phone(cell, country)
                        .map_err(|why| LineRefusal::new("phone", why.to_string()))?;
                    drop(contact.insert("phone".into(), json!(phone.to_string())));
                }
                ContactColumn::Email => drop(contact.insert("email".into(), json!(cell.trim()))),
                ContactColumn::Tags => drop(contact.insert("tags".into(), tags(cell)?)),
                ContactColumn::CustomFields => {
                    // Parsed here, because re-encoding must not change a large number.
                    let given = CustomFields::parse(cell);
                    let given = given
                        .map_err(|why| LineRefusal::new("custom_fields", why.to_string()))?
                        .to_value();
                    fields.extend(given.as_object().cloned().unwrap_or_default());
                }
                ContactColumn::Custom(name) => drop(single.insert(name.clone(), json!(cell))),
                ContactColumn::Ignored => {}
            }
        }
        if !contact.contains_key("name") {
            return Err(LineRefusal::new("name", "is missing"));
        }
        fields.append(&mut single);
        if !fields.is_empty() {
            contact.insert("custom_fields".into(), fields.into());
        }
        Ok(contact.into())
    }
}

/// Parses the tags of a cell.
fn tags(cell: &str) -> Result<Value, LineRefusal> {
    let cell = cell.trim();
    if cell.starts_with('[') {
        let tags = serde_json::from_str::<Vec<String>>(cell);
        return match tags {
            Ok(tags) => Ok(json!(tags)),
            Err(_) => {
                Err(LineRefusal::new("tags", "must be separated by `;`, or a JSON array of texts"))
            }
        };
    }
    let tags = cell.split(';').map(str::trim).filter(|tag| !tag.is_empty());
    Ok(json!(tags.collect::<Vec<_>>()))
}

/// Writes tags as a cell. [`tags`] parses it back.
pub(super) fn tags_cell(tags: &[String]) -> String {
    let plain = |tag: &String| !tag.contains(';') && tag.trim() == tag;
    let joined = tags.join(";");
    if tags.iter().all(plain) && !joined.starts_with('[') {
        joined
    } else {
        json!(tags).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(header: &[&str]) -> Result<Columns, ColumnsError> {
        Columns::of(&StringRecord::from(header.to_vec()))
    }

    #[test]
    fn the_first_line_names_columns() {
        let good = columns(&["Phone", " name", "custom.Plan", "id", "created_at"]).unwrap();
        let custom = ContactColumn::Custom("Plan".to_owned());
        assert_eq!(
            good.0,
            [
                ContactColumn::Phone,
                ContactColumn::Name,
                custom,
                ContactColumn::Ignored,
                ContactColumn::Ignored
            ]
        );
        assert_eq!(columns(&["phone"]), Err(ColumnsError::NoName));
        assert_eq!(columns(&[]), Err(ColumnsError::NoName));
        for bad in ["telephone", "custom.", ""] {
            assert_eq!(columns(&["name", bad]), Err(ColumnsError::Unknown(bad.to_owned())));
        }
        assert_eq!(columns(&["name", "NAME"]), Err(ColumnsError::Twice("NAME".to_owned())));
    }

    #[test]
    fn a_line_becomes_a_contact() {
        let header = ["name", "phone", "email", "tags", "custom_fields", "custom.plan", "id"];
        let columns = columns(&header).unwrap();
        let read = |line: [&str; 7]| columns.contact(&StringRecord::from(line.to_vec()), None);
        let full = read([
            " Ana",
            "+1 (555) 012-3456 ",
            "a@b.co",
            "x; y;;",
            r#"{"n":1,"plan":2}"#,
            "gold",
            "con_",
        ]);
        assert_eq!(
            full.unwrap(),
            json!({"name": " Ana", "phone": "+15550123456", "email": "a@b.co", "tags": ["x", "y"],
                   "custom_fields": {"n": 1, "plan": "gold"}})
        );
        assert_eq!(read(["Bo", "", " ", "", "", "", ""]).unwrap(), json!({"name": "Bo"}));
        assert_eq!(read(["Bo", "", "", "[\"a;b\"]", "", "", ""]).unwrap()["tags"], json!(["a;b"]));
        let refused = |line| read(line).unwrap_err().field;
        assert_eq!(refused([" ", "", "", "", "", "", ""]), "name");
        assert_eq!(refused(["Bo", "", "", "[1]", "", "", ""]), "tags");
        assert_eq!(refused(["Bo", "030 123456", "", "", "", "", ""]), "phone");
        for bad in ["x", "[]", "{\"a\":}", r#"{"n":99999999999999999999}"#] {
            assert_eq!(refused(["Bo", "", "", "", bad, "", ""]), "custom_fields");
        }
        let short = columns.contact(&StringRecord::from(vec!["Bo", ""]), None).unwrap_err();
        assert_eq!(short.reason, "it has 2 cells, and the first line has 7");
    }

    #[test]
    fn tags_survive_their_cell() {
        for tags_of in [&["a", "b c"][..], &[], &["a;b"], &["[x"], &[" a "], &["\"", "é,"], &["["]]
        {
            let given: Vec<_> = tags_of.iter().map(|tag| (*tag).to_owned()).collect();
            let cell = tags_cell(&given);
            assert_eq!(tags(&cell).unwrap(), json!(given), "{cell}");
        }
    }
}
