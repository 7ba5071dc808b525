use super::layer::{Attention, Part, Unit};
use super::pack::{pack_rows, pack_transposed, put_row};
use super::softmax::exponentials;
use crate::gemm::{Rows, Run, Store};
use crate::lanes::{Lanes, Task};
use crate::shared::Shared;
use crate::team::{Scratch, cut};

/// One unit, backward: with `p` the softmax, `dp = dy v'` and `ds = scale * p * (dp - sum(p * dp))`, the gradients are
/// `dq = ds k`, `dk = ds' q` and `dv = p' dy`. The last two read `ds` and `p` down their columns and are gathered over blocks
/// of queries.
pub(super) struct Backward<'a> {
    pub unit: Unit<'a>,
    pub values: &'a [f32],
    pub gradient: &'a [f32],
    pub target: Shared<'a, f32>,
    pub accumulate: bool,
    pub scratch: Scratch<'a>,
}

impl Backward<'_> {
    /// Lengths of the parts of scratch.
    fn parts(attention: &Attention, lanes: usize) -> [usize; 10] {
        let (group, width, queries) = (attention.group, attention.head_channels, attention.queries());
        let (keys, columns) = (group.next_multiple_of(lanes), width.next_multiple_of(lanes));
        let (tokens, block, scores) = (group * columns, queries * columns, queries * keys);
        [width * keys, width * keys, tokens, block, block, scores, scores, block, tokens, tokens]
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
            keys_across,
            values_across,
            keys,
            queries,
            gradients,
            probs,
            slopes,
            query_gradients,
            key_gradients,
            value_gradients,
        ] = cut(self.scratch.floats, Self::parts(attention, L::N));
        let (a_rows, c_rows) = self.scratch.offsets.split_at_mut(group);
        let [base, gradient_base] = unit.bases();
        let input = |part: Part, i: usize| unit.input(part, i) - base;
        let output = |i: usize| unit.output(i) - gradient_base;
        // SAFETY: `check` made sure that every token of the batch lies in all tensors; the scratch has the lengths asked
        // for, checked by cutting. Units write different tokens or different heads' channels.
        unsafe {
            let values = self.values[base..].as_ptr();
            let gradient = self.gradient[gradient_base..].as_ptr();
            let tokens = (group, width);
            let across = keys_across.as_mut_ptr();
            pack_transposed::<L>(values, |i| input(Part::Key, i), tokens, across);
            let across = values_across.as_mut_ptr();
            pack_transposed::<L>(values, |i| input(Part::Value, i), tokens, across);
            pack_rows::<L>(values, |i| input(Part::Key, i), tokens, keys.as_mut_ptr());
            for (start, count) in unit.blocks() {
                let run = [Run::first(width)];
                for i in 0..count {
                    a_rows[i] = input(Part::Query, start + i) as u32;
                    c_rows[i] = (i * stride) as u32;
                }
                unit.panels(keys_across, &run, stride, 1).multiply::<L>(
                    Rows {
                        from: values,
                        from_rows: &a_rows[..count],
                        to: probs.as_mut_ptr(),
                        to_rows: &c_rows[..count],
                    },
                    Store::to_scratch(false),
                );
                for (i, row) in a_rows[..count].iter_mut().enumerate() {
                    *row = output(start + i) as u32;
                }
                unit.panels(values_across, &run, stride, 1).multiply::<L>(
                    Rows {
                        from: gradient,
                        from_rows: &a_rows[..count],
                        to: slopes.as_mut_ptr(),
                        to_rows: &c_rows[..count],
                    },
                    Store::to_scratch(false),
                );
                for i in 0..count {
                    let probs = probs[i * stride..].as_mut_ptr();
                    let slopes = slopes[i * stride..].as_mut_ptr();
                    let addends = unit.addends(start + i);
                    let inverse = exponentials::<L>(probs, stride, attention.scale, addends);
                    through_softmax::<L>(probs, slopes, stride, inverse, attention.scale);
                }
                for i in 0..count {
                    a_rows[i] = (i * stride) as u32;
                    c_rows[i] = (i * columns) as u32;
                }
                let run = [Run::first(group)];
                unit.panels(keys, &run, columns, 1).multiply::<L>(
                    Rows {
                        from: slopes.as_ptr(),
                        from_rows: &a_rows[..count],
                        to: query_gradients.as_mut_ptr(),
                        to_rows: &c_rows[..count],
                    },
                    Store::to_scratch(false),
                );
                for i in 0..count {
                    let to = self.target.part(unit.input(Part::Query, start + i), width);
                    put_row::<L>(query_gradients[i * columns..].as_ptr(), 1.0, to, self.accumulate);
                }
                let block = (count, width);
                let to = queries.as_mut_ptr();
                pack_rows::<L>(values, |i| input(Part::Query, start + i), block, to);
                let to = gradients.as_mut_ptr();
                pack_rows::<L>(gradient, |i| output(start + i), block, to);
                for i in 0..group {
                    a_rows[i] = i as u32;
                    c_rows[i] = (i * columns) as u32;
                }
                let run = [Run::first(count)];
                let products =
                    [(&*slopes, &*queries, &mut *key_gradients), (&*probs, &*gradients, &mut *value_gradients)];
                for (scores, rows, sums) in products {
                    unit.panels(rows, &run, columns, stride).multiply::<L>(
                        Rows {
                            from: scores.as_ptr(),
                            from_rows: &a_rows[..group],
                            to: sums.as_mut_ptr(),
                            to_rows: &c_rows[..group],
                        },
                        Store::to_scratch(start > 0),
                    );
                }
            }
            for i in 0..group {
                for (part, sums) in [(Part::Key, &*key_gradients), (Part::Value, &*value_gradients)] {
                    let to = self.target.part(unit.input(part, i), width);
                    put_row::<L>(sums[i * columns..].as_ptr(), 1.0, to, self.accumulate);
                }
            }
        }
    }
}

/// The gradient of softmax for one query: exponentials become probabilities, and gradients of probabilities become gradients
/// of the products of query and keys.
///
/// # Safety
/// Both rows have `stride` floats, whole vectors.
#[inline(always)]
unsafe fn through_softmax<L: Lanes>(probs: *mut f32, slopes: *mut f32, stride: usize, inverse: f32, scale: f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let inverse = L::splat(inverse);
        let mut sum = L::splat(0.0);
        for c in (0..stride).step_by(L::N) {
            let p = L::mul(L::load(probs.add(c)), inverse);
            L::store(probs.add(c), p);
            sum = L::fma(p, L::load(slopes.add(c)), sum);
        }
        let (mean, scale) = (L::splat(L::sum(sum)), L::splat(scale));
        for c in (0..stride).step_by(L::N) {
            let p = L::mul(L::load(probs.add(c)), scale);
            let slope = L::sub(L::load(slopes.add(c)), mean);
            L::store(slopes.add(c), L::mul(p, slope));
        }
    }
}
