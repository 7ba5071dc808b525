use super::problem::Problem;

/// Rows read before bidding gives up, per image: enough for outputs of networks; price wars are settled by paths instead.
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
    problem: &'a Problem,
    bids: Bids,
}

impl<'a> Market<'a> {
    /// All prices zero and every image in its likeliest class.
    fn new(problem: &'a Problem) -> Self {
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
        let mut best = 0;
        let mut best_worth = f64::NEG_INFINITY;
        for (class, (p, price)) in row.iter().zip(&self.bids.prices).enumerate() {
            let worth = p - price;
            if worth > best_worth || (worth == best_worth && self.room(class) > self.room(best)) {
                best = class;
                best_worth = worth;
            }
        }
        best
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
        let worth = |from: usize, to: usize| {
            row[from..to].iter().zip(&prices[from..to]).fold(f64::NEG_INFINITY, |best, (p, price)| best.max(p - price))
        };
        let others = worth(0, class).max(worth(class + 1, row.len()));
        row[class] - prices[class] - others
    }
}
