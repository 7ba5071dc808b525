use super::bidding::{bid, largest_worth};
use super::plan::Plan;
use super::problem::Problem;
use super::tree::Tree;

/// An image that could gain no more than this is best off; the rest is rounding.
const LEAST_GAIN: f64 = 1e-13;

/// Images that are looked at before the one that gains most may move.
const BLOCK: usize = 4;

/// A best plan: mass one from each image, the capacity into each class, the largest sum of probabilities.
///
/// *Idea.* At the right prices every image sits where its probability less the price is largest, and every class holds its
/// capacity. Bidding finds prices that are nearly right, for whole images. From there on the plan is a spanning tree of images and classes, whose prices
/// leave nobody in the tree a wish; an image that prefers a class it is not joined with gets the edge, and another edge runs empty and goes.
/// When no image gains by a move, the plan is a best one.
/// *Formula.* Maximises `sum x_ik p_ik` over `x >= 0` with `sum_k x_ik = 1` and `sum_i x_ik = capacity_k`.
/// *Reference.* Ahuja, Magnanti and Orlin, "Network flows", 1993, chapters 11 (network simplex) and 12 (auctions).
/// *Departures from the reference.* Masses are whole multiples of `2^-36` of an image, so capacities are met exactly.
pub(crate) fn solve(problem: &Problem) -> Plan {
    let mut tree = Tree::new(problem, bid(problem));
    let images = problem.images();
    let (mut next, mut content) = (0, 0);
    while content < images {
        let (mut most, mut mover) = (LEAST_GAIN, None);
        for _ in 0..BLOCK.min(images) {
            let worth = largest_worth(problem.row(next), tree.prices());
            let gain = worth - tree.worth(next);
            if gain > most {
                (most, mover) = (gain, Some((next, worth)));
            }
            next = (next + 1) % images;
        }
        content += BLOCK;
        if let Some((image, worth)) = mover {
            let pairs = problem.row(image).iter().zip(tree.prices());
            let class = pairs.into_iter().position(|(p, price)| p - price == worth);
            tree.enter(image, class.expect("the largest worth is that of a class"));
            content = 0;
        }
    }
    let plan = Plan::new(problem, tree.masses(), tree.prices());
    debug_assert!(plan.is_proven(), "the plan's value {} may be {} below the best", plan.value, plan.gap);
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
        assert!(plan.is_proven() && plan.gap > -1e-12, "{}", plan.gap);
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
    fn price_wars_end_in_trees() {
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
