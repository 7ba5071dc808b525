//! Walks over the severities of a pair.

use super::quarter::QuarterSeverity;

/// Severities from 0 to 5 in quarters.
pub const SEVERITIES: usize = 21;

/// What a walk that leaves the table costs in the published code.
const OFF_THE_TABLE: f64 = 9_999_999_999_999.0;

/// Accuracies in per cent, `[first severity * 4][second severity * 4]`.
#[derive(Clone, Debug, PartialEq)]
pub struct AccuracyTable {
    percent: Vec<f64>,
}

/// A table that cannot be walked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TableError {
    /// Not 21 x 21 values.
    #[error("accuracy table with {found} values found, but 21 x 21 expected")]
    Shape {
        /// How many there are.
        found: usize,
    },
    /// A value is no percentage.
    #[error("accuracy {found} at row {row}, column {column} found, but 0 to 100 per cent expected")]
    Value {
        /// Four times the first severity.
        row: usize,
        /// Four times the second severity.
        column: usize,
        /// The value.
        found: f64,
    },
}

/// The best continuation from a cell.
#[derive(Clone, Copy)]
struct Tail {
    cost: f64,
    /// Cells on it; the step off the table counts as one.
    cells: usize,
    step: Step,
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    End,
    LowerFirst,
    RaiseSecond,
}

impl AccuracyTable {
    /// A table from its rows, one after the other.
    pub fn new(percent: Vec<f64>) -> Result<Self, TableError> {
        if percent.len() != SEVERITIES * SEVERITIES {
            return Err(TableError::Shape { found: percent.len() });
        }
        if let Some(at) = percent.iter().position(|value| !(0.0..=100.0).contains(value)) {
            return Err(TableError::Value { row: at / SEVERITIES, column: at % SEVERITIES, found: percent[at] });
        }
        Ok(Self { percent })
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.percent[i * SEVERITIES + j]
    }

    /// The walk whose accuracy averages closest to `target_percent`: from some (i, 0) to some (0, j), each step lowering
    /// the first severity or raising the second.
    ///
    /// At each cell, of the two continuations the one with the closer running average is taken; equal ones raise the
    /// second severity. Of equally good starts the first counts.
    pub fn walk(&self, target_percent: f64) -> Vec<(QuarterSeverity, QuarterSeverity)> {
        let tails = self.tails(target_percent);
        let mut start = 1;
        let mut best = f64::INFINITY;
        for i in 1..SEVERITIES {
            let tail = tails[i * SEVERITIES];
            let gap = (tail.cost / tail.cells as f64 - target_percent).abs();
            if gap < best {
                (start, best) = (i, gap);
            }
        }
        let (mut i, mut j) = (start, 0);
        let mut walk = Vec::new();
        while j < SEVERITIES {
            let severity = |quarters| QuarterSeverity::from_quarters(quarters).expect("tables have 21 severities");
            walk.push((severity(i), severity(j)));
            match tails[i * SEVERITIES + j].step {
                Step::End => break,
                Step::LowerFirst => i -= 1,
                Step::RaiseSecond => j += 1,
            }
        }
        walk
    }

    /// The best continuation from every cell.
    fn tails(&self, target: f64) -> Vec<Tail> {
        let off = Tail { cost: OFF_THE_TABLE, cells: 1, step: Step::End };
        let mut tails = vec![off; SEVERITIES * SEVERITIES];
        for i in 0..SEVERITIES {
            for j in (0..SEVERITIES).rev() {
                let here = self.at(i, j);
                tails[i * SEVERITIES + j] = if i == 0 {
                    Tail { cost: here, cells: 1, step: Step::End }
                } else {
                    let lower = tails[(i - 1) * SEVERITIES + j];
                    let raise = if j + 1 < SEVERITIES { tails[i * SEVERITIES + j + 1] } else { off };
                    let gap = |tail: Tail| ((tail.cost + here) / (tail.cells + 1) as f64 - target).abs();
                    let (tail, step) =
                        if gap(lower) < gap(raise) { (lower, Step::LowerFirst) } else { (raise, Step::RaiseSecond) };
                    Tail { cost: tail.cost + here, cells: tail.cells + 1, step }
                };
            }
        }
        tails
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_run_from_the_left_edge_to_the_top_edge() {
        let percent = (0..441).map(|k| 76.0 - (k / 21 + k % 21) as f64 * 1.5).collect();
        let walk = AccuracyTable::new(percent).expect("21 x 21").walk(40.0);
        assert_eq!(walk[0].1, QuarterSeverity::ZERO);
        assert_eq!(walk.last().expect("not empty").0, QuarterSeverity::ZERO);
        for two in walk.windows(2) {
            let lowered = two[0].0.quarters() - two[1].0.quarters();
            let raised = two[1].1.quarters() - two[0].1.quarters();
            assert_eq!(lowered + raised, 1);
        }
    }

    #[test]
    fn bad_tables_are_refused() {
        assert_eq!(AccuracyTable::new(vec![1.0; 440]), Err(TableError::Shape { found: 440 }));
        let mut percent = vec![1.0; 441];
        percent[23] = f64::NAN;
        assert!(matches!(AccuracyTable::new(percent), Err(TableError::Value { row: 1, column: 2, .. })));
    }
}
