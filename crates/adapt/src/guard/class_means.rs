use crate::AdaptError;
use std::collections::VecDeque;

/// Where the source model puts each class in its embedding.
///
/// *Idea.* A model that still tells classes apart puts images of a predicted class where the source model put that class.
///
/// *Formula.* Per class `c` the mean `m_c` of the embeddings the source model predicts as `c`. Distances are measured in
/// `s = sqrt(mean over pairs of |m_a - m_b|^2)`, from the variance of the means: `s^2 = 2 C/(C - 1) * mean_c |m_c - mean m|^2`.
/// The drift of a window is `sqrt(sum_c n_c (|x_c - m_c|^2 - v_c / n_c) / sum_c n_c) / s`, over the classes with at least two
/// images, `x_c` and `v_c` being the mean and variance of their embeddings: the second term removes what a mean
/// of few images is off by chance.
///
/// *Reference.* After Hoang et al., "Persistent Test-time Adaptation in Recurring Testing Scenarios", NeurIPS 2024.
///
/// *Departures from the reference.* Plain means and a distance in units of the classes' own, instead of a divergence of running
/// Gaussians.
#[derive(Clone, Debug)]
pub struct ClassMeans {
    dims: usize,
    /// One mean per class with images.
    means: Vec<Option<Vec<f64>>>,
    /// Root mean square distance between two means.
    scale: f64,
}

impl ClassMeans {
    /// Means of `embeddings`, rows of `dims` values, by predicted class. Needs two classes with different means.
    ///
    /// # Panics
    /// If there is not one class per row.
    pub fn fit(embeddings: &[f32], dims: usize, classes: &[usize], num_classes: usize) -> Result<Self, AdaptError> {
        check_rows(embeddings, dims, classes);
        let mut means = vec![None; num_classes];
        for (class, rows) in by_class(embeddings.chunks_exact(dims.max(1)), classes, num_classes) {
            means[class] = Some(mean(&rows, dims));
        }
        let found: Vec<&Vec<f64>> = means.iter().flatten().collect();
        let count = found.len() as f64;
        let mut centre = vec![0.0; dims];
        for m in &found {
            for (sum, x) in centre.iter_mut().zip(m.iter()) {
                *sum += x / count;
            }
        }
        let spread: f64 = found.iter().map(|m| square_distance(m, &centre)).sum();
        let scale = (2.0 * spread / (count - 1.0)).sqrt();
        if found.len() < 2 || scale <= 0.0 || !scale.is_finite() {
            let found = if scale > 0.0 { count } else { count.min(1.0) };
            AdaptError::unless(false, "classes with different mean embeddings", found, "at least 2")?;
        }
        Ok(Self { dims, means, scale })
    }

    /// Length of an embedding.
    pub fn dims(&self) -> usize {
        self.dims
    }

    fn drift<'a>(&self, rows: impl Iterator<Item = &'a [f32]>, classes: &[usize]) -> Option<f64> {
        let (mut moved, mut images) = (0.0, 0.0);
        for (class, rows) in by_class(rows, classes, self.means.len()) {
            let Some(home) = &self.means[class] else {
                continue;
            };
            if rows.len() < 2 {
                continue;
            }
            let count = rows.len() as f64;
            let here = mean(&rows, self.dims);
            let spread = rows.iter().flat_map(|row| {
                let pairs = row.iter().zip(&here);
                pairs.map(|(&x, m)| (f64::from(x) - m).powi(2))
            });
            let variance = spread.sum::<f64>() / (count - 1.0);
            moved += count * (square_distance(&here, home) - variance / count);
            images += count;
        }
        (images > 0.0).then(|| (moved / images).max(0.0).sqrt() / self.scale)
    }
}

/// The drift of the last images of a stream from [`ClassMeans`].
#[derive(Debug)]
pub struct DriftMeter {
    means: ClassMeans,
    window: usize,
    rows: VecDeque<Vec<f32>>,
    classes: VecDeque<usize>,
}

impl DriftMeter {
    /// A meter that looks back on `window` images.
    pub fn new(means: ClassMeans, window: usize) -> Self {
        Self { means, window, rows: VecDeque::new(), classes: VecDeque::new() }
    }

    /// Adds embeddings and the adapting model's classes of the same images. Gives the drift of the window, if any known class
    /// has two images in it.
    ///
    /// # Panics
    /// If the embeddings are not as long as those the means were fitted to, or there is not one class per embedding.
    pub fn observe(&mut self, embeddings: &[f32], classes: &[usize]) -> Option<f64> {
        check_rows(embeddings, self.means.dims, classes);
        for (row, &class) in embeddings.chunks_exact(self.means.dims).zip(classes) {
            if self.rows.len() == self.window {
                self.classes.pop_front();
            }
            // The memory of the row that leaves is used for the one that comes.
            let mut memory =
                if self.rows.len() == self.window { self.rows.pop_front().unwrap_or_default() } else { Vec::new() };
            memory.clear();
            memory.extend_from_slice(row);
            self.rows.push_back(memory);
            self.classes.push_back(class);
        }
        let classes = self.classes.make_contiguous();
        self.means.drift(self.rows.iter().map(Vec::as_slice), classes)
    }

    /// Forgets the window.
    pub fn forget_window(&mut self) {
        self.rows.clear();
        self.classes.clear();
    }
}

fn check_rows(embeddings: &[f32], dims: usize, classes: &[usize]) {
    assert!(dims > 0, "an embedding has values");
    let rows = classes.len();
    assert_eq!(embeddings.len(), rows * dims, "one embedding per class");
}

/// The rows of every class that has any, in the order of classes. Classes the model does not have are left out.
fn by_class<'a>(
    rows: impl Iterator<Item = &'a [f32]>,
    classes: &[usize],
    num_classes: usize,
) -> impl Iterator<Item = (usize, Vec<&'a [f32]>)> {
    let mut grouped = vec![Vec::new(); num_classes];
    for (row, &class) in rows.zip(classes) {
        if let Some(group) = grouped.get_mut(class) {
            group.push(row);
        }
    }
    let groups = grouped.into_iter().enumerate();
    groups.filter(|(_, rows)| !rows.is_empty())
}

fn mean(rows: &[&[f32]], dims: usize) -> Vec<f64> {
    let mut mean = vec![0.0; dims];
    for row in rows {
        for (sum, &x) in mean.iter_mut().zip(row.iter()) {
            *sum += f64::from(x);
        }
    }
    for sum in &mut mean {
        *sum /= rows.len() as f64;
    }
    mean
}

fn square_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum()
}
