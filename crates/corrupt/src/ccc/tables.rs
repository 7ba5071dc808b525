//! Accuracy tables in a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flipcast_ground::Hint;
use serde_json::{Map, Value};

use super::pairs::{Difficulty, Pair};
use super::walk::{AccuracyTable, SEVERITIES, TableError};

/// The field that tells the format and its version.
const FORMAT: &str = "flipcast_accuracy_tables";
/// The version that is read.
const VERSION: u64 = 1;
/// Largest file that is read. All pairs take about a tenth of it.
const MAX_BYTES: u64 = 1 << 24;

/// A file without usable tables.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// The system refused.
    #[error("cannot read `{path}`")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Larger than any file of tables.
    #[error("more than {limit} bytes found, but tables take less")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// No JSON.
    #[error("the text is no JSON")]
    Json {
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Another format or version.
    #[error("`{FORMAT}` is {found}, but {VERSION} expected")]
    Version {
        /// What it is.
        found: String,
    },
    /// A field that does not belong there, or none where one belongs.
    #[error("{found} found, but an object with the fields `{FORMAT}` and `tables` expected, the latter an object")]
    Fields {
        /// What was found.
        found: String,
    },
    /// A table whose name is no pair.
    #[error(
        "table `{name}` found, but two different corruptions of CCC joined by `+` expected, such as `gaussian_noise+fog`"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A table of another shape, or with something else than numbers.
    #[error("table `{name}`: {found} found, but 21 rows of 21 numbers expected")]
    Shape {
        /// The pair.
        name: String,
        /// What was found.
        found: String,
    },
    /// A table that cannot be walked.
    #[error("table `{name}` cannot be used")]
    Table {
        /// The pair.
        name: String,
        /// Why.
        #[source]
        source: TableError,
    },
}

impl Hint for TablesError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Io { .. } => return None,
            Self::Table { .. } => "accuracies are counted in per cent",
            _ => {
                r#"the file reads {"flipcast_accuracy_tables": 1, "tables": {"FIRST+SECOND": [[21 x 21 numbers]], ...}}"#
            }
        };
        Some(advice.to_owned())
    }
}

/// The tables in the file `path`.
pub fn load_tables(path: &Path) -> Result<BTreeMap<Pair, AccuracyTable>, TablesError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|source| TablesError::Io { path: path.to_owned(), source })?;
    read_tables(&bytes)
}

/// The tables in the text of a file; see the [module](super) for its format.
pub fn read_tables(bytes: &[u8]) -> Result<BTreeMap<Pair, AccuracyTable>, TablesError> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(TablesError::TooLarge { limit: MAX_BYTES });
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|source| TablesError::Json { source })?;
    tables_of(&value)?.iter().map(|(name, rows)| Ok((pair(name)?, table(name, rows)?))).collect()
}

/// The tables by name, after a look at the other fields.
fn tables_of(value: &Value) -> Result<&Map<String, Value>, TablesError> {
    let fields = |found: String| TablesError::Fields { found };
    let object = value.as_object().ok_or_else(|| fields(kind(value).to_owned()))?;
    let version = object.get(FORMAT).ok_or_else(|| fields(format!("no field `{FORMAT}`")))?;
    if version.as_u64() != Some(VERSION) {
        return Err(TablesError::Version {
            found: match version {
                Value::Number(number) => number.to_string(),
                other => kind(other).to_owned(),
            },
        });
    }
    if let Some(name) = object.keys().find(|key| *key != FORMAT && *key != "tables") {
        return Err(fields(format!("field `{name}`")));
    }
    match object.get("tables") {
        Some(Value::Object(tables)) => Ok(tables),
        Some(other) => Err(fields(format!("`tables` with {}", kind(other)))),
        None => Err(fields("no field `tables`".to_owned())),
    }
}

fn pair(name: &str) -> Result<Pair, TablesError> {
    let known = |part: &str| {
        let names = Difficulty::Easy.corruptions().iter();
        names.copied().find(|known| *known == part)
    };
    name.split_once('+')
        .and_then(|(first, second)| Some((known(first)?, known(second)?)))
        .filter(|(first, second)| first != second)
        .map(|(first, second)| Pair { first, second })
        .ok_or_else(|| TablesError::Name { name: name.to_owned() })
}

fn table(name: &str, rows: &Value) -> Result<AccuracyTable, TablesError> {
    let shape = |found: String| TablesError::Shape { name: name.to_owned(), found };
    let rows = rows.as_array().ok_or_else(|| shape(kind(rows).to_owned()))?;
    if rows.len() != SEVERITIES {
        return Err(shape(format!("{} rows", rows.len())));
    }
    let mut percent = Vec::with_capacity(SEVERITIES * SEVERITIES);
    for (number, row) in rows.iter().enumerate() {
        let values = row.as_array().ok_or_else(|| shape(format!("{} as row {number}", kind(row))))?;
        if values.len() != SEVERITIES {
            return Err(shape(format!("{} values in row {number}", values.len())));
        }
        for value in values {
            let value = value.as_f64().ok_or_else(|| shape(format!("{} in row {number}", kind(value))))?;
            percent.push(value);
        }
    }
    AccuracyTable::new(percent).map_err(|source| TablesError::Table { name: name.to_owned(), source })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(value: f64) -> Value {
        json!(vec![vec![value; SEVERITIES]; SEVERITIES])
    }

    fn read(value: &Value) -> Result<BTreeMap<Pair, AccuracyTable>, TablesError> {
        read_tables(value.to_string().as_bytes())
    }

    #[test]
    fn tables_are_read_by_pair() {
        let tables =
            read(&json!({FORMAT: 1, "tables": {"fog+snow": rows(40.5), "snow+fog": rows(3.0)}})).expect("well formed");
        let fog_first = Pair { first: "fog", second: "snow" };
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[&fog_first], AccuracyTable::new(vec![40.5; 441]).expect("21 x 21"));
        assert!(read(&json!({FORMAT: 1, "tables": {}})).expect("well formed").is_empty());
    }

    #[test]
    fn files_of_another_format_are_refused() {
        let refused = |value: Value| read(&value).expect_err("another format");
        assert!(matches!(read_tables(b"\x80\x04pickle"), Err(TablesError::Json { .. })));
        assert!(matches!(refused(json!([])), TablesError::Fields { .. }));
        assert!(matches!(refused(json!({"tables": {}})), TablesError::Fields { .. }));
        assert!(matches!(refused(json!({FORMAT: 1})), TablesError::Fields { .. }));
        assert!(matches!(refused(json!({FORMAT: 1, "tables": []})), TablesError::Fields { .. }));
        assert!(matches!(refused(json!({FORMAT: 1, "tables": {}, "more": 1})), TablesError::Fields { .. }));
        assert!(matches!(refused(json!({FORMAT: 2, "tables": {}})), TablesError::Version { .. }));
        let long = vec![b' '; MAX_BYTES as usize + 1];
        assert!(matches!(read_tables(&long), Err(TablesError::TooLarge { .. })));
    }

    #[test]
    fn bad_tables_are_named() {
        let refused =
            |name: &str, rows: Value| read(&json!({FORMAT: 1, "tables": {name: rows}})).expect_err("a bad table");
        for name in ["fog", "fog+fog", "fog+fogg", "brightness+fog", "fog+snow+frost"] {
            assert!(matches!(refused(name, rows(1.0)), TablesError::Name { .. }), "{name}");
        }
        let ragged = {
            let mut all = rows(1.0);
            all[3] = json!([1.0, 2.0]);
            all
        };
        let worded = {
            let mut all = rows(1.0);
            all[20][20] = json!("high");
            all
        };
        for (bad, found) in [
            (json!("fog"), "a text"),
            (json!([[1.0]]), "1 rows"),
            (ragged, "2 values in row 3"),
            (worded, "a text in row 20"),
        ] {
            let error = refused("fog+snow", bad);
            assert!(matches!(&error, TablesError::Shape { found: f, .. } if f == found), "{error}");
        }
        assert!(matches!(refused("fog+snow", rows(100.5)), TablesError::Table { .. }));
    }
}
