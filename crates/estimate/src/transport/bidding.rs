use super::problem::Problem;
use multiversion::multiversion;

/// Classes that are compared side by side, so that they fit vector registers.
const LANES: usize = 32;

/// Rows read before bidding gives up, per image: enough for outputs of networks; price wars are settled in the tree instead.
const ROWS_PER_IMAGE: usize = 20;

/// Images in the class that suits them best at the prices of the classes.
pub(super) struct Bids {
    /// Price of each class, never negative.
    pub(super) prices: Vec<f64>,
    /// Images of each class.
    pub(super) members: Vec<Vec<u32>>,
}

/// Raises the prices of classes with too many images until most are gone.
///
/// A class with more images than places raises its price until only those it has places for still prefer it, as far as it can
/// without losing more. The others move to what is best for them now. Every image is at all times where `p - price` is largest.
pub(super) fn bid(problem: &Problem) -> Bids {
    let mut market = Market::new(problem);
    let mut left = problem.images() * ROWS_PER_IMAGE;
    let mut queue: std::collections::VecDeque<usize> =
        (0..problem.classes()).filter(|&class| market.is_crowded(class)).collect();
    while let Some(class) = queue.pop_front() {
        if !market.is_crowded(class) {
            continue;
        }
        let rows = market.bids.members[class].len();
        if rows > left {
            break;
        }
        left -= rows;
        for image in market.raise(class) {
            let target = market.best_class(image);
            market.bids.members[target].push(image);
            if market.bids.members[target].len() == problem.places()[target] + 1 {
                queue.push_back(target);
            }
        }
    }
    market.bids
}

struct Market<'a> {
    problem: &'a Problem<'a>,
    bids: Bids,
}

impl<'a> Market<'a> {
    /// All prices zero and every image in its likeliest class.
    fn new(problem: &'a Problem<'a>) -> Self {
        let mut market = Self {
            problem,
            bids: Bids { prices: vec![0.0; problem.classes()], members: vec![Vec::new(); problem.classes()] },
        };
        for image in 0..problem.images() as u32 {
            let class = market.best_class(image);
            market.bids.members[class].push(image);
        }
        market
    }

    fn is_crowded(&self, class: usize) -> bool {
        self.bids.members[class].len() > self.problem.places()[class]
    }

    /// The class where `p - price` is largest; of several, the one with most room.
    fn best_class(&self, image: u32) -> usize {
        let row = self.problem.row(image as usize);
        let prices = &self.bids.prices;
        let worth = largest_worth(row, prices);
        let mut best = None;
        for start in (0..row.len()).step_by(LANES) {
            let end = (start + LANES).min(row.len());
            if !has_worth(&row[start..end], &prices[start..end], worth) {
                continue;
            }
            for class in (start..end).filter(|&class| row[class] - prices[class] == worth) {
                if best.is_none_or(|best| self.room(class) > self.room(best)) {
                    best = Some(class);
                }
            }
        }
        best.unwrap_or(0)
    }

    fn room(&self, class: usize) -> isize {
        self.problem.places()[class] as isize - self.bids.members[class].len() as isize
    }

    /// Raises the price of a crowded class and gives the images that have to leave.
    fn raise(&mut self, class: usize) -> Vec<u32> {
        let members = std::mem::take(&mut self.bids.members[class]);
        let mut ties: Vec<(f64, u32)> =
            members.into_iter().map(|image| (self.attachment(image, class), image)).collect();
        ties.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let places = self.problem.places()[class];
        let leaving = ties.len() - places;
        // Up to here the last image that stays still prefers to stay; a class without places has to exceed all.
        let rise = ties[leaving.min(ties.len() - 1)].0;
        if rise.is_finite() {
            self.bids.prices[class] += rise.max(0.0);
        }
        self.bids.members[class] = ties[leaving..].iter().map(|&(_, image)| image).collect();
        ties.truncate(leaving);
        ties.into_iter().map(|(_, image)| image).collect()
    }

    /// By how much an image prefers `class` to the best of the others; infinite where there is no other.
    fn attachment(&self, image: u32, class: usize) -> f64 {
        let row = self.problem.row(image as usize);
        let prices = &self.bids.prices;
        let (below, above) = (largest_worth(&row[..class], &prices[..class]), class + 1);
        let others = below.max(largest_worth(&row[above..], &prices[above..]));
        row[class] - prices[class] - others
    }
}

/// Whether some `p - price` is this one; of a few classes, without a branch for each.
fn has_worth(row: &[f64], prices: &[f64], worth: f64) -> bool {
    row.iter().zip(prices).fold(false, |found, (p, price)| found | (p - price == worth))
}

/// The largest `p - price`; minus infinity of nothing.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(super) fn largest_worth(row: &[f64], prices: &[f64]) -> f64 {
    let larger = |a: f64, b: f64| if b > a { b } else { a };
    let (row_lanes, row_tail) = row.as_chunks::<LANES>();
    let (price_lanes, price_tail) = prices.as_chunks::<LANES>();
    let mut best = [f64::NEG_INFINITY; LANES];
    for (p, price) in row_lanes.iter().zip(price_lanes) {
        for lane in 0..LANES {
            best[lane] = larger(best[lane], p[lane] - price[lane]);
        }
    }
    let tail = row_tail.iter().zip(price_tail).map(|(p, price)| p - price);
    best.into_iter().chain(tail).fold(f64::NEG_INFINITY, larger)
}
