use super::window::{Seen, Window};
use super::{AlarmKind, Evidence, Monitor, MonitorError, MonitorState};
use flipcast_estimate::{
    Answer, ConfidenceSequence, FEWEST_LABELS, PoweredEstimate, choose_questions, join_with_labels, powered_estimate,
};
use flipcast_ground::percent;
use serde::{Deserialize, Serialize};

/// The most images that are asked about at once. With more, images would be drawn by strata, which answers that come one by one do not fill.
const MOST_QUESTIONS: usize = 99;

/// Questions that are remembered, answered or not.
const MOST_REMEMBERED: usize = 1000;

/// An image that is worth a label.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MonitorQuestion {
    /// Its number in the stream.
    pub image: u64,
    /// The predicted class.
    pub predicted: usize,
    /// The probability that the prediction is right, as the model has it.
    pub guess: f64,
}

/// What somebody said of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It shows this class.
    Class(usize),
    /// The prediction is right, or not.
    Right(bool),
}

/// What labels say of recent images.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelReport {
    /// Labels that count.
    pub labels: usize,
    /// Questions that nobody has answered.
    pub open: usize,
    /// The accuracy on recent windows, from labels and the model's guesses; nothing below five labels.
    pub powered: Option<PoweredEstimate>,
    /// An interval from labels alone that may be looked at after every label, as long as the accuracy stays what it is.
    pub any_time: Option<[f64; 2]>,
}

impl Monitor {
    /// Images worth a label: a random sample of recent windows, unanswered questions first. Asking again gives the same images until they are
    /// answered.
    ///
    /// # Errors
    /// When an estimator fails.
    pub fn ask(&mut self, questions: usize) -> Result<Vec<MonitorQuestion>, MonitorError> {
        let recent = self.recent()?;
        let wanted = questions.clamp(1, MOST_QUESTIONS);
        let question = |seen: &Seen| MonitorQuestion {
            image: seen.image,
            predicted: seen.predicted as usize,
            guess: f64::from(seen.guess),
        };
        let open = recent.iter().filter(|seen| self.state.asked.get(&seen.image) == Some(&None));
        let mut chosen: Vec<MonitorQuestion> = open.take(wanted).map(question).collect();
        let rest: Vec<&Seen> = recent.iter().filter(|seen| !self.state.asked.contains_key(&seen.image)).collect();
        let missing = (wanted - chosen.len()).min(rest.len());
        if missing > 0 && rest.len() >= 2 {
            let guesses: Vec<f64> = rest.iter().map(|seen| f64::from(seen.guess)).collect();
            let seed = self.config.seed ^ self.state.images.rotate_left(32) ^ self.state.asked.len() as u64;
            // Two are the fewest that can be drawn.
            let drawn = choose_questions(&guesses, missing.max(2), seed)?;
            chosen.extend(drawn.images.iter().take(missing).map(|&place| question(rest[place])));
        }
        let MonitorState { asked, predicted, .. } = &mut self.state;
        for question in &chosen {
            asked.entry(question.image).or_insert(None);
            predicted.insert(question.image, question.predicted as u32);
        }
        while asked.len() > MOST_REMEMBERED
            && let Some((oldest, _)) = asked.pop_first()
        {
            predicted.remove(&oldest);
        }
        Ok(chosen)
    }

    /// Takes what somebody said of an image that was asked about; saying it again changes the answer in estimates. An answer that comes when its
    /// window is no longer recent counts in what labels alone say.
    ///
    /// # Errors
    /// When the image was not asked about, or the class does not exist.
    pub fn label(&mut self, image: u64, verdict: Verdict) -> Result<(), MonitorError> {
        let not_asked = MonitorError::NotAsked { image };
        let Some(&predicted) = self.state.predicted.get(&image) else { return Err(not_asked) };
        let right = match verdict {
            Verdict::Right(right) => right,
            Verdict::Class(found) if found < self.basis.classes() => found == predicted as usize,
            Verdict::Class(found) => return Err(MonitorError::Label { found, classes: self.basis.classes() }),
        };
        let Some(answer) = self.state.asked.get_mut(&image) else { return Err(not_asked) };
        let is_new = answer.replace(right).is_none();
        if is_new {
            let alpha = 1.0 - self.config.level;
            let sequence = self.state.sequence.get_or_insert_with(|| ConfidenceSequence::new(alpha));
            sequence.update(f64::from(u8::from(right)));
            let (_, high) = sequence.interval();
            let labels = sequence.values();
            if let Some(line) = self.config.accuracy_line.filter(|line| high < *line)
                && !self.is_active(AlarmKind::LabelledAccuracyBelow)
            {
                let text = format!("{labels} labels say that the accuracy is at most {}%", percent(high, 1));
                self.raise(AlarmKind::LabelledAccuracyBelow, Evidence::Accuracy { high, line }, text);
            }
        }
        self.relabel(image)
    }

    /// What labels say of recent windows; nothing before anybody was asked.
    ///
    /// # Errors
    /// When an estimator fails.
    pub fn label_report(&self) -> Result<Option<LabelReport>, MonitorError> {
        if self.state.asked.is_empty() {
            return Ok(None);
        }
        let labels = self.state.asked.values().flatten().count();
        let any_time = self.state.sequence.as_ref().map(|sequence| {
            let (low, high) = sequence.interval();
            [low, high]
        });
        let powered = self.powered(&self.recent()?)?;
        Ok(Some(LabelReport { labels, open: self.state.asked.len() - labels, powered, any_time }))
    }

    /// The window with what labels say of it.
    pub(super) fn with_labels(&self, mut window: Window) -> Result<Window, MonitorError> {
        window.labelled = self.powered(&window.seen)?.map(|powered| {
            let labels =
                window.seen.iter().filter(|seen| matches!(self.state.asked.get(&seen.image), Some(Some(_)))).count();
            let joined = window.estimate.as_ref().and_then(|own| join_with_labels(own, &powered.estimate));
            super::WindowLabels { labels, powered, joined }
        });
        Ok(window)
    }

    /// Estimates the closed window of `image` again.
    fn relabel(&mut self, image: u64) -> Result<(), MonitorError> {
        let holds = |window: &Window| window.seen.iter().any(|seen| seen.image == image);
        if let Some(place) = self.state.closed[0].iter().position(holds) {
            let window = self.state.closed[0][place].clone();
            self.state.closed[0][place] = self.with_labels(window)?;
        }
        Ok(())
    }

    fn powered(&self, population: &[Seen]) -> Result<Option<PoweredEstimate>, MonitorError> {
        let answer = |(image, seen): (usize, &Seen)| {
            let right = self.state.asked.get(&seen.image).copied().flatten()?;
            Some(Answer { image, right, stratum: 0 })
        };
        let answers: Vec<Answer> = population.iter().enumerate().filter_map(answer).collect();
        if answers.len() < FEWEST_LABELS {
            return Ok(None);
        }
        let guesses: Vec<f64> = population.iter().map(|seen| f64::from(seen.guess)).collect();
        let strata = vec![0; guesses.len()];
        Ok(Some(powered_estimate(&guesses, &strata, &answers, self.config.level)?))
    }

    /// Images that can be asked about: those of recent windows by count, the open one included.
    fn recent(&self) -> Result<Vec<Seen>, MonitorError> {
        let closed = self.state.closed[0].iter().flat_map(|window| window.seen.iter().copied());
        let mut recent: Vec<Seen> = closed.collect();
        recent.extend(self.state.open[0].seen(&self.basis, &self.state.rows)?);
        Ok(recent)
    }
}
