use super::bidding::bid;
use super::capacity::{UNIT, rounded};
use super::flow::Flow;
use super::path::PathSearch;
use super::plan::Plan;
use super::problem::Problem;

/// The distance to the proven bound that rounding may leave, relative to the value and absolutely.
const GAP: (f64, f64) = (1e-9, 1e-12);

/// A best plan: mass one from each image, the capacity into each class, the largest sum of probabilities.
///
/// *Idea.* At the right prices every image sits where its probability less the price is largest, and every class holds its
/// capacity. Bidding finds prices that are nearly right; then what is too much in a class moves along the cheapest chain of
/// exchanges to a class with room, which keeps every image best off at prices that rise along the way.
/// *Formula.* Maximises `sum x_ik p_ik` over `x >= 0` with `sum_k x_ik = 1` and `sum_i x_ik = capacity_k`. The loss of a step
/// from class a to b is `min p_ia - p_ib` over the images in a, so a search visits classes, not images.
/// *Reference.* Ahuja, Magnanti and Orlin, "Network flows", 1993, chapters 9 (successive shortest paths) and 12 (auctions).
/// *Departures from the reference.* Masses are whole multiples of `2^-36` of an image, so capacities are met exactly. Capacities are
/// first rounded to whole images and then refined bit by bit: every mass is a multiple of the present granule, no class is off
/// by more than two, and so one or two paths settle a source. Real capacities at once would move mass in ever smaller crumbs.
pub(crate) fn solve(problem: &Problem) -> Plan {
    let mut flow = Flow::new(problem, bid(problem));
    let mut search = PathSearch::new(problem.classes());
    let mut granule = UNIT;
    while granule > 0 {
        flow.aim(&rounded(problem.capacities(), granule));
        for source in 0..problem.classes() {
            while flow.excess(source) > 0 {
                let path = search.find(&mut flow, source);
                flow.push(&path);
            }
        }
        granule /= 2;
    }
    let plan = Plan::new(problem, flow.masses(), &flow.prices);
    debug_assert!(
        plan.gap <= GAP.0 * plan.value + GAP.1,
        "the plan's value {} may be {} below the best",
        plan.value,
        plan.gap
    );
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outputs;
    use crate::testing::labelled_outputs;
    use crate::transport::ProbRows;
    use flipcast_ground::SplitMix64;

    /// Holds a plan to its conditions: mass one per image, the capacity per class, and no better plan possible.
    fn check(outputs: &Outputs, shares: &[f64]) {
        let images: Vec<usize> = (0..outputs.images()).collect();
        let probs = ProbRows::new(outputs, &images);
        let plan = solve(&Problem::of_all(&probs, shares));
        let mut of_image = vec![0.0; outputs.images()];
        let mut of_class = vec![0.0; outputs.classes()];
        for share in &plan.shares {
            assert!(share.mass > 0.0);
            of_image[share.image] += share.mass;
            of_class[share.class] += share.mass;
        }
        assert!(of_image.iter().all(|mass| *mass == 1.0));
        let count = outputs.images() as f64;
        for (found, share) in of_class.iter().zip(shares) {
            assert!((found - share * count).abs() < 1e-6, "{found}, {share}");
        }
        assert!(plan.gap.abs() <= GAP.0 * plan.value + GAP.1, "{}", plan.gap);
    }

    fn drawn_shares(random: &mut SplitMix64, classes: usize, empty: f64) -> Vec<f64> {
        let mut weights: Vec<f64> = (0..classes)
            .map(|_| match random.uniform() {
                drawn if drawn < empty => 0.0,
                drawn => drawn,
            })
            .collect();
        weights[classes / 2] += 0.1;
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn plans_meet_their_capacities_and_prove_themselves() {
        let mut random = SplitMix64::new(31);
        for (images, classes) in [(1, 1), (1, 9), (7, 30), (50, 2), (120, 12), (300, 75)] {
            for separation in [0.0, 1.0, 4.0, 40.0] {
                let (outputs, _) = labelled_outputs(&mut random, images, classes, separation);
                check(&outputs, &vec![1.0 / classes as f64; classes]);
                check(&outputs, &drawn_shares(&mut random, classes, 0.0));
                check(&outputs, &drawn_shares(&mut random, classes, 0.6));
            }
        }
    }

    #[test]
    fn ties_everywhere_are_settled() {
        let mut random = SplitMix64::new(32);
        for classes in [2, 7, 40] {
            // Three different logits only, then none.
            for different in [3, 1] {
                let logits = (0..150 * classes).map(|_| random.below(different) as f32);
                let outputs = Outputs::new(logits.collect(), classes).unwrap();
                check(&outputs, &vec![1.0 / classes as f64; classes]);
                check(&outputs, &drawn_shares(&mut random, classes, 0.5));
            }
        }
    }

    #[test]
    fn one_hot_rows_are_settled() {
        let mut random = SplitMix64::new(33);
        for classes in [3, 25] {
            let mut logits = vec![0.0; 200 * classes];
            for row in logits.chunks_exact_mut(classes) {
                // Mostly the first classes, so that the others have to be filled at full cost.
                row[random.below(classes).min(random.below(classes))] = 1e6;
            }
            let outputs = Outputs::new(logits, classes).unwrap();
            check(&outputs, &vec![1.0 / classes as f64; classes]);
            check(&outputs, &drawn_shares(&mut random, classes, 0.5));
        }
    }

    #[test]
    fn price_wars_end_in_paths() {
        // Hundreds of images compete for two classes they all want alike; bidding alone would take small steps for long.
        let mut random = SplitMix64::new(34);
        let mut logits = Vec::new();
        for _ in 0..300 {
            logits.extend([9.0, 9.0 + 1e-4 * random.uniform() as f32]);
            logits.extend((0..18).map(|_| 1e-4 * random.uniform() as f32));
        }
        let outputs = Outputs::new(logits, 20).unwrap();
        check(&outputs, &[0.05; 20]);
        check(&outputs, &drawn_shares(&mut random, 20, 0.3));
    }
}
