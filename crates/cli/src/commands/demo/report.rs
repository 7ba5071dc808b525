//! The demo's page: its estimates and its calibration as records, shown as `flipcast report` shows them.

use super::rows::Row;
use anyhow::Result;
use flipcast_record::{Protocol, RunRecord, Timing};
use flipcast_report::{PageOptions, Study, render_page};
use flipcast_run::{Calibration, EstimatesResult};
use serde_json::Value;

/// Version of the demo's protocol.
const VERSION: u32 = 1;

/// The whole page.
pub fn render(rows: &[Row], calibration: &Calibration, level: f64) -> Result<String> {
    let mut records = vec![calibration_record(calibration)?];
    for row in rows {
        records.push(estimates_record(row, calibration, level)?);
    }
    let options = PageOptions {
        title: Some("flipcast demo".to_owned()),
        about: Some(format!(
            "A small built-in model on shifts its calibration has not seen: {}, {:.2}% right on the {} clean images it was calibrated with, none of \
             which is shown here.",
            calibration.model.name,
            100.0 * calibration.basis.reference.accuracy,
            calibration.basis.reference.images,
        )),
    };
    Ok(render_page(&Study::new(records), &options)?)
}

fn protocol(kind: &str, calibration: &Calibration, data: &str, images: usize) -> Result<Protocol> {
    let protocol = Protocol::new(kind)
        .with("version", &VERSION)?
        .with("model", &calibration.model)?
        .with("data", &data)?
        .with("preprocess", &calibration.preprocess)?
        .with("class_space", &calibration.class_space)?
        .with("images", &images)?
        .with("seed", &0)?
        .with("flips", &calibration.protocol)?;
    Ok(protocol)
}

fn calibration_record(calibration: &Calibration) -> Result<RunRecord> {
    let images = calibration.basis.reference.images;
    let protocol = protocol("calibration", calibration, &calibration.data, images)?;
    let seconds = calibration.cells.iter().map(|cell| cell.cell.seconds.total());
    Ok(record(protocol, serde_json::to_value(calibration)?, seconds.sum()))
}

fn estimates_record(row: &Row, calibration: &Calibration, level: f64) -> Result<RunRecord> {
    let data = match row.shift.as_str() {
        "clean" => "fashion-mnist-test".to_owned(),
        shift => format!("fashion-mnist-test@{shift}"),
    };
    let protocol = protocol("estimates", calibration, &data, row.images)?.with("level", &level)?;
    let result = EstimatesResult {
        cell: String::new(),
        images: row.images,
        accuracy: Some(row.truth),
        adapted_accuracy: Some(row.adapted_truth),
        source: row.estimates.source.clone(),
        adapted: row.estimates.adapted.clone(),
        explanation: row.estimates.explanation.clone(),
        seconds: row.seconds,
    };
    Ok(record(protocol, serde_json::to_value(result)?, row.seconds.total()))
}

/// The page does not tell when it was made, so that the same numbers make the same page.
fn record(protocol: Protocol, result: Value, seconds: f64) -> RunRecord {
    let created = 0;
    RunRecord::new(protocol, result, Timing { created, seconds })
}
