use super::forward::cut;
use super::layer::{Attention, Part, Unit};
use super::pack::{pack_rows, pack_transposed, put_column, put_row, transpose};
use super::softmax::exponentials;
use crate::gemm::{Run, panels};
use crate::lanes::{Lanes, Task};
use crate::scratch::WorkerScratch;
use crate::shared::Shared;

/// One unit, backward: with `p` the softmax, `dp = dy v'` and `ds = scale * p * (dp - sum(p * dp))`, the gradients are
/// `dq = ds k`, `dk = ds' q` and `dv = p' dy`. The last two are gathered transposed, block by block.
pub(super) struct Backward<'a> {
    pub unit: Unit<'a>,
    pub values: &'a [f32],
    pub gradient: &'a [f32],
    pub target: Shared<'a, f32>,
    pub add: bool,
    pub scratch: WorkerScratch<'a>,
}

impl Backward<'_> {
    /// Lengths of the parts of scratch.
    fn parts(attention: &Attention, lanes: usize) -> [usize; 12] {
        let (group, width, queries) = (
            attention.group,
            attention.head_channels,
            attention.queries(),
        );
        let (keys, columns) = (group.next_multiple_of(lanes), width.next_multiple_of(lanes));
        let (tokens, scores) = (width * keys, queries * keys);
        [
            tokens,
            tokens,
            group * columns,
            tokens,
            tokens,
            scores,
            scores,
            scores,
            scores,
            queries * columns,
            queries * width,
            queries * width,
        ]
    }

    /// Floats of scratch.
    pub fn floats(attention: &Attention, lanes: usize) -> usize {
        Self::parts(attention, lanes).iter().sum()
    }
}

impl Task for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { unit, .. } = self;
        let attention = unit.attention;
        let (group, width) = (attention.group, attention.head_channels);
        let (stride, columns) = (group.next_multiple_of(L::N), width.next_multiple_of(L::N));
        let [
            keys,
            values_across,
            keys_down,
            of_keys,
            of_values,
            probs,
            slopes,
            prob_panels,
            slope_panels,
            of_queries,
            queries_across,
            gradient_across,
        ] = cut(self.scratch.floats, Self::parts(attention, L::N));
        let (a_rows, c_rows) = self
            .scratch
            .offsets
            .split_at_mut(attention.queries().max(width));
        let [base, gradient_base] = unit.bases();
        let input = |part: Part, i: usize| unit.input(part, i) - base;
        let output = |i: usize| unit.output(i) - gradient_base;
        // SAFETY: `check` made sure that every token of the batch lies in all tensors; the scratch has the lengths asked
        // for, checked by cutting. Units write different tokens or different heads' channels.
        unsafe {
            let values = self.values[base..].as_ptr();
            let gradient = self.gradient[gradient_base..].as_ptr();
            let tokens = (group, width);
            pack_transposed::<L>(values, |i| input(Part::Key, i), tokens, keys.as_mut_ptr());
            let across = values_across.as_mut_ptr();
            pack_transposed::<L>(values, |i| input(Part::Value, i), tokens, across);
            pack_rows::<L>(
                values,
                |i| input(Part::Key, i),
                tokens,
                keys_down.as_mut_ptr(),
            );
            for (start, count) in unit.blocks() {
                let run = [Run::first(width)];
                for i in 0..count {
                    a_rows[i] = input(Part::Query, start + i) as u32;
                    c_rows[i] = (i * stride) as u32;
                }
                unit.panels(keys, &run, stride).multiply::<L>(
                    values,
                    &a_rows[..count],
                    probs.as_mut_ptr(),
                    &c_rows[..count],
                    false,
                );
                for (i, row) in a_rows[..count].iter_mut().enumerate() {
                    *row = output(start + i) as u32;
                }
                unit.panels(values_across, &run, stride).multiply::<L>(
                    gradient,
                    &a_rows[..count],
                    slopes.as_mut_ptr(),
                    &c_rows[..count],
                    false,
                );
                for i in 0..count {
                    let row = probs[i * stride..].as_mut_ptr();
                    let addends = unit.addends(start + i);
                    let inverse = exponentials::<L>(row, group, attention.scale, addends);
                    let rows = Rows {
                        probs: row,
                        slopes: slopes[i * stride..].as_mut_ptr(),
                        prob_panels: prob_panels.as_mut_ptr(),
                        slope_panels: slope_panels.as_mut_ptr(),
                        at: i,
                        count,
                    };
                    rows.pass::<L>(stride, inverse, attention.scale);
                }
                for i in 0..count {
                    a_rows[i] = (i * stride) as u32;
                    c_rows[i] = (i * columns) as u32;
                }
                unit.panels(keys_down, &[Run::first(group)], columns)
                    .multiply::<L>(
                        slopes.as_ptr(),
                        &a_rows[..count],
                        of_queries.as_mut_ptr(),
                        &c_rows[..count],
                        false,
                    );
                for i in 0..count {
                    let to = self.target.part(unit.input(Part::Query, start + i), width);
                    put_row::<L>(of_queries[i * columns..].as_ptr(), 1.0, to, self.add);
                }
                let block = (count, width);
                let across = queries_across.as_mut_ptr();
                transpose(values, |i| input(Part::Query, start + i), block, across);
                let across = gradient_across.as_mut_ptr();
                transpose(gradient, |i| output(start + i), block, across);
                for c in 0..width {
                    a_rows[c] = (c * count) as u32;
                    c_rows[c] = (c * stride) as u32;
                }
                let run = [Run::first(count)];
                let products = [
                    (&*slope_panels, &*queries_across, &mut *of_keys),
                    (&*prob_panels, &*gradient_across, &mut *of_values),
                ];
                for (panels, rows, sums) in products {
                    unit.panels(panels, &run, stride).multiply::<L>(
                        rows.as_ptr(),
                        &a_rows[..width],
                        sums.as_mut_ptr(),
                        &c_rows[..width],
                        start > 0,
                    );
                }
            }
            for i in 0..group {
                for (part, sums) in [(Part::Key, &*of_keys), (Part::Value, &*of_values)] {
                    let to = self.target.part(unit.input(part, i), width);
                    put_column(sums[i..].as_ptr(), stride, to, self.add);
                }
            }
        }
    }
}

/// A query's row of scores on its way back.
struct Rows {
    /// Exponentials; unchanged.
    probs: *const f32,
    /// Gradients of the probabilities; become those of the products of query and keys.
    slopes: *mut f32,
    /// Receive both, in panels of `count` rows, as row `at`.
    prob_panels: *mut f32,
    slope_panels: *mut f32,
    at: usize,
    count: usize,
}

impl Rows {
    #[inline(always)]
    unsafe fn pass<L: Lanes>(self, stride: usize, inverse: f32, scale: f32) {
        // SAFETY: the caller's rows have `stride` floats, whole vectors, and its panels hold the row.
        unsafe {
            let inverse = L::splat(inverse);
            let mut sum = L::splat(0.0);
            for c in (0..stride).step_by(L::N) {
                let p = L::mul(L::load(self.probs.add(c)), inverse);
                sum = L::fma(p, L::load(self.slopes.add(c)), sum);
            }
            let (mean, scale) = (L::splat(L::sum(sum)), L::splat(scale));
            for (first, width) in panels(0..stride, L::N) {
                for c in (first..first + width).step_by(L::N) {
                    let p = L::mul(L::load(self.probs.add(c)), inverse);
                    let slope = L::sub(L::load(self.slopes.add(c)), mean);
                    let slope = L::mul(L::mul(p, slope), scale);
                    let place = self.count * first + self.at * width + c - first;
                    L::store(self.prob_panels.add(place), p);
                    L::store(self.slope_panels.add(place), slope);
                    L::store(self.slopes.add(c), slope);
                }
            }
        }
    }
}
