use super::bidding::Bids;
use super::capacity::UNIT;
use super::problem::Problem;

/// Part of an image in a class.
#[derive(Clone, Copy)]
struct Member {
    image: u32,
    mass: i64,
}

/// Images in classes, some classes holding more than their capacity and some less.
///
/// At the prices, no mass gains by moving to another class. Once every class holds its capacity, that makes the flow a best one.
pub(super) struct Flow<'a> {
    problem: &'a Problem<'a>,
    members: Vec<Vec<Member>>,
    /// Mass above its target of each class, negative where there is room.
    excess: Vec<i64>,
    /// Of each class with images whose losses were asked for: the smallest `p_class - p_other` among its images, per other class.
    losses: Vec<Vec<f64>>,
    /// Price of each class.
    pub(super) prices: Vec<f64>,
}

impl<'a> Flow<'a> {
    pub(super) fn new(problem: &'a Problem<'a>, bids: Bids) -> Self {
        let members: Vec<Vec<Member>> = bids
            .members
            .into_iter()
            .map(|images| images.into_iter().map(|image| Member { image, mass: UNIT }).collect())
            .collect();
        Self {
            problem,
            losses: vec![Vec::new(); members.len()],
            excess: vec![0; members.len()],
            members,
            prices: bids.prices,
        }
    }

    /// Says how much mass each class shall hold from now on.
    pub(super) fn aim(&mut self, targets: &[i64]) {
        for (class, members) in self.members.iter().enumerate() {
            let load: i64 = members.iter().map(|member| member.mass).sum();
            self.excess[class] = load - targets[class];
        }
    }

    pub(super) fn classes(&self) -> usize {
        self.members.len()
    }

    /// Mass above the target, negative where there is room.
    pub(super) fn excess(&self, class: usize) -> i64 {
        self.excess[class]
    }

    /// The smallest probability lost by moving an image of `class` to each other class; `None` where there is no image.
    pub(super) fn losses(&mut self, class: usize) -> Option<&[f64]> {
        if self.members[class].is_empty() {
            return None;
        }
        if self.losses[class].is_empty() {
            let mut losses = vec![f64::INFINITY; self.classes()];
            for member in &self.members[class] {
                lower(&mut losses, self.problem.row(member.image as usize), class);
            }
            self.losses[class] = losses;
        }
        Some(&self.losses[class])
    }

    /// Moves as much mass as possible along a path of classes, from one with excess to one with room.
    pub(super) fn push(&mut self, path: &[usize]) {
        let (Some(&source), Some(&target)) = (path.first(), path.last()) else {
            return;
        };
        let steps: Vec<(usize, usize, Member)> =
            path.windows(2).map(|step| (step[0], step[1], self.cheapest(step[0], step[1]))).collect();
        let mass = steps
            .iter()
            .map(|(_, _, member)| member.mass)
            .fold(self.excess[source].min(-self.excess[target]), i64::min);
        for (from, to, member) in steps {
            self.take(from, member.image, mass);
            self.give(to, member.image, mass);
        }
        self.excess[source] -= mass;
        self.excess[target] += mass;
    }

    /// All masses as `(image, class, mass)`.
    pub(super) fn masses(&self) -> Vec<(usize, usize, i64)> {
        let of_class = |(class, members): (usize, &Vec<Member>)| {
            members.iter().map(move |member| (member.image as usize, class, member.mass)).collect::<Vec<_>>()
        };
        self.members.iter().enumerate().flat_map(of_class).collect()
    }

    /// The image that loses least by moving; of several, one with most mass.
    fn cheapest(&self, from: usize, to: usize) -> Member {
        let mut best = self.members[from][0];
        let mut best_loss = f64::INFINITY;
        for member in &self.members[from] {
            let row = self.problem.row(member.image as usize);
            let loss = row[from] - row[to];
            if loss < best_loss || (loss == best_loss && member.mass > best.mass) {
                best = *member;
                best_loss = loss;
            }
        }
        best
    }

    fn give(&mut self, class: usize, image: u32, mass: i64) {
        let members = &mut self.members[class];
        if let Some(member) = members.iter_mut().find(|member| member.image == image) {
            member.mass += mass;
            return;
        }
        members.push(Member { image, mass });
        if !self.losses[class].is_empty() {
            lower(&mut self.losses[class], self.problem.row(image as usize), class);
        }
    }

    fn take(&mut self, class: usize, image: u32, mass: i64) {
        let members = &mut self.members[class];
        let position =
            members.iter().position(|member| member.image == image).expect("a path step names a member of its class");
        members[position].mass -= mass;
        if members[position].mass == 0 {
            members.swap_remove(position);
            self.forget(class, image);
        }
    }

    /// Finds new smallest losses where an image that left had the old ones.
    fn forget(&mut self, class: usize, image: u32) {
        if self.members[class].is_empty() {
            self.losses[class] = Vec::new();
        }
        let gone = self.problem.row(image as usize);
        let members = &self.members[class];
        for (other, loss) in self.losses[class].iter_mut().enumerate() {
            if gone[class] - gone[other] > *loss {
                continue;
            }
            let old = std::mem::replace(loss, f64::INFINITY);
            for member in members {
                let row = self.problem.row(member.image as usize);
                *loss = loss.min(row[class] - row[other]);
                if *loss <= old {
                    break;
                }
            }
        }
    }
}

/// Lowers losses to those of an image where its are smaller.
fn lower(losses: &mut [f64], row: &[f64], class: usize) {
    let own = row[class];
    for (loss, p) in losses.iter_mut().zip(row) {
        *loss = loss.min(own - p);
    }
}
