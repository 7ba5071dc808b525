use super::bidding::Bids;
use super::capacity::UNIT;
use super::problem::Problem;

/// No node.
const NONE: u32 = u32::MAX;

/// What it costs to take mass out of a class, or into one, past all images. Moving an image from one class to another loses at most 1 and prices
/// lie between 0 and 1, so that in a best plan nothing passes.
const PENALTY: f64 = 3.0;

/// A plan as a spanning tree: images and classes are nodes, and what an image gives to a class is mass on the edge between them.
///
/// Classes that hold too much or too little hang from a root, which takes or gives what they differ by, at a [`PENALTY`]. Prices follow
/// from the tree: along every edge an image is worth its probability less the price of the class. Nodes are numbered: images, classes, root.
pub(super) struct Tree<'a> {
    problem: &'a Problem<'a>,
    parent: Vec<u32>,
    first_child: Vec<u32>,
    next_sibling: Vec<u32>,
    previous_sibling: Vec<u32>,
    depth: Vec<u32>,
    /// Mass between each node and its parent.
    mass: Vec<i64>,
    /// Whether a class that hangs from the root gives mass to it, rather than taking some.
    gives_to_root: Vec<bool>,
    /// The price of a class that hangs from the root.
    root_price: Vec<f64>,
    /// What the class of each image is worth to it: probability less price.
    worth: Vec<f64>,
    prices: Vec<f64>,
    /// Nodes still to be visited.
    stack: Vec<u32>,
}

impl<'a> Tree<'a> {
    /// Every image below its class, every class below the root.
    pub(super) fn new(problem: &'a Problem<'a>, bids: Bids) -> Self {
        let (images, classes) = (problem.images(), problem.classes());
        let nodes = images + classes + 1;
        let mut tree = Self {
            problem,
            parent: vec![NONE; nodes],
            first_child: vec![NONE; nodes],
            next_sibling: vec![NONE; nodes],
            previous_sibling: vec![NONE; nodes],
            depth: vec![0; nodes],
            mass: vec![0; nodes],
            gives_to_root: vec![true; classes],
            root_price: bids.prices,
            worth: vec![0.0; images],
            prices: vec![0.0; classes],
            stack: Vec::new(),
        };
        for (class, members) in bids.members.iter().enumerate() {
            let excess = members.len() as i64 * UNIT - problem.capacities()[class];
            let node = images + class;
            tree.gives_to_root[class] = excess >= 0;
            tree.root_price[class] += PENALTY * excess.signum() as f64;
            tree.mass[node] = excess.abs();
            tree.attach(node, tree.root());
            for &image in members {
                tree.mass[image as usize] = UNIT;
                tree.attach(image as usize, node);
            }
            tree.refresh(node);
        }
        tree
    }

    pub(super) fn prices(&self) -> &[f64] {
        &self.prices
    }

    /// What the class of `image` is worth to it.
    pub(super) fn worth(&self, image: usize) -> f64 {
        self.worth[image]
    }

    /// All masses between images and classes as `(image, class, mass)`.
    pub(super) fn masses(&self) -> Vec<(usize, usize, i64)> {
        let images = self.problem.images();
        let edge = |node: usize| {
            let (parent, mass) = (self.parent[node] as usize, self.mass[node]);
            let (image, class) = if node < images { (node, parent) } else { (parent, node) };
            (mass > 0 && parent != self.root()).then(|| (image, class - images, mass))
        };
        (0..self.root()).filter_map(edge).collect()
    }

    /// Lets `image` give to `class`, as much as the circle that this closes in the tree allows, and cuts the circle where mass ran out.
    ///
    /// Of several such places it is the last on the way around, seen from the circle's node nearest the root. Edges without mass then always lead towards the root,
    /// and no tree can come back (Cunningham, "A network simplex method", 1976).
    pub(super) fn enter(&mut self, image: usize, class: usize) {
        let class = self.problem.images() + class;
        let top = self.meeting(image, class);
        let (mut mass, mut cut, mut at_image) = (i64::MAX, image, true);
        let mut node = image;
        while node != top {
            if self.gives(node) && self.mass[node] < mass {
                (mass, cut) = (self.mass[node], node);
            }
            node = self.parent[node] as usize;
        }
        node = class;
        while node != top {
            if !self.gives(node) && self.mass[node] <= mass {
                (mass, cut, at_image) = (self.mass[node], node, false);
            }
            node = self.parent[node] as usize;
        }
        self.add(image, top, -mass);
        self.add(class, top, mass);
        let (lower, upper) = if at_image { (image, class) } else { (class, image) };
        self.hang(lower, upper, mass, cut);
        self.refresh(lower);
    }

    fn root(&self) -> usize {
        self.parent.len() - 1
    }

    /// Whether mass goes from `node` to its parent, rather than from the parent to it.
    fn gives(&self, node: usize) -> bool {
        let images = self.problem.images();
        node < images || (self.parent[node] as usize == self.root() && self.gives_to_root[node - images])
    }

    /// The node where the ways of two nodes to the root meet.
    fn meeting(&self, mut a: usize, mut b: usize) -> usize {
        while a != b {
            let lower = if self.depth[a] >= self.depth[b] { &mut a } else { &mut b };
            *lower = self.parent[*lower] as usize;
        }
        a
    }

    /// Sends `mass` more from `node` up to `top`.
    fn add(&mut self, mut node: usize, top: usize, mass: i64) {
        while node != top {
            self.mass[node] += if self.gives(node) { mass } else { -mass };
            node = self.parent[node] as usize;
        }
    }

    /// Hangs what lies below the edge over `cut` from `upper` instead, by `node`, which is in it; `mass` is on the new edge.
    fn hang(&mut self, mut node: usize, mut upper: usize, mut mass: i64, cut: usize) {
        loop {
            let above = self.parent[node] as usize;
            self.detach(node);
            self.attach(node, upper);
            std::mem::swap(&mut self.mass[node], &mut mass);
            if node == cut {
                break;
            }
            (upper, node) = (node, above);
        }
    }

    fn attach(&mut self, node: usize, parent: usize) {
        let sibling = std::mem::replace(&mut self.first_child[parent], node as u32);
        self.parent[node] = parent as u32;
        self.previous_sibling[node] = NONE;
        self.next_sibling[node] = sibling;
        if sibling != NONE {
            self.previous_sibling[sibling as usize] = node as u32;
        }
    }

    fn detach(&mut self, node: usize) {
        let (previous, next) = (self.previous_sibling[node], self.next_sibling[node]);
        match previous {
            NONE => self.first_child[self.parent[node] as usize] = next,
            _ => self.next_sibling[previous as usize] = next,
        }
        if next != NONE {
            self.previous_sibling[next as usize] = previous;
        }
    }

    /// Finds depths and prices of `node` and everything below it. They are made from those of the parents, so that rounding does not
    /// add up from one change to the next.
    fn refresh(&mut self, node: usize) {
        let images = self.problem.images();
        self.stack.push(node as u32);
        while let Some(node) = self.stack.pop() {
            let node = node as usize;
            let parent = self.parent[node] as usize;
            self.depth[node] = self.depth[parent] + 1;
            if node < images {
                let class = parent - images;
                self.worth[node] = self.problem.row(node)[class] - self.prices[class];
            } else {
                let class = node - images;
                self.prices[class] = match parent < images {
                    true => self.problem.row(parent)[class] - self.worth[parent],
                    false => self.root_price[class],
                };
            }
            let mut child = self.first_child[node];
            while child != NONE {
                self.stack.push(child);
                child = self.next_sibling[child as usize];
            }
        }
    }
}
