/// Larger numbers are no measurement, and drawing them would only press everything else together.
pub(super) const LARGEST: f64 = 1e12;

/// How the values of an axis are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisFormat {
    /// Fractions as percentages.
    Percent,
    /// Differences of fractions as percentage points.
    Points,
    /// As they are.
    Plain,
    /// Steps from 0 on, on a logarithmic scale; 0 lies at the left edge.
    Steps,
    /// Not at all.
    Hidden,
}

/// One direction of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// Where it starts.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// How its values are written.
    pub format: AxisFormat,
}

impl Axis {
    /// An axis that holds `values` with some room.
    pub fn spanning(label: &str, format: AxisFormat, values: impl IntoIterator<Item = f64>) -> Self {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        for value in values.into_iter().filter(|value| value.abs() <= LARGEST) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let least = match format {
            AxisFormat::Percent | AxisFormat::Points => 0.02,
            _ => 1e-9,
        };
        let least = 1e-6_f64.mul_add(low.abs().max(high.abs()), least);
        let room = (0.06 * (high - low)).max(least);
        let (floor, ceiling) = (low >= 0.0, high <= 1.0);
        low -= room;
        high += room;
        if format == AxisFormat::Percent {
            // No accuracy lies outside; only the marks need a little room.
            low = if floor { low.max(-0.02) } else { low };
            high = if ceiling { high.min(1.02) } else { high };
        }
        Self { label: label.to_owned(), low, high, format }
    }

    /// Steps on a logarithmic scale, from 0 to the last of some.
    pub fn log_steps(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().filter(|value| value.abs() <= LARGEST);
        let last = values.fold(1.0, f64::max);
        Self {
            label: label.to_owned(),
            low: place_step(0.0) - 0.1,
            high: place_step(last) + 0.1,
            format: AxisFormat::Steps,
        }
    }

    /// Where a value lies between `low` and `high`.
    pub fn place(&self, value: f64) -> f64 {
        match self.format {
            AxisFormat::Steps => place_step(value),
            _ => value,
        }
    }

    /// Steps with a tick: 0, and powers of ten.
    pub(super) fn step_ticks(&self) -> Vec<f64> {
        let powers = (0..=self.high.clamp(0.0, 12.0) as i32).map(|power| 10_f64.powi(power));
        let powers: Vec<f64> = powers.collect();
        let every = powers.len().div_ceil(6).max(1);
        let mut ticks = vec![0.0];
        ticks.extend(powers.into_iter().step_by(every));
        ticks
    }

    /// From the first of some steps to the last.
    pub fn steps(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let mut axis = Self::spanning(label, AxisFormat::Plain, values);
        if axis.low < 0.0 {
            axis.low = -0.02 * axis.high.max(1e-9);
        }
        axis
    }

    /// A value as text.
    pub fn text(&self, value: f64) -> String {
        let span = self.high - self.low;
        match self.format {
            AxisFormat::Hidden => String::new(),
            AxisFormat::Steps => step_text(value),
            AxisFormat::Percent => format!("{}%", plain(100.0 * value, 100.0 * span)),
            AxisFormat::Points => {
                let text = plain(100.0 * value, 100.0 * span);
                if value > 0.0 && text != "0" { format!("+{text}") } else { text }
            }
            AxisFormat::Plain => plain(value, span),
        }
    }
}

/// The logarithm; 0 lies half a power of ten before 1.
fn place_step(step: f64) -> f64 {
    if step >= 1.0 { step.log10() } else { 0.5 * (step.max(0.0) - 1.0) }
}

/// `1k` for 1000.
fn step_text(step: f64) -> String {
    match step {
        s if s >= 1e6 => format!("{}M", s / 1e6),
        s if s >= 1e3 => format!("{}k", s / 1e3),
        s => s.to_string(),
    }
}

/// The least of 1, 2 or 5 times a power of ten that is not below `least`. Ticks are that far apart, or farther.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|factor| factor * power >= least);
    factor.unwrap_or(10.0) * power
}

/// A number with as many digits as ticks over a span of this size need.
fn plain(value: f64, span: f64) -> String {
    let step = nice_step(span.abs().max(1e-12) / 7.0);
    let digits = (-step.log10() - 1e-9).ceil().clamp(0.0, 6.0) as usize;
    let text = format!("{value:.digits$}");
    // Ticks are sums of steps, so that zero may come with a sign.
    let zero = text.trim_start_matches('-').chars().all(|c| "0.".contains(c));
    if zero {
        return "0".to_owned();
    }
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_stay_between_nothing_and_all() {
        let axis = Axis::spanning("accuracy", AxisFormat::Percent, [0.0, 0.5, 1.0]);
        assert_eq!((axis.low, axis.high), (-0.02, 1.02));
        assert_eq!(axis.text(0.25), "25%");
        let narrow = Axis::spanning("accuracy", AxisFormat::Percent, [0.91, 0.93]);
        assert!(narrow.low > 0.88 && narrow.high < 0.96);
        assert_eq!(narrow.text(0.92), "92%");
    }

    #[test]
    fn what_is_no_number_does_not_count() {
        let axis = Axis::spanning("x", AxisFormat::Plain, [f64::NAN, 2.0, f64::INFINITY, 4.0]);
        assert!(axis.low > 1.8 && axis.high < 4.2);
        let huge = Axis::spanning("x", AxisFormat::Percent, [1e308, -1e308, 0.5]);
        assert!(huge.low > 0.0 && huge.high < 1.0);
        let empty = Axis::spanning("x", AxisFormat::Plain, []);
        assert!(empty.low < empty.high);
        let same = Axis::spanning("x", AxisFormat::Plain, [3.0, 3.0]);
        assert!(same.low < 3.0 && same.high > 3.0);
    }

    #[test]
    fn steps_are_places_of_their_logarithm_behind_zero() {
        let axis = Axis::log_steps("step", [0.0, 25.0, 1000.0, f64::INFINITY]);
        assert_eq!([0.0, 1.0, 100.0].map(|step| axis.place(step)), [-0.5, 0.0, 2.0]);
        assert!(axis.low < -0.5 && axis.high > 3.0 && axis.high < 3.2);
        assert_eq!(axis.step_ticks(), [0.0, 1.0, 10.0, 100.0, 1000.0]);
        assert_eq!([0.0, 10.0, 1000.0, 5e6].map(|step| axis.text(step)), ["0", "10", "1k", "5M"]);
    }

    #[test]
    fn texts_have_the_digits_their_span_needs() {
        assert_eq!(plain(-1e-18, 1.0), "0");
        assert_eq!(plain(-0.4, 1.0), "\u{2212}0.4");
        assert_eq!(plain(1000.0, 5000.0), "1000");
        assert_eq!(plain(0.015, 0.03), "0.015");
        // Ticks 0.05 apart.
        assert_eq!([0.05, 0.1, 0.15].map(|tick| plain(tick, 0.25)), ["0.05", "0.10", "0.15"]);
    }
}
