use crate::Family;
use crate::vit_weights::Positions;
use flipcast_tensor::{Shape, Tensor};

/// How a file's tensor becomes a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The values lie in the same order.
    Same,
    /// A relative position bias converted from TensorFlow: `[heads, rows, columns]` of the distances from query to key,
    /// where the parameter has `[rows * columns, heads]` of those from key to query.
    BiasByHead,
    /// Position embeddings of another grid of patches.
    Positions(Positions),
}

/// The layout in which a tensor with the extents `found` is a parameter with the extents `expected`, if there is one.
pub(crate) fn find_layout(family: Family, found: &[usize], expected: &[usize]) -> Option<Layout> {
    if found == expected { Some(Layout::Same) } else { (family.find_layout)(found, expected) }
}

/// timm stores a factor per channel without the extents that spread it over pixels.
pub(crate) fn find_channel_factors(found: &[usize], expected: &[usize]) -> Option<Layout> {
    match (found, expected) {
        (&[factors], &[channels, 1, 1]) if factors == channels => Some(Layout::Same),
        _ => None,
    }
}

/// A table by head has one row and one column per distance.
pub(crate) fn find_bias_by_head(found: &[usize], expected: &[usize]) -> Option<Layout> {
    let (&[heads, rows, columns], &[entries, expected_heads]) = (found, expected) else {
        return None;
    };
    let fits = rows == columns && rows.checked_mul(columns) == Some(entries) && heads == expected_heads;
    fits.then_some(Layout::BiasByHead)
}

/// The parameter with the extents `expected` that `tensor` holds.
pub(crate) fn arrange(tensor: Tensor, layout: Layout, expected: &[usize]) -> Tensor {
    let values = match layout {
        Layout::Same => tensor.into_values(),
        Layout::BiasByHead => bias_by_entry(&tensor),
        Layout::Positions(positions) => positions.resample(&tensor),
    };
    Tensor::new(Shape::new(expected), values).expect("a layout is found only for as many values")
}

fn bias_by_entry(tensor: &Tensor) -> Vec<f32> {
    let heads = tensor.shape().extents()[0];
    let by_head = tensor.values();
    let entries = by_head.len().checked_div(heads).unwrap_or(0);
    // Turning both axes round is turning the flattened table round.
    let entry = |i: usize| (0..heads).map(move |head| by_head[head * entries + entries - 1 - i]);
    (0..entries).flat_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_need_no_extents_for_pixels() {
        let find = |family, found: &[usize]| find_layout(family, found, &[5, 1, 1]);
        assert_eq!(find(crate::convnext::FAMILY, &[5]), Some(Layout::Same));
        assert_eq!(find(crate::convnext::FAMILY, &[4]), None);
        assert_eq!(find(crate::resnet::FAMILY, &[5]), None);
        assert_eq!(find(Family::CUSTOM, &[5]), None);
    }

    #[test]
    fn a_table_by_head_is_turned_round() {
        let layout = find_layout(crate::maxvit::FAMILY, &[2, 3, 3], &[9, 2]).unwrap();
        let values: Vec<f32> = (0..18).map(|i| i as f32).collect();
        let table = Tensor::new([2, 3, 3], values).unwrap();
        let arranged = arrange(table, layout, &[9, 2]);
        assert_eq!(arranged.shape().extents(), [9, 2]);
        assert_eq!(arranged.values()[..4], [8.0, 17.0, 7.0, 16.0]);
        assert_eq!(arranged.values()[16..], [0.0, 9.0]);
    }

    #[test]
    fn hostile_extents_have_no_layout() {
        let huge = usize::MAX;
        for found in [[2, huge, huge], [0, 3, 3], [2, 3, 4]] {
            let layout = find_layout(crate::maxvit::FAMILY, &found, &[9, 2]);
            assert_eq!(layout, None);
        }
    }
}
