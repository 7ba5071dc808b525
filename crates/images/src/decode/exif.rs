use crate::Image;

/// The EXIF orientation: how the stored pixels must be turned to be upright.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orientation {
    /// 1: as stored.
    #[default]
    Upright,
    /// 2: mirrored left to right.
    MirrorHorizontal,
    /// 3: half a turn.
    Rotate180,
    /// 4: mirrored top to bottom.
    MirrorVertical,
    /// 5: mirrored along the main diagonal.
    Transpose,
    /// 6: a quarter turn clockwise.
    Rotate90,
    /// 7: mirrored along the other diagonal.
    Transverse,
    /// 8: a quarter turn counter-clockwise.
    Rotate270,
}

/// Tag number of the orientation in the first image directory.
const ORIENTATION_TAG: u16 = 0x0112;

impl Orientation {
    /// The orientation in a TIFF-structured EXIF block. Anything unreadable counts as upright, as in Pillow.
    pub(super) fn from_exif(block: &[u8]) -> Self {
        let block = block.strip_prefix(b"Exif\0\0").unwrap_or(block);
        Self::read(block).unwrap_or_default()
    }

    fn read(tiff: &[u8]) -> Option<Self> {
        let little = match tiff.get(..4)? {
            b"II*\0" => true,
            b"MM\0*" => false,
            _ => return None,
        };
        let u16_at = |at: usize| -> Option<u16> {
            let pair: [u8; 2] = tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
            Some(if little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) })
        };
        let quad: [u8; 4] = tiff.get(4..8)?.try_into().ok()?;
        let directory = if little { u32::from_le_bytes(quad) } else { u32::from_be_bytes(quad) };
        let directory = usize::try_from(directory).ok()?;
        for entry in 0..usize::from(u16_at(directory)?) {
            let at = directory.checked_add(2 + 12 * entry)?;
            if u16_at(at)? == ORIENTATION_TAG {
                return Self::from_code(u16_at(at.checked_add(8)?)?);
            }
        }
        None
    }

    fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            1 => Self::Upright,
            2 => Self::MirrorHorizontal,
            3 => Self::Rotate180,
            4 => Self::MirrorVertical,
            5 => Self::Transpose,
            6 => Self::Rotate90,
            7 => Self::Transverse,
            8 => Self::Rotate270,
            _ => return None,
        })
    }

    /// `image` turned upright.
    pub fn apply(self, image: Image) -> Image {
        if self == Self::Upright {
            return image;
        }
        let (w, h) = (image.width(), image.height());
        let swaps = matches!(self, Self::Transpose | Self::Rotate90 | Self::Transverse | Self::Rotate270);
        let (out_w, out_h) = if swaps { (h, w) } else { (w, h) };
        let mut rgb = Vec::with_capacity(image.rgb().len());
        for y in 0..out_h {
            for x in 0..out_w {
                let (sx, sy) = match self {
                    Self::Upright => (x, y),
                    Self::MirrorHorizontal => (w - 1 - x, y),
                    Self::Rotate180 => (w - 1 - x, h - 1 - y),
                    Self::MirrorVertical => (x, h - 1 - y),
                    Self::Transpose => (y, x),
                    Self::Rotate90 => (y, h - 1 - x),
                    Self::Transverse => (w - 1 - y, h - 1 - x),
                    Self::Rotate270 => (w - 1 - y, x),
                };
                let at = 3 * (sy * w + sx);
                rgb.extend_from_slice(&image.rgb()[at..at + 3]);
            }
        }
        Image::new(out_w, out_h, rgb).expect("as many pixels were written as were read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 3 x 2 image whose red channel counts pixels from 0.
    fn counting() -> Image {
        let rgb = (0..6u8).flat_map(|i| [i, 0, 0]).collect();
        Image::new(3, 2, rgb).unwrap()
    }

    fn reds(image: &Image) -> Vec<u8> {
        image.rgb().chunks(3).map(|p| p[0]).collect()
    }

    #[test]
    fn each_orientation_moves_pixels_as_pillow_does() {
        // From `ImageOps.exif_transpose` on the same 3 x 2 image.
        let expected: [(Orientation, usize, [u8; 6]); 8] = [
            (Orientation::Upright, 3, [0, 1, 2, 3, 4, 5]),
            (Orientation::MirrorHorizontal, 3, [2, 1, 0, 5, 4, 3]),
            (Orientation::Rotate180, 3, [5, 4, 3, 2, 1, 0]),
            (Orientation::MirrorVertical, 3, [3, 4, 5, 0, 1, 2]),
            (Orientation::Transpose, 2, [0, 3, 1, 4, 2, 5]),
            (Orientation::Rotate90, 2, [3, 0, 4, 1, 5, 2]),
            (Orientation::Transverse, 2, [5, 2, 4, 1, 3, 0]),
            (Orientation::Rotate270, 2, [2, 5, 1, 4, 0, 3]),
        ];
        for (orientation, width, order) in expected {
            let turned = orientation.apply(counting());
            assert_eq!(turned.width(), width, "{orientation:?}");
            assert_eq!(reds(&turned), order, "{orientation:?}");
        }
    }

    #[test]
    fn a_directory_beyond_the_block_counts_as_upright() {
        let block = b"II*\0\xff\xff\xff\xff";
        assert_eq!(Orientation::from_exif(block), Orientation::Upright);
        assert_eq!(Orientation::from_exif(b""), Orientation::Upright);
    }
}
