//! Combined estimates of the cells in a study's records, with the fits made again from the calibrations' cells: no network is needed.
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin estimate_again -- records.jsonl > combined.csv
//! ```
//!
//! One line of CSV for every cell and for each of the source and the adapted model: truth, estimate, ends of the 90% interval, flags.

use flipcast::record::results::Cell;
use flipcast::run::Calibration;
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;

const LEVEL: f64 = 0.9;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("expected a file of records")?;
    let records: Vec<Value> =
        std::fs::read_to_string(&path)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let of_kind = |kind: &'static str| records.iter().filter(move |record| record["kind"] == kind);
    let mut calibrations = BTreeMap::new();
    for record in of_kind("calibration") {
        let again = std::env::temp_dir().join(format!("flipcast-again-{}.json", std::process::id()));
        std::fs::write(&again, record["result"].to_string())?;
        let calibration = Calibration::refit(&again);
        std::fs::remove_file(&again)?;
        calibrations.insert(name(record)?, calibration?);
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "network,data,images,model,truth,estimate,low,high,flags")?;
    for record in of_kind("estimate") {
        let network = name(record)?;
        let calibration = calibrations.get(network).ok_or("a cell of a network without a calibration")?;
        let cell: Cell = serde_json::from_value(record["result"].clone())?;
        let data = record["protocol"]["data"].as_str().ok_or("a record without its data")?;
        let estimates = calibration.estimate(&cell, LEVEL);
        let looks =
            [("source", &estimates.source, cell.accuracy), ("adapted", &estimates.adapted, cell.adapted_accuracy)];
        for (look, estimates, truth) in looks {
            let (Some(combined), Some(truth)) = (estimates.get("combined"), truth) else { continue };
            let numbers =
                [truth, combined.accuracy, combined.low, combined.high].map(|share| format!("{:.3}", 100.0 * share));
            let flags: Vec<&str> = combined.flags.iter().map(|flag| flag.name()).collect();
            writeln!(out, "{network},{data},{},{look},{},{}", cell.images, numbers.join(","), flags.join(" "))?;
        }
    }
    Ok(())
}

/// The network that a record is about.
fn name(record: &Value) -> Result<&str, Box<dyn Error>> {
    record["protocol"]["model"]["name"].as_str().ok_or_else(|| "a record without its model".into())
}
