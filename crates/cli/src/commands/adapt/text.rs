//! What a finished run says about itself.

use crate::output::tell;
use crate::progress::duration;
use crate::table::{grouped, percent};
use anyhow::Result;
use flipcast_adapt::GuardState;
use flipcast_run::adapt::{AdaptSummary, Arbitration, Ending, GuardEvent};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// A finished run, to be printed.
#[derive(Serialize)]
pub struct Finished<'a> {
    pub model: &'a str,
    pub data: &'a str,
    pub method: &'a str,
    /// Key of its protocol.
    pub key: &'a str,
    #[serde(flatten)]
    pub summary: &'a AdaptSummary,
    pub seconds: Option<f64>,
    /// Where the predictions are.
    pub out: Option<&'a Path>,
    /// Where the adapted vector is.
    pub affine: Option<&'a Path>,
    /// Where the record is.
    pub record: Option<&'a Path>,
}

impl Finished<'_> {
    /// The text for stdout.
    pub fn render(&self, json: bool) -> Result<String> {
        if json {
            return Ok(serde_json::to_string(self)? + "\n");
        }
        Ok(self.lines())
    }

    fn lines(&self) -> String {
        let summary = self.summary;
        let mut text = String::new();
        let mut line = |what: &str, value: String| text += &format!("{what:<13}{value}\n");
        line("model", self.model.to_owned());
        line("data", self.data.to_owned());
        line("method", self.method.to_owned());
        line("images", images(summary));
        if let Some(accuracy) = summary.accuracy {
            let source =
                summary.source_accuracy.map_or_else(String::new, |source| format!(", {} source", percent(source)));
            let labelled = match summary.labelled {
                n if n == summary.images => String::new(),
                n => format!(" on {} images with a label", grouped(n)),
            };
            line("accuracy", format!("{} adapting{source}{labelled}", percent(accuracy)));
        }
        line(
            "entropy",
            format!("{:.3} nats in the first batch, {:.3} in the last", summary.first_entropy, summary.last_entropy),
        );
        line(
            "kept",
            format!(
                "{} of the images moved the parameters, {} were reliable",
                percent(summary.used_share),
                percent(summary.reliable_share)
            ),
        );
        if let Some(flips) = summary.flip_rate {
            line("flips", format!("{} against the source model", percent(flips)));
        }
        line("guard", guard(summary));
        if let Some(arbitration) = arbitration(summary) {
            line("disputes", arbitration);
        }
        let files = [("predictions", self.out), ("affine", self.affine), ("record", self.record)];
        for (what, path) in files {
            let Some(path) = path else { continue };
            let key = match what {
                "record" if summary.ending != Ending::Interrupted => format!(", key {}", self.key),
                "record" => ", not written for a part of a run".to_owned(),
                _ => String::new(),
            };
            line(what, format!("{}{key}", path.display()));
        }
        if let Some(seconds) = self.seconds {
            let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            let rate = summary.images as f64 / seconds.max(1e-9);
            line("time", format!("{}, {rate:.0} images/s", duration(time)));
        }
        text
    }
}

/// Why the guard thinks what it thinks.
pub fn describe(event: &GuardEvent) -> String {
    let reasons: Vec<String> = event.reasons.iter().map(ToString::to_string).collect();
    reasons.join("; ")
}

/// Says so when the method's filters left it nothing to adapt with.
pub fn note_starved(summary: &AdaptSummary, method: &str) {
    if summary.starved {
        tell(&format!(
            "note: {} of the images passed the filters of `{method}`, so that the model hardly adapted",
            percent(summary.used_share)
        ));
    }
}

fn images(summary: &AdaptSummary) -> String {
    let mut text = format!("{}, {} steps", grouped(summary.images), grouped(summary.steps));
    if summary.resets > 0 {
        text += &format!(", {} resets", grouped(summary.resets));
    }
    if summary.skipped > 0 {
        text += &format!(", {} unusable ones left out", grouped(summary.skipped));
    }
    text += match summary.ending {
        Ending::Complete => "",
        Ending::Interrupted => ", interrupted",
        Ending::Collapsed => ", stopped by the guard",
    };
    text
}

/// On how many images the two models differed, and whose answers counted.
fn arbitration(summary: &AdaptSummary) -> Option<String> {
    let Arbitration { disputes, to_source } = summary.arbitration?;
    let share = |part: usize, whole: usize| percent(part as f64 / whole.max(1) as f64);
    Some(format!(
        "{} of the images; the source model's answer counted on {} of these",
        share(disputes, summary.images),
        share(to_source, disputes)
    ))
}

fn guard(summary: &AdaptSummary) -> String {
    let count = |state: GuardState| {
        let events = summary.guard_events.iter();
        events.filter(|event| event.state == state).count()
    };
    let (warnings, collapses) = (count(GuardState::Warning), count(GuardState::Collapsed));
    if warnings + collapses == 0 {
        return "nothing seen".to_owned();
    }
    let mut text = format!("{warnings} warnings, {collapses} collapses");
    let worst = summary.guard_events.iter().reduce(|a, b| if b.state > a.state { b } else { a });
    if let Some(event) = worst {
        text += &format!("; batch {}: {}", event.batch, describe(event));
    }
    if let Some(batch) = summary.source_since {
        text += &format!("; the source model predicted from batch {batch} on");
    }
    text
}
