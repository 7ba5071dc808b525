use super::layer::{Attention, Part, Unit};
use super::pack::{pack_rows, pack_transposed, put_row};
use super::softmax::exponentials;
use crate::gemm::{Rows, Run, Store};
use crate::lanes::{Lanes, Task};
use crate::shared::Shared;
use crate::team::{Scratch, cut};

/// One unit, forward.
pub(super) struct Forward<'a> {
    pub unit: Unit<'a>,
    pub values: &'a [f32],
    pub out: Shared<'a, f32>,
    pub scratch: Scratch<'a>,
}

impl Forward<'_> {
    /// Lengths of the parts of scratch: keys, values, scores, results, reciprocal sums.
    fn parts(attention: &Attention, lanes: usize) -> [usize; 5] {
        let (group, width, queries) = (attention.group, attention.head_channels, attention.queries());
        let (keys, columns) = (group.next_multiple_of(lanes), width.next_multiple_of(lanes));
        [width * keys, group * columns, queries * keys, queries * columns, queries]
    }

    /// Floats of scratch.
    pub fn floats(attention: &Attention, lanes: usize) -> usize {
        Self::parts(attention, lanes).iter().sum()
    }
}

impl Task for Forward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { unit, values, .. } = self;
        let attention = unit.attention;
        let (group, width) = (attention.group, attention.head_channels);
        let (stride, columns) = (group.next_multiple_of(L::N), width.next_multiple_of(L::N));
        let [keys, packed, scores, results, inverses] = cut(self.scratch.floats, Self::parts(attention, L::N));
        let (a_rows, c_rows) = self.scratch.offsets.split_at_mut(group);
        let [base, _] = unit.bases();
        let input = |part: Part, i: usize| unit.input(part, i) - base;
        // SAFETY: `check` made sure that every token of the batch lies in `values` and `out`; the scratch has the lengths
        // asked for, checked by cutting. Units write different tokens or different heads' channels.
        unsafe {
            let values = values[base..].as_ptr();
            pack_transposed::<L>(values, |i| input(Part::Key, i), (group, width), keys.as_mut_ptr());
            pack_rows::<L>(values, |i| input(Part::Value, i), (group, width), packed.as_mut_ptr());
            for (start, count) in unit.blocks() {
                for i in 0..count {
                    a_rows[i] = input(Part::Query, start + i) as u32;
                    c_rows[i] = (i * stride) as u32;
                }
                let run = [Run::first(width)];
                unit.panels(keys, &run, stride, 1).multiply::<L>(
                    Rows {
                        from: values,
                        from_rows: &a_rows[..count],
                        to: scores.as_mut_ptr(),
                        to_rows: &c_rows[..count],
                    },
                    Store::to_scratch(false),
                );
                for (i, inverse) in inverses[..count].iter_mut().enumerate() {
                    let row = scores[i * stride..].as_mut_ptr();
                    let addends = unit.addends(start + i);
                    *inverse = exponentials::<L>(row, stride, attention.scale, addends);
                }
                for i in 0..count {
                    a_rows[i] = (i * stride) as u32;
                    c_rows[i] = (i * columns) as u32;
                }
                let run = [Run::first(group)];
                unit.panels(packed, &run, columns, 1).multiply::<L>(
                    Rows {
                        from: scores.as_ptr(),
                        from_rows: &a_rows[..count],
                        to: results.as_mut_ptr(),
                        to_rows: &c_rows[..count],
                    },
                    Store::to_scratch(false),
                );
                for i in 0..count {
                    let to = self.out.part(unit.output(start + i), width);
                    put_row::<L>(results[i * columns..].as_ptr(), inverses[i], to, false);
                }
            }
        }
    }
}
