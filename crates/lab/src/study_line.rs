use flipcast::estimate::{AccuracyFit, AdaptedFit, Estimate, Signals, StepsSeen};

const LEVEL: f64 = 0.9;

/// One sample of the production study, as a line of CSV.
pub struct StudyLine<'a> {
    /// Which split of the images.
    pub seed: u64,
    /// The corruption.
    pub shift: &'a str,
    /// Its severity, 0 for images as they are.
    pub severity: u8,
    /// Name of the class shares.
    pub shares: &'a str,
    /// In which order images came.
    pub order: &'a str,
    /// What was seen of them.
    pub signals: &'a Signals,
    /// Accuracies of the source model and of the second look, NaN where that is not what adapting begins from.
    pub truths: [f64; 2],
    /// Whether the order was found to be bursty.
    pub bursts: bool,
}

impl StudyLine<'_> {
    /// Names of the columns.
    pub const HEADER: &'static str = "seed,shift,severity,shares,order,images,truth,estimate,low,high,any_shares,usual_shares,transport,bursts,flags,\
         second_truth,second_estimate,second_low,second_high,second_flags";

    /// The line, with the estimates of both looks.
    pub fn text(&self, fit: &AccuracyFit, adapted_fit: &AdaptedFit) -> String {
        let Self { seed, shift, severity, shares, order, signals, truths: [truth, second_truth], bursts } = self;
        let opinions = fit.opinions(signals);
        let estimate = fit.estimate(signals, LEVEL);
        let first = [
            *truth,
            estimate.accuracy,
            estimate.low,
            estimate.high,
            opinions.any_shares,
            opinions.usual_shares,
            signals.transport,
        ];
        // Nothing adapts, so that the adapted model is the second look.
        let steps = StepsSeen { flips: 0.0, images: signals.looked_at };
        let second = adapted_fit.estimate(fit, signals, &steps, LEVEL);
        let of_second = [*second_truth, second.accuracy, second.low, second.high];
        let join = |numbers: &[f64]| {
            let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:.5}")).collect();
            numbers.join(",")
        };
        let names = |estimate: &Estimate| estimate.flags.iter().map(|flag| flag.name()).collect::<Vec<_>>().join(" ");
        format!(
            "{seed},{shift},{severity},{shares},{order},{},{},{},{},{},{}",
            signals.images,
            join(&first),
            u8::from(*bursts),
            names(&estimate),
            join(&of_second),
            names(&second)
        )
    }
}
