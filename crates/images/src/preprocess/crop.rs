use super::Size;
use crate::Image;

/// Where the kept part of one axis starts, in the resized image and in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// First pixel kept of the resized image.
    pub start: usize,
    /// Number of pixels kept.
    pub len: usize,
    /// Black pixels before them in the output.
    pub pad: usize,
}

impl Span {
    /// The centre `crop` of `size` pixels: offset `(size - crop) / 2` with halves rounded to even; when `size` is
    /// smaller, half of the missing pixels (rounded down) go before it. Both are torchvision's rules.
    pub fn centre(size: usize, crop: usize) -> Self {
        if crop > size {
            return Self { start: 0, len: size, pad: (crop - size) / 2 };
        }
        let twice = size - crop;
        let half = twice / 2;
        let start = half + usize::from(twice % 2 == 1 && half % 2 == 1);
        Self { start, len: crop, pad: 0 }
    }

    /// All of `size`.
    pub fn whole(size: usize) -> Self {
        Self { start: 0, len: size, pad: 0 }
    }
}

/// `image` on a black canvas of `size`, at `left`, `top`.
pub(super) fn pad(image: Image, size: Size, left: usize, top: usize) -> Image {
    if image.width() == size.width && image.height() == size.height {
        return image;
    }
    let mut rgb = vec![0; 3 * size.width * size.height];
    for (y, row) in image.rgb().chunks_exact(3 * image.width()).enumerate() {
        let at = 3 * ((top + y) * size.width + left);
        rgb[at..at + row.len()].copy_from_slice(row);
    }
    Image::new(size.width, size.height, rgb).expect("the canvas was sized from `size`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_margins_round_half_to_even() {
        // Python: round(0.5) = 0, round(1.5) = 2, round(2.5) = 2, round(62) = 62.
        for (size, start) in [(225, 0), (227, 2), (229, 2), (348, 62)] {
            assert_eq!(Span::centre(size, 224).start, start, "size {size}");
        }
    }

    #[test]
    fn small_images_sit_in_the_middle_of_black() {
        let span = Span::centre(3, 6);
        assert_eq!((span.len, span.pad), (3, 1));
        let white = Image::new(1, 1, vec![255; 3]).unwrap();
        let padded = pad(white, Size { width: 3, height: 2 }, 1, 0);
        assert_eq!(padded.rgb().iter().filter(|&&v| v == 255).count(), 3);
        assert_eq!(&padded.rgb()[3..6], [255; 3]);
    }
}
