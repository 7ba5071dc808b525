use super::*;

fn ramp(width: usize, height: usize) -> Image {
    let rgb = (0..3 * width * height).map(|i| (i * 37 % 256) as u8).collect();
    Image::new(width, height, rgb).unwrap()
}

#[test]
fn a_part_equals_the_same_part_of_the_whole() {
    let image = ramp(23, 17);
    let size = Size { width: 31, height: 9 };
    for interpolation in [
        Interpolation::Nearest,
        Interpolation::Box,
        Interpolation::Bilinear,
        Interpolation::Bicubic,
        Interpolation::Lanczos,
    ] {
        for order in [PassOrder::Pillow13, PassOrder::RowsFirst] {
            let whole = resize(&image, size, interpolation, order).unwrap();
            let columns = Span { start: 5, len: 20, pad: 0 };
            let rows = Span { start: 2, len: 6, pad: 0 };
            let part = resize_part(&image, size, columns, rows, interpolation, order).unwrap();
            let cut = gather(&whole, &Vec::from_iter(5..25), &Vec::from_iter(2..8));
            assert_eq!(part, cut, "{interpolation:?} {order:?}");
        }
    }
}

#[test]
fn the_same_size_gives_the_same_bytes() {
    let image = ramp(7, 5);
    let same = resize(&image, Size { width: 7, height: 5 }, Interpolation::Lanczos, PassOrder::Pillow13).unwrap();
    assert_eq!(same, image);
}

#[test]
fn a_single_pixel_fills_any_size() {
    let image = Image::new(1, 1, vec![9, 99, 199]).unwrap();
    let large = resize(&image, Size { width: 70, height: 3 }, Interpolation::Bicubic, PassOrder::Pillow13).unwrap();
    assert!(large.rgb().chunks(3).all(|p| p == [9, 99, 199]));
}

#[test]
fn a_thin_line_of_pixels_is_refused_before_it_is_blown_up() {
    let image = Image::new(1 << 21, 1, vec![0; 3 << 21]).unwrap();
    let refused = resize(&image, Size::square(224), Interpolation::Bilinear, PassOrder::Pillow13);
    assert!(matches!(refused, Err(PreprocessError::TooLong { .. })));
}

#[test]
fn nothing_is_resized_from_or_to_nothing() {
    let none = Image::new(0, 4, Vec::new()).unwrap();
    let refused = resize(&none, Size::square(3), Interpolation::Box, PassOrder::Pillow13);
    assert!(matches!(refused, Err(PreprocessError::NoPixels { width: 0, .. })));
    let refused = resize(&ramp(2, 2), Size::square(0), Interpolation::Nearest, PassOrder::Pillow13);
    assert!(matches!(refused, Err(PreprocessError::NoPixels { .. })));
    for rule in [crate::preprocess::Preprocess::torchvision_v1(), crate::preprocess::Preprocess::tiny_imagenet_128()] {
        let refused = rule.apply_to_vec(&none);
        assert!(matches!(refused, Err(PreprocessError::NoPixels { .. })));
    }
}

#[test]
fn halving_averages_pairs_with_rounding() {
    let image = Image::new(4, 1, vec![0, 10, 20, 1, 11, 21, 100, 0, 255, 103, 1, 255]).unwrap();
    let small = resize(&image, Size { width: 2, height: 1 }, Interpolation::Box, PassOrder::RowsFirst).unwrap();
    assert_eq!(small.rgb(), [1, 11, 21, 102, 1, 255]);
}

#[test]
fn enlarging_with_the_box_repeats_pixels() {
    let image = Image::new(2, 1, vec![1, 2, 3, 4, 5, 6]).unwrap();
    let big = resize(&image, Size { width: 3, height: 2 }, Interpolation::Box, PassOrder::RowsFirst).unwrap();
    assert_eq!(big.rgb(), [1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2, 3, 4, 5, 6, 4, 5, 6]);
}

#[test]
fn a_flat_image_stays_flat_at_any_size() {
    let image = Image::new(13, 7, vec![211; 3 * 13 * 7]).unwrap();
    for filter in [Interpolation::Box, Interpolation::Bilinear, Interpolation::Bicubic, Interpolation::Lanczos] {
        for (width, height) in [(1, 1), (5, 7), (13, 3), (29, 2), (40, 40)] {
            let after = resize(&image, Size { width, height }, filter, PassOrder::Pillow13).unwrap();
            assert!(after.rgb().iter().all(|&byte| byte == 211), "{filter:?} {width} x {height}");
        }
    }
}
