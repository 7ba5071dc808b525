//! Where a filter reads when it leaves the image.

/// A rule that maps an index outside `0..n` to one inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// The edge sample is repeated: `a a | a b c | c c`.
    Repeat,
    /// Mirrored with the edge sample repeated: `b a | a b c | c b`.
    HalfMirror,
    /// Mirrored without repeating the edge sample: `c b | a b c | b a`.
    Mirror101,
}

impl Border {
    /// The index in `0..n` that stands for `index`; `n` is at least 1.
    #[inline]
    pub fn map(self, index: isize, n: usize) -> usize {
        let len = n as isize;
        if (0..len).contains(&index) {
            return index as usize;
        }
        let inside = match self {
            Border::Repeat => index.clamp(0, len - 1),
            Border::HalfMirror => {
                let phase = index.rem_euclid(2 * len);
                if phase < len { phase } else { 2 * len - 1 - phase }
            }
            Border::Mirror101 if len == 1 => 0,
            Border::Mirror101 => {
                let phase = index.rem_euclid(2 * (len - 1));
                if phase < len { phase } else { 2 * (len - 1) - phase }
            }
        };
        inside as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(border: Border, n: usize) -> Vec<usize> {
        (-4..n as isize + 4).map(|i| border.map(i, n)).collect()
    }

    #[test]
    fn each_rule_continues_the_row_as_named() {
        assert_eq!(around(Border::Repeat, 3), [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2]);
        assert_eq!(around(Border::HalfMirror, 3), [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0]);
        assert_eq!(around(Border::Mirror101, 3), [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2]);
    }

    #[test]
    fn a_single_sample_stands_for_everything() {
        for border in [Border::Repeat, Border::HalfMirror, Border::Mirror101] {
            assert!(around(border, 1).iter().all(|&i| i == 0));
        }
    }
}
