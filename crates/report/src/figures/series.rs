//! Which series a name gets.

use crate::chart::{Panel, SERIES};
use std::collections::BTreeSet;

/// Names in a total order, each with a colour and shape of its own as long as there are enough.
pub(super) struct Series(Vec<String>);

impl Series {
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: BTreeSet<&str> = names.collect();
        Self(names.into_iter().map(str::to_owned).collect())
    }

    /// Names in the order they have.
    pub fn in_order(names: &[String]) -> Self {
        Self(names.to_vec())
    }

    pub fn number(&self, name: &str) -> usize {
        self.0.iter().position(|known| known == name).unwrap_or(0)
    }

    /// Names the series in a chart, unless there is one alone or too many to tell apart.
    pub fn name_in(&self, panel: &mut Panel) {
        if (2..=SERIES).contains(&self.0.len()) {
            for (number, name) in self.0.iter().enumerate() {
                panel.name_points(number, name);
            }
        }
    }
}

/// `+1.2` for 0.012.
pub(super) fn points(value: f64) -> String {
    format!("{:+.1}", 100.0 * value).replace('-', "\u{2212}")
}

/// `12.3%` for 0.123.
pub(super) fn percent(value: f64) -> String {
    format!("{:.1}%", 100.0 * value)
}
