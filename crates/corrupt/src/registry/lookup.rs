//! Finding entries of the table.

use std::fmt;

use flipcast_ground::nearest_names;

use flipcast_images::Image;

use super::table::TABLE;
use crate::error::CorruptError;
use crate::job::Job;
use crate::set::CorruptionSet;

/// A corruption with the constants of one set.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The set.
    pub set: CorruptionSet,
    /// Published name.
    pub name: &'static str,
    /// Constants of severities 1 to 5, in the order the corruption's file documents.
    pub rows: [&'static [f64]; 5],
    pub(crate) run: fn(&mut Job<'_>) -> Image,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("set", &self.set).field("name", &self.name).field("rows", &self.rows).finish()
    }
}

/// The entries of `set` in published order.
pub fn entries(set: CorruptionSet) -> impl Iterator<Item = &'static Entry> {
    TABLE.iter().filter(move |entry| entry.set == set)
}

/// The names of `set` in published order; the four extra ones of the -C sets come last.
pub fn names(set: CorruptionSet) -> Vec<&'static str> {
    entries(set).map(|entry| entry.name).collect()
}

/// The entry `name` of `set`.
pub fn find(set: CorruptionSet, name: &str) -> Result<&'static Entry, CorruptError> {
    entries(set).find(|entry| entry.name == name).ok_or_else(|| unknown(Some(set), name))
}

/// The first entry called `name` in any set.
pub(crate) fn find_any(name: &str) -> Result<&'static Entry, CorruptError> {
    TABLE.iter().find(|entry| entry.name == name).ok_or_else(|| unknown(None, name))
}

fn unknown(set: Option<CorruptionSet>, name: &str) -> CorruptError {
    let known = TABLE.iter().filter(|entry| set.is_none_or(|set| entry.set == set)).map(|entry| entry.name);
    CorruptError::UnknownCorruption { name: name.to_owned(), set, nearest: nearest_names(name, known) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_its_number_of_corruptions() {
        let counts = CorruptionSet::ALL.map(|set| names(set).len());
        assert_eq!(counts, [19, 19, 19, 10, 10, 18]);
    }

    #[test]
    fn names_are_unique_within_a_set_and_rows_equally_long() {
        for set in CorruptionSet::ALL {
            let mut sorted = names(set);
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), names(set).len());
            for entry in entries(set) {
                assert!(entry.rows.iter().all(|row| row.len() == entry.rows[0].len()), "{entry:?}");
            }
        }
    }
}
