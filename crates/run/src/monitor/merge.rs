//! Two monitors of one classifier, made one.

use super::MonitorError;
use super::watch::Monitor;

impl Monitor {
    /// Joins a monitor of the same classifier that watched other images: evidence is averaged, sums are added, samples are drawn from both.
    /// Images of the other are numbered after its own.
    ///
    /// # Errors
    /// When the other watches another classifier.
    pub fn merge(&mut self, other: &Self) -> Result<(), MonitorError> {
        other.state.check(&self.basis, &self.config)?;
        let (state, theirs) = (&mut self.state, &other.state);
        let offset = state.images;
        let shift = &self.basis.shift;
        shift.merge_entropy(&mut state.entropy, &theirs.entropy);
        shift.merge_classes(&mut state.classes, &theirs.classes);
        if let (Some(own), Some(other)) = (&mut state.flips, &theirs.flips) {
            shift.merge_flips(own, other);
        }
        state.rows.extend(theirs.rows.iter().map(|(image, row)| (image + offset, row.clone())));
        for (own, other) in state.open.iter_mut().zip(&theirs.open) {
            own.merge(other, offset, self.config.window_images);
        }
        for (own, other) in state.closed.iter_mut().zip(&theirs.closed) {
            own.extend(other.iter().cloned().map(|mut window| {
                window.first_image += offset;
                window.seen.iter_mut().for_each(|seen| seen.image += offset);
                window
            }));
            own.make_contiguous().sort_by(|a, b| a.ended.total_cmp(&b.ended));
            own.iter_mut().enumerate().for_each(|(number, window)| window.number = number as u64);
        }
        for (open, closed) in state.open.iter_mut().zip(&state.closed) {
            open.number = closed.len() as u64;
        }
        state.alarms.extend(theirs.alarms.iter().cloned().map(|mut alarm| {
            alarm.image += offset;
            alarm.images.iter_mut().for_each(|image| *image += offset);
            alarm
        }));
        state.alarms.sort_by(|a, b| a.time.total_cmp(&b.time));
        state.asked.extend(theirs.asked.iter().map(|(image, answer)| (image + offset, *answer)));
        state.predicted.extend(theirs.predicted.iter().map(|(image, class)| (image + offset, *class)));
        state.images += theirs.images;
        state.last_time = state.last_time.max(theirs.last_time);
        (state.low_windows, state.harmed_windows) = (0, 0);
        // What was labelled on two streams in turn has no common order; it counts in estimates, and the sequence begins again.
        state.sequence = None;
        self.drop_rows();
        Ok(())
    }
}
