//! Own draws have the statistics of the published generators (`stats.json`, `draws.json`).
//!
//! Over many seeds (150 at 224 pixels, 600 at 32), the z-scores of all 1,640 measures, own mean against published mean by
//! both spreads, have a root mean square of 0.95; 3.8 % lie beyond 2 and 0.55 % beyond 3, where 4.6 % and 0.27 % are
//! expected. The excess is frost at 32 pixels, whose textures are others than the published ones (own spreads over
//! pixels are 0.2 to 0.8 % smaller, |z| up to 4.5). Of the other 1,560 measures 3.3 % lie beyond 2, 0.19 % beyond 3,
//! none beyond 3.6. Philox with 10 rounds in place of 7 gives 3.9 %, 0.06 % and 3.2: the rounds make no difference.
//!
//! Three corruptions have rare draws far from the rest (a plane wave of almost no frequency shifts the whole picture),
//! so a mean and a deviation over 48 draws do not describe them: of 25 choices of 3 own seeds, 15 exceeded four such
//! deviations somewhere with 7 rounds and 20 with 10. They are held to the distribution of published draws instead.

use flipcast_corrupt::{CorruptionSet, CorruptionSpec, Severity, corrupt};
use flipcast_images::Image;
use serde_json::Value;

use crate::bank::{load_json, load_png, number};

/// The golden's groups, and the own seeds per corruption and severity.
const GROUPS: [(&str, CorruptionSet, usize, u64); 4] = [
    ("imagenet_c_224", CorruptionSet::ImageNetC, 224, 8),
    ("cifar_c_32", CorruptionSet::CifarC, 32, 48),
    ("imagenet_c_bar_224", CorruptionSet::ImageNetCBar, 224, 8),
    ("cifar10_c_bar_32", CorruptionSet::CifarCBar, 32, 48),
];

/// Corruptions with rare extreme draws.
const RARE_EXTREMES: [&str; 3] = ["single_frequency_greyscale", "cocentric_sine_waves", "checkerboard_cutout"];

/// One corruption at one severity, and what the golden says about it.
struct Cell {
    spec: CorruptionSpec,
    clean: Image,
    seeds: u64,
    golden: Value,
}

impl Cell {
    /// The measures with own seeds `0..seeds`.
    fn draws(&self, seeds: u64) -> Vec<[f64; 8]> {
        let draw = |seed| corrupt(&self.clean, &self.spec, seed, 17).expect("within the limits");
        (0..seeds).map(|seed| measure(&self.clean, &draw(seed))).collect()
    }
}

/// The cells of a golden file.
fn cells(file: &str) -> Vec<Cell> {
    let golden = load_json(file);
    let mut cells = Vec::new();
    for (group, set, side, seeds) in GROUPS {
        let clean = load_png(&format!("clean/astronaut_{side}.png"));
        for (name, severities) in golden[group].as_object().into_iter().flatten() {
            for severity in Severity::ALL {
                cells.push(Cell {
                    spec: CorruptionSpec::new(set, name, severity).expect("published names"),
                    clean: clean.clone(),
                    seeds,
                    golden: severities[format!("s{severity}")].clone(),
                });
            }
        }
    }
    cells
}

/// Channel means, channel deviations, mean absolute difference and PSNR.
fn measure(clean: &Image, corrupted: &Image) -> [f64; 8] {
    let pixels = (clean.width() * clean.height()) as f64;
    let mut row = [0.0; 8];
    for channel in 0..3 {
        let samples = || corrupted.rgb().iter().skip(channel).step_by(3).map(|&byte| f64::from(byte));
        row[channel] = samples().sum::<f64>() / pixels;
        row[3 + channel] = (samples().map(|v| (v - row[channel]).powi(2)).sum::<f64>() / pixels).sqrt();
    }
    let differences = || clean.rgb().iter().zip(corrupted.rgb()).map(|(a, b)| f64::from(a.abs_diff(*b)));
    row[6] = differences().sum::<f64>() / (3.0 * pixels);
    let squared = differences().map(|d| d * d).sum::<f64>() / (3.0 * pixels);
    row[7] = if squared == 0.0 { 60.0 } else { (10.0 * (255.0_f64.powi(2) / squared).log10()).min(60.0) };
    row
}

/// Mean and deviation over seeds of the eight measures.
fn published(cell: &Value) -> [(f64, f64); 8] {
    let triple = |key: &str, i: usize| (number(&cell[key]["mean"][i]), number(&cell[key]["sd"][i]));
    let single = |key: &str| (number(&cell[key]["mean"]), number(&cell[key]["sd"]));
    std::array::from_fn(|i| match i {
        0..3 => triple("channel_mean", i),
        3..6 => triple("channel_std", i - 3),
        6 => single("mean_abs_diff"),
        _ => single("psnr"),
    })
}

/// Mean and sample deviation of measure `i`.
fn moments(draws: &[[f64; 8]], i: usize) -> (f64, f64) {
    let count = draws.len() as f64;
    let mean = draws.iter().map(|row| row[i]).sum::<f64>() / count;
    let squares: f64 = draws.iter().map(|row| (row[i] - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

#[test]
fn draws_have_the_published_means() {
    let (mut checked, mut failures) = (0, Vec::new());
    for cell in cells("stats.json") {
        if RARE_EXTREMES.contains(&cell.spec.name) {
            continue;
        }
        let draws = cell.draws(cell.seeds);
        for (i, (mean, sd)) in published(&cell.golden).into_iter().enumerate() {
            let own = moments(&draws, i).0;
            let share = 1.0 / number(&cell.golden["seeds"]) + 1.0 / cell.seeds as f64;
            let bound = 4.0 * sd * share.sqrt() + 0.02;
            checked += 1;
            if (own - mean).abs() > bound {
                failures.push(format!("{} measure {i}: {own:.3} found, {mean:.3} +- {bound:.3} expected", cell.spec));
            }
        }
    }
    println!("{} of {checked} measures within their bounds", checked - failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The largest distance of two distribution functions (Kolmogorov and Smirnov).
fn distance(mut a: Vec<f64>, mut b: Vec<f64>) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let below = |sorted: &[f64], x: f64| sorted.partition_point(|&v| v <= x) as f64 / sorted.len() as f64;
    let points = a.iter().chain(&b);
    points.fold(0.0, |most, &x| most.max((below(&a, x) - below(&b, x)).abs()))
}

#[test]
fn rare_extremes_have_the_published_distribution() {
    const OWN: u64 = 48;
    let mut failures = Vec::new();
    let cells = cells("draws.json");
    assert_eq!(cells.len(), 20);
    for cell in cells {
        let published: Vec<Vec<f64>> = serde_json::from_value(cell.golden.clone()).expect("rows of numbers");
        // Own pictures give whole sums, the golden rounds to 4 decimals: both to the same grid.
        let grid = |v: f64| (v * 1e3).round();
        // Exceeded once in 100,000 by equal distributions: sqrt(-ln(1e-5 / 2) / 2) = 2.470.
        let share = 1.0 / OWN as f64 + 1.0 / published.len() as f64;
        let bound = 2.470 * share.sqrt();
        let draws = cell.draws(OWN);
        for i in 0..8 {
            let own = draws.iter().map(|row| grid(row[i])).collect();
            let found = distance(own, published.iter().map(|row| grid(row[i])).collect());
            if found > bound {
                failures
                    .push(format!("{} measure {i}: distance {found:.3} found, at most {bound:.3} expected", cell.spec));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
#[ignore = "needs minutes in a release build; the finding is in this file's comment"]
fn z_scores_over_many_seeds_are_standard_normal() {
    let mut scores: Vec<(f64, String)> = Vec::new();
    for cell in cells("stats.json") {
        let seeds = if cell.clean.width() == 32 { 600 } else { 150 };
        let draws = cell.draws(seeds);
        for (i, (mean, sd)) in published(&cell.golden).into_iter().enumerate() {
            let (own, own_sd) = moments(&draws, i);
            // The last term is the golden's rounding to 4 decimals.
            let variance = sd * sd / number(&cell.golden["seeds"]) + own_sd * own_sd / seeds as f64 + 1e-8 / 12.0;
            scores.push(((own - mean) / variance.sqrt(), format!("{} measure {i}", cell.spec)));
        }
    }
    scores.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    for (z, name) in scores.iter().take(20) {
        println!("{z:6.2} {name}");
    }
    scores.retain(|(_, name)| !name.contains("frost"));
    let beyond = |limit: f64| scores.iter().filter(|(z, _)| z.abs() > limit).count();
    let square = scores.iter().map(|(z, _)| z * z).sum::<f64>() / scores.len() as f64;
    println!(
        "{} measures without frost: root mean square {:.3}, {} beyond 2, {} beyond 3",
        scores.len(),
        square.sqrt(),
        beyond(2.0),
        beyond(3.0)
    );
    // Measures of a cell and of the severities of a corruption go together, so twice the expected shares are allowed.
    assert!(beyond(2.0) as f64 <= 2.0 * 0.0455 * scores.len() as f64);
    assert!(beyond(3.0) as f64 <= 2.0 * 0.0027 * scores.len() as f64);
    assert_eq!(beyond(4.5), 0);
}
