//! The demo's page: a chart of estimates against the truth, and the table. Opens without a network.

use super::rows::{Row, SHOWN, quality};
use flipcast_run::Calibration;
use std::fmt::Write;

/// Side of the chart in pixels, and its margin.
const SIDE: f64 = 420.0;
const MARGIN: f64 = 60.0;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d232b; --paper: #fff; --line: #c9d0d8; --mark: #0b63b0; --other: #b8550b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #14181d; --line: #3a434d; --mark: #6db3f2; --other: #f0a15c; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; }
svg text { fill: var(--ink); font-size: 12px; }
";

/// The whole page.
pub fn render(rows: &[Row], calibration: &Calibration) -> String {
    let (error, held) = quality(rows, "combined");
    let basis = &calibration.basis;
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>flipcast demo</title><style>{STYLE}</style></head><body>\n\
         <h1>How accurate is the model on images nobody labelled?</h1>\n\
         <p>The combined estimate is <strong>{error:.1} points</strong> off on average over {} shifts, and its 90% intervals hold \
         the truth in <strong>{:.0} of {}</strong>. No estimate uses labels; the truth is shown beside it.</p>\n\
         {}\n<h2>Every shift</h2>\n<div class=\"scroll\">{}</div>\n\
         <h2>How this was made</h2>\n<p>Model {}, {:.2}% right on {} clean images it was calibrated with, none of which is shown here. \
         Protocol <code>{}</code>: {} steps of {} images, probe of {}. Accuracies in percent.</p>\n</body></html>\n",
        rows.len(),
        held * rows.len() as f64,
        rows.len(),
        chart(rows),
        table(rows),
        calibration.model.name,
        100.0 * basis.reference.accuracy,
        basis.reference.images,
        calibration.protocol.name,
        calibration.protocol.last_stop(),
        calibration.protocol.batch_size,
        calibration.protocol.probe_images,
    )
}

/// Estimate against truth, with intervals; what lies on the diagonal is right.
fn chart(rows: &[Row]) -> String {
    let at = |x: f64| MARGIN + (SIDE - 2.0 * MARGIN) * x;
    let down = |y: f64| SIDE - at(y);
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"Combined estimate against true accuracy\" viewBox=\"0 0 {SIDE} {SIDE}\" width=\"{SIDE}\">"
    );
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (x, y) = (at(tick), down(tick));
        let _ = write!(
            svg,
            "<path d=\"M{x} {} V{} M{} {y} H{}\" stroke=\"var(--line)\"/><text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{:.0}%</text>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.0}%</text>",
            down(0.0),
            down(1.0),
            at(0.0),
            at(1.0),
            down(0.0) + 16.0,
            100.0 * tick,
            at(0.0) - 6.0,
            y + 4.0,
            100.0 * tick,
        );
    }
    let _ = write!(
        svg,
        "<path d=\"M{} {} L{} {}\" stroke=\"var(--ink)\" stroke-dasharray=\"4 4\"/>",
        at(0.0),
        down(0.0),
        at(1.0),
        down(1.0)
    );
    for row in rows {
        let Some(estimate) = row.estimate("combined") else {
            continue;
        };
        let x = at(row.truth);
        let _ = write!(
            svg,
            "<g><title>{}: true {:.1}%, estimated {:.1}%</title><path d=\"M{x} {} V{}\" stroke=\"var(--mark)\"/>\
             <circle cx=\"{x}\" cy=\"{}\" r=\"4\" fill=\"var(--mark)\"/></g>",
            row.shift,
            100.0 * row.truth,
            100.0 * estimate.accuracy,
            down(estimate.low),
            down(estimate.high),
            down(estimate.accuracy),
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">true accuracy</text><text x=\"12\" y=\"{}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 12 {})\">combined estimate</text></svg>",
        0.5 * SIDE,
        SIDE - 8.0,
        0.5 * SIDE,
        0.5 * SIDE,
    );
    svg
}

fn table(rows: &[Row]) -> String {
    let mut html = String::from(
        "<table><thead><tr><th>shift</th><th>true</th><th>combined</th><th>90% interval</th>",
    );
    for (_, heading) in SHOWN.iter().skip(1) {
        let _ = write!(html, "<th>{heading}</th>");
    }
    html += "<th>adapted: true</th><th>estimated</th></tr></thead><tbody>";
    for row in rows {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{:.1}</td>",
            row.shift,
            100.0 * row.truth
        );
        for (number, (name, _)) in SHOWN.iter().enumerate() {
            let Some(estimate) = row.estimate(name) else {
                html += "<td>-</td>";
                continue;
            };
            let _ = write!(html, "<td>{:.1}</td>", 100.0 * estimate.accuracy);
            if number == 0 {
                let (low, high) = (100.0 * estimate.low, 100.0 * estimate.high);
                let _ = write!(html, "<td>{low:.1} to {high:.1}</td>");
            }
        }
        let adapted = row.adapted().map_or(f64::NAN, |e| 100.0 * e.accuracy);
        let _ = write!(
            html,
            "<td>{:.1}</td><td>{adapted:.1}</td></tr>",
            100.0 * row.adapted_truth
        );
    }
    html += "</tbody><tfoot><tr><td>mean error</td><td></td>";
    for (number, (name, _)) in SHOWN.iter().enumerate() {
        let _ = write!(html, "<td>{:.1}</td>", quality(rows, name).0);
        if number == 0 {
            html += "<td></td>";
        }
    }
    html + "<td></td><td></td></tr></tfoot></table>"
}
