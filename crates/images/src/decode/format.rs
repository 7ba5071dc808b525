use super::{DecodeError, DecodeOptions, Orientation, Rotation, bmp, gif, jpeg, png, tiff, webp};
use crate::Image;
use crate::guard::guarded;

/// An image file format, told by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JPEG: baseline or progressive; grey, YCbCr, RGB, CMYK or YCCK.
    Jpeg,
    /// PNG of any colour type and depth.
    Png,
    /// WebP, lossy or lossless; the first frame of an animation.
    WebP,
    /// Windows bitmap.
    Bmp,
    /// GIF; the first frame.
    Gif,
    /// TIFF: grey, RGB or CMYK, 1, 8 or 16 bits; the first page, turned as its orientation says.
    Tiff,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::WebP => "WebP",
            Self::Bmp => "BMP",
            Self::Gif => "GIF",
            Self::Tiff => "TIFF",
        })
    }
}

impl Format {
    /// The format whose signature `bytes` starts with.
    pub fn sniff(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(&[0xFF, 0xD8, 0xFF]) {
            Some(Self::Jpeg)
        } else if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            Some(Self::WebP)
        } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
            Some(Self::Gif)
        } else if bytes.starts_with(b"BM") {
            Some(Self::Bmp)
        } else if [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"].iter().any(|start| bytes.starts_with(*start)) {
            Some(Self::Tiff)
        } else {
            None
        }
    }
}

/// The name of a format whose signature `bytes` starts with and that is not read.
fn unread_format(bytes: &[u8]) -> Option<&'static str> {
    if bytes.get(4..8) == Some(b"ftyp") {
        return match bytes.get(8..12)? {
            b"avif" | b"avis" => Some("AVIF"),
            b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" | b"mif1" | b"msf1" => Some("HEIC"),
            _ => None,
        };
    }
    if bytes.starts_with(&[0xFF, 0x0A]) || bytes.starts_with(b"\0\0\0\x0cJXL ") {
        return Some("JPEG XL");
    }
    (bytes.starts_with(b"\0\0\0\x0cjP  ") || bytes.starts_with(&[0xFF, 0x4F, 0xFF, 0x51])).then_some("JPEG 2000")
}

/// What a format's decoder hands back.
pub(super) struct Decoded {
    pub image: Image,
    pub orientation: Orientation,
}

/// Decodes `bytes` with the default limits and without rotation.
pub fn decode(bytes: &[u8]) -> Result<Image, DecodeError> {
    decode_with(bytes, &DecodeOptions::default())
}

/// Decodes `bytes` as `options` say.
pub fn decode_with(bytes: &[u8], options: &DecodeOptions) -> Result<Image, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty);
    }
    let Some(format) = Format::sniff(bytes) else {
        if let Some(found) = unread_format(bytes) {
            return Err(DecodeError::NotRead { found });
        }
        let start: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
        return Err(DecodeError::UnknownFormat { start: start.join(" ") });
    };
    let limits = &options.limits;
    let decoded = guarded(|| match format {
        Format::Jpeg => jpeg::decode(bytes, limits),
        Format::Png => png::decode(bytes, limits),
        Format::WebP => webp::decode(bytes, limits),
        Format::Bmp => bmp::decode(bytes, limits),
        Format::Gif => gif::decode(bytes, limits),
        Format::Tiff => tiff::decode(bytes, limits),
    });
    let decoded = decoded.map_err(|reason| DecodeError::Damaged { format, reason })??;
    Ok(match options.rotation {
        Rotation::Ignore => decoded.image,
        Rotation::Apply => decoded.orientation.apply(decoded.image),
    })
}

#[cfg(test)]
mod tests;
