use super::flow::Flow;
use multiversion::multiversion;

/// Finds cheapest paths between classes; keeps its tables from one search to the next.
pub(super) struct PathSearch {
    /// Probability lost on the best known path to each class.
    lost: Vec<f64>,
    /// The class before each class on that path.
    before: Vec<u32>,
    /// Zero for classes still open, infinite for those whose path is final.
    closed: Vec<f64>,
    order: Vec<usize>,
}

impl PathSearch {
    pub(super) fn new(classes: usize) -> Self {
        Self { lost: vec![0.0; classes], before: vec![0; classes], closed: vec![0.0; classes], order: Vec::new() }
    }

    /// The cheapest path from a class with excess to the nearest one with room; updates prices so that all moves still cost.
    ///
    /// Dijkstra's algorithm on `p_a - p_b` corrected by prices, which is never negative.
    pub(super) fn find(&mut self, flow: &mut Flow, source: usize) -> Vec<usize> {
        self.lost.fill(f64::INFINITY);
        self.closed.fill(0.0);
        self.order.clear();
        self.lost[source] = 0.0;
        let mut class = source;
        while flow.excess(class) >= 0 {
            self.closed[class] = f64::INFINITY;
            self.order.push(class);
            let start = self.lost[class];
            if let Some(losses) = flow.losses(class) {
                self.relax(class as u32, start, losses);
            }
            class = nearest(&self.lost, &flow.prices, &self.closed);
        }
        let level = flow.prices[class] + self.lost[class];
        for &passed in &self.order {
            flow.prices[passed] = level - self.lost[passed];
        }
        self.trace(source, class)
    }

    /// Shortens paths to open classes by going through `class`.
    fn relax(&mut self, class: u32, start: f64, losses: &[f64]) {
        shorten(&mut self.lost, &mut self.before, &self.closed, losses, start, class);
    }

    fn trace(&self, source: usize, target: usize) -> Vec<usize> {
        let mut path = vec![target];
        let mut class = target;
        while class != source {
            class = self.before[class] as usize;
            path.push(class);
        }
        path.reverse();
        path
    }
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn shorten(lost: &mut [f64], before: &mut [u32], closed: &[f64], losses: &[f64], start: f64, class: u32) {
    let known = lost.iter_mut().zip(before).zip(closed);
    for (((lost, before), closed), loss) in known.zip(losses) {
        let through = start + loss;
        let better = through + closed < *lost;
        *before = if better { class } else { *before };
        *lost = if better { through } else { *lost };
    }
}

/// The open class with the smallest loss corrected by its price, the first of several.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn nearest(lost: &[f64], prices: &[f64], closed: &[f64]) -> usize {
    const LANES: usize = 16;
    let key = |class: usize| lost[class] + prices[class] + closed[class];
    let whole = lost.len() / LANES * LANES;
    let mut smallest = [f64::INFINITY; LANES];
    for start in (0..whole).step_by(LANES) {
        let (lost, prices, closed) =
            (&lost[start..start + LANES], &prices[start..start + LANES], &closed[start..start + LANES]);
        for k in 0..LANES {
            let key = lost[k] + prices[k] + closed[k];
            smallest[k] = if key < smallest[k] { key } else { smallest[k] };
        }
    }
    let smallest = smallest.into_iter().fold(f64::INFINITY, f64::min);
    let smallest = (whole..lost.len()).map(key).fold(smallest, f64::min);
    (0..lost.len()).position(|class| key(class) == smallest).unwrap_or(0)
}
