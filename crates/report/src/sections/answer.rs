use crate::Study;
use crate::figures::{groups, headline, phase_1};
use crate::html::escape;
use crate::stats::median;
use crate::study::{Entry, Estimates, Which, estimator_label, estimators_of, quality_of};
use std::collections::BTreeSet;

/// The answer to the page's question, as paragraphs: numbers first, warnings last.
pub(crate) fn answer(study: &Study) -> String {
    let mut html = String::new();
    let groups = groups(study);
    let models = groups.iter().filter(|(_, which, _)| *which == Which::Source).count();
    for (model, which, entries) in &groups {
        if *which == Which::Source {
            let name = (models > 1).then_some(model.as_str());
            html += &estimated(name, entries);
        }
    }
    html += &adapted(study);
    html += &warnings(study);
    if html.is_empty() {
        html += "<p>These records hold no estimates; what they do hold is below.</p>";
    }
    html
}

fn estimated(model: Option<&str>, entries: &[&Entry<Estimates>]) -> String {
    let which = Which::Source;
    let Some(name) = headline(entries, which) else {
        return String::new();
    };
    let label = escape(&estimator_label(&name));
    let of = model.map_or(String::new(), |model| format!("{}: ", escape(model)));
    let level = entries.iter().find_map(|entry| entry.subject.level);
    let level = level.map_or(String::new(), |level| format!("{:.0}% ", 100.0 * level));
    let mut html = String::new();
    if let Some(quality) = quality_of(entries.iter().copied(), which, &name) {
        html += &format!(
            "<p class=\"lead\">{of}the {label} estimate is <strong>{:.1} points</strong> off on average over {} where the truth is \
             known, and {:.1} at worst.",
            100.0 * quality.mae,
            datasets(quality.datasets),
            100.0 * quality.worst
        );
        if quality.held.1 > 0 {
            html += &format!(
                " Its {level}intervals hold the truth in <strong>{} of {}</strong>.",
                quality.held.0, quality.held.1
            );
        }
        html += "</p>";
        html += &rivals(entries, which, &name, quality.mae);
    }
    let unlabelled: Vec<_> = entries
        .iter()
        .filter(|entry| which.truth(&entry.result).is_none())
        .filter_map(|entry| Some((*entry, which.guesses(&entry.result).get(&name)?)))
        .collect();
    if let [(entry, guess)] = unlabelled.as_slice() {
        let interval = match guess.interval {
            Some((low, high)) => format!(" ({level}interval {:.1}% to {:.1}%)", 100.0 * low, 100.0 * high),
            None => " as the score stands, without an interval".to_owned(),
        };
        html += &format!(
            "<p class=\"lead\">{of}on <code>{}</code>, whose labels nobody knows, the model is estimated to be right on \
             <strong>{:.1}%</strong> of {} images{interval}.</p>",
            escape(&entry.subject.name),
            100.0 * guess.accuracy,
            flipcast_ground::grouped(entry.result.images)
        );
    } else if !unlabelled.is_empty() {
        let low = unlabelled.iter().map(|(_, guess)| guess.accuracy).fold(f64::INFINITY, f64::min);
        let high = unlabelled.iter().map(|(_, guess)| guess.accuracy).fold(0.0, f64::max);
        html += &format!(
            "<p class=\"lead\">{of}on {} without labels the model is estimated to be right on <strong>{:.1}% to {:.1}%</strong> of the \
             images; each estimate is below with its interval.</p>",
            datasets(unlabelled.len()),
            100.0 * low,
            100.0 * high
        );
    }
    capitalise_first_letter(&html)
}

fn datasets(count: usize) -> String {
    match count {
        1 => "one dataset".to_owned(),
        count => format!("{count} datasets"),
    }
}

/// How the first estimator stands among the others. Which one is best is known only afterwards, and it says so.
fn rivals(entries: &[&Entry<Estimates>], which: Which, name: &str, mae: f64) -> String {
    let mut others: Vec<(f64, String)> = estimators_of(entries.iter().copied(), which)
        .into_iter()
        .filter(|other| other != name)
        .filter_map(|other| Some((quality_of(entries.iter().copied(), which, &other)?.mae, other)))
        .collect();
    others.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((best, other)) = others.first() else {
        return String::new();
    };
    let other = escape(&estimator_label(other));
    let count = others.len() + 1;
    let text = if *best < mae {
        format!(
            "Of {count} estimators {other} turned out best here ({:.1} points); that is known only because the truth is.",
            100.0 * best
        )
    } else {
        format!("It is the best of {count} estimators here; the next is {other} ({:.1} points).", 100.0 * best)
    };
    format!("<p>{text} No estimate uses labels of the images it is for.</p>")
}

/// What adapting did, where it was watched.
fn adapted(study: &Study) -> String {
    let changes: Vec<(f64, Option<f64>)> = study
        .phases
        .iter()
        .filter_map(|entry| {
            let run = &entry.result;
            let first = run.checkpoints.first()?.accuracy?;
            let last = run.checkpoints.last()?.accuracy?;
            Some((last - first, phase_1(run).map(|change| change.accuracy)))
        })
        .collect();
    let hurt = changes.iter().filter(|(change, _)| *change < 0.0).count();
    let gains: Vec<f64> = changes.iter().map(|(_, gain)| gain.unwrap_or(0.0)).collect();
    let ends: Vec<f64> = study.phases.iter().filter_map(|e| Some(e.result.phase_1_end? as f64)).collect();
    let (Some(gain), Some(end)) = (median(&gains), median(&ends)) else {
        return String::new();
    };
    let runs = match changes.len() {
        1 => "In the one run that was watched".to_owned(),
        runs => format!("Over {runs} runs"),
    };
    format!(
        "<p>{runs}, adapting gains {:.1} points by step {end:.0} (medians), and {hurt} of {} end less accurate than they began.</p>",
        100.0 * gain,
        changes.len()
    )
}

fn warnings(study: &Study) -> String {
    let mut flagged = BTreeSet::new();
    for entry in &study.estimates {
        let first = headline(&[entry], Which::Source);
        let guess = first.and_then(|name| entry.result.source.get(&name));
        if guess.is_some_and(|guess| !guess.flags.is_empty()) {
            flagged.insert(&entry.subject.key);
        }
    }
    match flagged.len() {
        0 => String::new(),
        count => format!(
            "<p class=\"warning\"><strong>Doubtful:</strong> {} raised flags; see <a href=\"#flags\">what was flagged</a>.</p>",
            datasets(count)
        ),
    }
}

/// The sentences above start with a name that may be missing.
fn capitalise_first_letter(html: &str) -> String {
    html.replace("<p class=\"lead\">the ", "<p class=\"lead\">The ")
        .replace("<p class=\"lead\">on ", "<p class=\"lead\">On ")
}
