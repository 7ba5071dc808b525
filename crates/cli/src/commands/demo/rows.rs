//! The demo's table.

use crate::table::{grouped, render};
use flipcast_estimate::Estimate;
use flipcast_record::results::Seconds;
use flipcast_run::{Cell, CellEstimates};

/// The estimators shown, and their headings.
pub const SHOWN: [(&str, &str); 6] =
    [("combined", "combined"), ("wf", "WF"), ("cot", "COT"), ("atc_mc", "ATC"), ("doc", "DoC"), ("ac", "AC")];

/// One shift with its truth.
pub struct Row {
    pub shift: String,
    pub images: usize,
    pub truth: f64,
    pub estimates: CellEstimates,
    pub adapted_truth: f64,
    pub seconds: Seconds,
}

impl Row {
    /// A row, if the truth is known.
    pub fn new(shift: String, cell: &Cell, estimates: CellEstimates) -> Option<Self> {
        Some(Self {
            shift,
            images: cell.images,
            truth: cell.accuracy?,
            adapted_truth: cell.adapted_accuracy?,
            estimates,
            seconds: cell.seconds,
        })
    }

    /// An estimate of the source model's accuracy.
    pub fn estimate(&self, name: &str) -> Option<&Estimate> {
        self.estimates.source.get(name)
    }

    /// The combined estimate of the adapted model's accuracy.
    pub fn adapted(&self) -> Option<&Estimate> {
        self.estimates.adapted.get("combined")
    }
}

/// Mean distance of an estimator from the truth, in points, and the share of rows whose interval holds it.
pub fn quality(rows: &[Row], name: &str) -> (f64, f64) {
    let found: Vec<(&Estimate, f64)> = rows.iter().filter_map(|row| Some((row.estimate(name)?, row.truth))).collect();
    let errors = found.iter().map(|(e, truth)| (e.accuracy - truth).abs());
    let held = found.iter().filter(|(e, truth)| e.holds(*truth)).count();
    let n = found.len().max(1) as f64;
    (100.0 * errors.sum::<f64>() / n, held as f64 / n)
}

fn percent(x: f64) -> String {
    format!("{:.1}", 100.0 * x)
}

/// The table and what it shows.
pub fn to_text(rows: &[Row], level: f64) -> String {
    let shown = SHOWN.map(|(_, heading)| format!(">{heading}"));
    let mut header = vec!["shift", ">true"];
    header.extend(shown.iter().map(String::as_str));
    header.insert(3, ">interval");
    header.extend([">adapted: true", ">estimated"]);
    let mut lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    lines.push(error_line(rows));
    let (error, held) = quality(rows, "combined");
    let images = rows.first().map_or(0, |row| row.images);
    format!(
        "A ResNet-20 for Fashion-MNIST on {} test images per shift, or on samples of them; accuracy in percent. Its\n\
         calibration saw other images and other corruptions; no estimate uses labels.\n\n{}\n\
         The combined estimate is {error:.1} points off on average; its {:.0}% intervals hold the truth in {:.0} of {} rows.\n",
        grouped(images),
        render(&header, &lines),
        100.0 * level,
        held * rows.len() as f64,
        rows.len(),
    )
}

fn line(row: &Row) -> Vec<String> {
    let mut cells = vec![row.shift.clone(), percent(row.truth)];
    for (name, _) in SHOWN {
        cells.push(row.estimate(name).map_or_else(|| "-".to_owned(), |e| percent(e.accuracy)));
    }
    let interval =
        row.estimate("combined").map_or_else(String::new, |e| format!("{} to {}", percent(e.low), percent(e.high)));
    cells.insert(3, interval);
    cells.push(percent(row.adapted_truth));
    cells.push(row.adapted().map_or_else(|| "-".to_owned(), |e| percent(e.accuracy)));
    cells
}

fn error_line(rows: &[Row]) -> Vec<String> {
    let mut cells = vec!["mean error".to_owned(), String::new()];
    for (name, _) in SHOWN {
        cells.push(format!("{:.1}", quality(rows, name).0));
    }
    cells.insert(3, String::new());
    let adapted = rows.iter().filter_map(|row| Some((row.adapted()?.accuracy - row.adapted_truth).abs()));
    let adapted = 100.0 * adapted.sum::<f64>() / rows.len().max(1) as f64;
    cells.extend([String::new(), format!("{adapted:.1}")]);
    cells
}
