use crate::random::Draws;
use flipcast_tensor::Batch;

/// The images of `batch` with these indices.
pub(crate) fn take_images(batch: &Batch, images: &[usize]) -> Batch {
    let values = images.iter().flat_map(|&image| batch.image(image));
    let extents = [images.len(), batch.height(), batch.width(), batch.channels()];
    Batch::new(extents, values.copied().collect()).expect("whole images fill a batch of them")
}

/// Cuts every image into `grid` x `grid` patches and puts them in random order. Rows and columns that do not fill a
/// patch stay where they are.
pub(crate) fn shuffle_patches(batch: &mut Batch, grid: usize, draws: &mut Draws) {
    let (width, channels) = (batch.width(), batch.channels());
    let (patch_height, patch_width) = (batch.height() / grid, width / grid);
    let len = batch.height() * width * channels;
    if patch_height == 0 || patch_width == 0 || channels == 0 {
        return;
    }
    let mut order: Vec<usize> = (0..grid * grid).collect();
    let mut before = Vec::with_capacity(len);
    for image in batch.values_mut().chunks_exact_mut(len) {
        before.clear();
        before.extend_from_slice(image);
        draws.shuffle(&mut order);
        for (target, &source) in order.iter().enumerate() {
            let corner = |patch: usize| {
                let (row, column) = (patch / grid, patch % grid);
                (row * patch_height * width + column * patch_width) * channels
            };
            for row in 0..patch_height {
                let skip = row * width * channels;
                let (to, from) = (corner(target) + skip, corner(source) + skip);
                let run = patch_width * channels;
                image[to..to + run].copy_from_slice(&before[from..from + run]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    fn draws() -> Draws {
        Draws::new(3, Purpose::Shuffle, 0)
    }

    fn batch(extents: [usize; 4]) -> Batch {
        let len = extents.iter().product::<usize>();
        Batch::new(extents, (0..len).map(|i| i as f32).collect()).unwrap()
    }

    #[test]
    fn images_are_taken_in_the_order_asked_for() {
        let all = batch([3, 2, 1, 2]);
        let taken = take_images(&all, &[2, 0]);
        assert_eq!(taken.values(), [8., 9., 10., 11., 0., 1., 2., 3.]);
        assert_eq!(take_images(&all, &[]).images(), 0);
    }

    #[test]
    fn patches_move_as_wholes_and_each_image_has_its_own_order() {
        let mut shuffled = batch([2, 8, 8, 3]);
        shuffle_patches(&mut shuffled, 4, &mut draws());
        let mut orders = Vec::new();
        for image in 0..2 {
            let values = shuffled.image(image);
            let mut patches = Vec::new();
            for (row, column) in (0..4).flat_map(|r| (0..4).map(move |c| (r, c))) {
                let at = |y: usize, x: usize| values[((2 * row + y) * 8 + 2 * column + x) * 3];
                let first = at(0, 0);
                // The four pixels of a patch stay together: a pixel is 3 values, a row 24.
                assert_eq!([at(0, 1), at(1, 0), at(1, 1)], [first + 3., first + 24., first + 27.]);
                patches.push(first as usize - image * 192);
            }
            orders.push(patches.clone());
            patches.sort_unstable();
            patches.dedup();
            assert_eq!(patches.len(), 16);
        }
        assert_ne!(orders[0], orders[1]);
    }

    #[test]
    fn a_remainder_stays_in_place_and_tiny_images_stay_whole() {
        let before = batch([1, 9, 10, 1]);
        let mut after = before.clone();
        shuffle_patches(&mut after, 4, &mut draws());
        assert_ne!(before, after);
        assert_eq!(before.values()[80..], after.values()[80..]);
        for row in 0..9 {
            assert_eq!(before.values()[row * 10 + 8..][..2], after.values()[row * 10 + 8..][..2]);
        }
        let mut tiny = batch([2, 3, 9, 3]);
        shuffle_patches(&mut tiny, 4, &mut draws());
        assert_eq!(tiny, batch([2, 3, 9, 3]));
    }
}
