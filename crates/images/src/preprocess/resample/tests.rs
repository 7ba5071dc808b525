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
        let whole = resize(&image, size, interpolation).unwrap();
        let columns = Span { start: 5, len: 20, pad: 0 };
        let rows = Span { start: 2, len: 6, pad: 0 };
        let part = resize_part(&image, size, columns, rows, interpolation).unwrap();
        assert_eq!(part, copy_part(&whole, columns, rows), "{interpolation:?}");
    }
}

#[test]
fn the_same_size_gives_the_same_bytes() {
    let image = ramp(7, 5);
    let same = resize(&image, Size { width: 7, height: 5 }, Interpolation::Lanczos).unwrap();
    assert_eq!(same, image);
}

#[test]
fn a_single_pixel_fills_any_size() {
    let image = Image::new(1, 1, vec![9, 99, 199]).unwrap();
    let large = resize(&image, Size { width: 70, height: 3 }, Interpolation::Bicubic).unwrap();
    assert!(large.rgb().chunks(3).all(|p| p == [9, 99, 199]));
}

#[test]
fn a_thin_line_of_pixels_is_refused_before_it_is_blown_up() {
    let image = Image::new(1 << 21, 1, vec![0; 3 << 21]).unwrap();
    let refused = resize(&image, Size::square(224), Interpolation::Bilinear);
    assert!(matches!(refused, Err(PreprocessError::TooLong { .. })));
}

#[test]
fn nothing_is_resized_from_or_to_nothing() {
    let none = Image::new(0, 4, Vec::new()).unwrap();
    let refused = resize(&none, Size::square(3), Interpolation::Box);
    assert!(matches!(refused, Err(PreprocessError::NoPixels { width: 0, .. })));
    let refused = resize(&ramp(2, 2), Size::square(0), Interpolation::Nearest);
    assert!(matches!(refused, Err(PreprocessError::NoPixels { .. })));
    for rule in [crate::preprocess::Preprocess::torchvision_v1(), crate::preprocess::Preprocess::tiny_imagenet_128()] {
        let refused = rule.apply_to_vec(&none);
        assert!(matches!(refused, Err(PreprocessError::NoPixels { .. })));
    }
}
