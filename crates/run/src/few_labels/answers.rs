//! A file of labels beside the images it is about.

use super::LabelFileError;
use super::file::{LabelFile, LabelRow, Stated};
use super::guesses::Seen;
use super::names::ClassNames;
use crate::{RunError, Scope};
use flipcast_estimate::{Answer, FEWEST_LABELS, stratify};
use flipcast_ground::nearest_quoted;
use std::collections::HashMap;

/// Guesses made on another machine may differ by rounding, and put an image at the border of two strata into the other one.
const NEAR: f64 = 1e-3;

/// Labelled images, and the stratum of every image.
#[derive(Debug)]
pub(super) struct Labelled {
    pub answers: Vec<Answer>,
    pub strata: Vec<usize>,
}

/// Finds the images and classes that `file` names; `data` is what records call the images.
pub(super) fn match_file(
    file: &LabelFile,
    seen: &Seen,
    names: &ClassNames,
    scope: &Scope,
    data: &str,
) -> Result<Labelled, RunError> {
    match file.labels() {
        0 => return Err(LabelFileError::Empty { expected: FEWEST_LABELS }.into()),
        found if found < FEWEST_LABELS => {
            return Err(LabelFileError::TooFew { found, expected: FEWEST_LABELS }.into());
        }
        _ => {}
    }
    let mut strata = stratify(&seen.guesses, file.strata.unwrap_or(1))?;
    let ranges = ranges(&seen.guesses, &strata);
    let places = Places::new(&seen.ids, data);
    let mut named = vec![false; seen.ids.len()];
    let mut answers = Vec::new();
    for row in &file.rows {
        let image = places.find(row)?;
        if std::mem::replace(&mut named[image], true) {
            return Err(LabelFileError::Twice { line: row.line, image: row.image.clone() }.into());
        }
        if row.stratum != strata[image] {
            let near = ranges
                .get(row.stratum)
                .is_some_and(|(low, high)| (low - NEAR..=high + NEAR).contains(&seen.guesses[image]));
            if !near {
                let (found, expected) = (row.stratum, strata[image]);
                let (line, image) = (row.line, row.image.clone());
                return Err(LabelFileError::OtherStratum { line, image, found, expected }.into());
            }
            strata[image] = row.stratum;
        }
        let right = match &row.answer {
            None => continue,
            Some(Stated::Right(right)) => *right,
            Some(Stated::Class(label)) => {
                let truth = names.find(label).ok_or_else(|| LabelFileError::UnknownClass {
                    line: row.line,
                    label: label.clone(),
                    classes: scope.num_classes(),
                    nearest: nearest_quoted(label, names.all()),
                })?;
                truth.is_right(scope, seen.pass.outputs.row(image), seen.predicted[image])
            }
        };
        answers.push(Answer { image, right, stratum: row.stratum });
    }
    let missing = strata.iter().find(|&&stratum| answers.iter().all(|answer| answer.stratum != stratum));
    match missing {
        Some(&stratum) => Err(LabelFileError::StratumWithoutLabel { stratum }.into()),
        None => Ok(Labelled { answers, strata }),
    }
}

/// The lowest and highest guess of every stratum.
fn ranges(guesses: &[f64], strata: &[usize]) -> Vec<(f64, f64)> {
    let count = strata.iter().max().map_or(0, |last| last + 1);
    let mut ranges = vec![(f64::INFINITY, f64::NEG_INFINITY); count];
    for (guess, &stratum) in guesses.iter().zip(strata) {
        let (low, high) = &mut ranges[stratum];
        (*low, *high) = (low.min(*guess), high.max(*guess));
    }
    ranges
}

/// Where images lie, by id.
struct Places<'a> {
    /// `None` where several images have the id.
    by_id: HashMap<&'a str, Option<usize>>,
    /// The path of the images, which may stand in front of an id.
    root: &'a str,
}

impl<'a> Places<'a> {
    fn new(ids: &'a [String], data: &'a str) -> Self {
        let mut by_id = HashMap::with_capacity(ids.len());
        for (place, id) in ids.iter().enumerate() {
            by_id.entry(id.as_str()).and_modify(|shared| *shared = None).or_insert(Some(place));
        }
        Self { by_id, root: data.split(['#', '@']).next().unwrap_or(data).trim_end_matches('/') }
    }

    fn find(&self, row: &LabelRow) -> Result<usize, LabelFileError> {
        let (line, image) = (row.line, row.image.clone());
        let below_root = || self.by_id.get(image.strip_prefix(self.root)?.trim_start_matches('/'));
        match self.by_id.get(image.as_str()).or_else(below_root) {
            Some(Some(place)) => Ok(*place),
            Some(None) => Err(LabelFileError::SharedName { line, image }),
            None => {
                let mut ids: Vec<&str> = self.by_id.keys().copied().collect();
                ids.sort_unstable();
                let nearest = nearest_quoted(&image, ids);
                Err(LabelFileError::UnknownImage { line, images: self.by_id.len(), nearest, image })
            }
        }
    }
}
