use std::path::Path;

use super::DataError;
use super::pixels::{Order, PictureShape};

/// Bytes before the header text of a version 1 file.
const PREAMBLE: usize = 10;
/// Longest header text.
const MAX_HEADER: usize = 64 << 10;

/// What the elements of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unsigned,
    Signed,
    Float,
}

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub kind: Kind,
    big_endian: bool,
    pub size: usize,
}

/// What the header of an `.npy` file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NpyHeader {
    pub element: Element,
    pub shape: Vec<usize>,
    /// Whether columns follow each other, and not rows.
    pub is_fortran: bool,
    /// Where the values start.
    pub offset: usize,
}

impl NpyHeader {
    /// The most bytes a header can take.
    pub const MAX_LEN: usize = MAX_HEADER + 12;

    /// Reads the header at the start of `bytes`.
    pub fn read(path: &Path, bytes: &[u8]) -> Result<Self, DataError> {
        let cut = || DataError::Truncated {
            path: path.into(),
            what: "the npy header".into(),
            declared: PREAMBLE as u64,
            found: bytes.len() as u64,
        };
        let start = bytes.get(..PREAMBLE).ok_or_else(cut)?;
        if !start.starts_with(b"\x93NUMPY") {
            let found = format!("{:02x?}", &start[..6]);
            return Err(DataError::format(path, "the signature", found, "`\\x93NUMPY`"));
        }
        let (begin, len) = match start[6] {
            1 => (PREAMBLE, usize::from(u16::from_le_bytes([start[8], start[9]]))),
            2 | 3 => {
                let field = bytes.get(8..12).ok_or_else(cut)?;
                let len = u32::from_le_bytes([field[0], field[1], field[2], field[3]]);
                (12, len as usize)
            }
            version => return Err(DataError::format(path, "the version", version, "1, 2 or 3")),
        };
        if len > MAX_HEADER {
            return Err(DataError::TooLarge {
                path: path.into(),
                what: "the npy header".into(),
                declared: len as u64,
                limit: MAX_HEADER as u64,
            });
        }
        let text = bytes.get(begin..begin + len).ok_or_else(cut)?;
        let text = String::from_utf8_lossy(text);
        let bad = |expected: &str| DataError::format(path, "the npy header", text.trim(), expected);
        let descr = value_of(&text, "descr").ok_or_else(|| bad("a `descr`"))?;
        let element = parse_element(descr).ok_or_else(|| bad("numbers of 1 to 8 bytes"))?;
        let is_fortran = match value_of(&text, "fortran_order") {
            Some("False") => false,
            Some("True") => true,
            _ => return Err(bad("a `fortran_order` of True or False")),
        };
        let shape = value_of(&text, "shape").and_then(parse_shape);
        let shape = shape.ok_or_else(|| bad("a `shape` of numbers"))?;
        Ok(Self { element, shape, is_fortran, offset: begin + len })
    }

    /// The picture shape and number of an image array: `[n, h, w]`, `[n, h, w, 3]`, `[n, h, w, 1]` or `[n, 3, h, w]`.
    pub(super) fn pictures(&self, path: &Path) -> Result<(PictureShape, usize), DataError> {
        let (height, width, order) = match *self.shape {
            [_, h, w] | [_, h, w, 1] => (h, w, Order::Grey),
            [_, h, w, 3] => (h, w, Order::Interleaved),
            [_, 3, h, w] => (h, w, Order::Planes),
            _ => {
                let found = format!("{:?}", self.shape);
                let expected = "[n, h, w], [n, h, w, 3] or [n, 3, h, w]";
                return Err(DataError::format(path, "the shape of the images", found, expected));
            }
        };
        if self.element.size != 1 || self.element.kind != Kind::Unsigned {
            return Err(DataError::format(path, "the type of the images", self.element, "uint8"));
        }
        if self.is_fortran {
            return Err(DataError::format(path, "the order of the images", "columns first", "rows first"));
        }
        let shape = PictureShape { width, height, order };
        Ok((shape, self.shape[0]))
    }

    /// The values of a label array: `[n]` or `[n, 1]`, from the whole file.
    pub fn integers(&self, path: &Path, bytes: &[u8]) -> Result<Vec<i64>, DataError> {
        if !matches!(*self.shape, [_] | [_, 1]) {
            let found = format!("{:?}", self.shape);
            return Err(DataError::format(path, "the shape of the labels", found, "[n]"));
        }
        if self.element.kind == Kind::Float {
            return Err(DataError::format(path, "the type of the labels", self.element, "integers"));
        }
        let declared = self.shape[0].checked_mul(self.element.size);
        let end = declared.and_then(|n| n.checked_add(self.offset));
        let values = end.and_then(|end| bytes.get(self.offset..end));
        let values = values.ok_or_else(|| DataError::Truncated {
            path: path.into(),
            what: "the labels".into(),
            declared: end.unwrap_or(usize::MAX) as u64,
            found: bytes.len() as u64,
        })?;
        Ok(values.chunks_exact(self.element.size).map(|v| self.element.value(v)).collect())
    }
}

impl Element {
    /// An integer from its bytes.
    pub fn value(self, bytes: &[u8]) -> i64 {
        let raw = self.bits(bytes);
        let shift = 64 - 8 * self.size as u32;
        match self.kind {
            Kind::Signed => ((raw << shift) as i64) >> shift,
            Kind::Unsigned | Kind::Float => i64::try_from(raw).unwrap_or(i64::MAX),
        }
    }

    /// A floating-point number from its bytes, rounded to single precision.
    pub fn number(self, bytes: &[u8]) -> f32 {
        let raw = self.bits(bytes);
        match self.size {
            2 => half_to_single(raw as u16),
            4 => f32::from_bits(raw as u32),
            _ => f64::from_bits(raw) as f32,
        }
    }

    fn bits(self, bytes: &[u8]) -> u64 {
        let byte = |i: usize| {
            if self.big_endian { bytes[i] } else { bytes[self.size - 1 - i] }
        };
        (0..self.size).fold(0u64, |v, i| v << 8 | u64::from(byte(i)))
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            Kind::Unsigned => "uint",
            Kind::Signed => "int",
            Kind::Float => "float",
        };
        write!(f, "{kind}{}", 8 * self.size)
    }
}

/// IEEE half precision: 1 bit of sign, 5 of exponent, 10 of fraction.
fn half_to_single(half: u16) -> f32 {
    let (exponent, fraction) = (i32::from(half >> 10 & 0x1F), f32::from(half & 0x3FF));
    let size = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if half >> 15 == 1 { -size } else { size }
}

/// The text of one entry of the header's dictionary.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let after = text.split_once(&format!("'{key}'"))?.1;
    let value = after.trim_start().strip_prefix(':')?.trim_start();
    let end = match value.as_bytes().first()? {
        b'(' => value.find(')')? + 1,
        b'\'' => value[1..].find('\'')? + 2,
        _ => value.find([',', '}'])?,
    };
    Some(value[..end].trim())
}

fn parse_element(descr: &str) -> Option<Element> {
    let text = descr.strip_prefix('\'')?.strip_suffix('\'')?;
    let mut parts = text.chars();
    let (order, kind) = (parts.next()?, parts.next()?);
    let size: usize = parts.as_str().parse().ok()?;
    let kind = match kind {
        'u' | 'b' => Kind::Unsigned,
        'i' => Kind::Signed,
        'f' => Kind::Float,
        _ => return None,
    };
    let is_known = matches!(order, '<' | '>' | '|' | '=')
        && matches!((kind, size), (_, 2 | 4 | 8) | (Kind::Unsigned | Kind::Signed, 1));
    is_known.then_some(Element { kind, big_endian: order == '>', size })
}

fn parse_shape(text: &str) -> Option<Vec<usize>> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?;
    let numbers = inside.split(',').map(str::trim).filter(|t| !t.is_empty());
    numbers.map(|t| t.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(dict: &str) -> Result<NpyHeader, DataError> {
        let mut bytes = b"\x93NUMPY\x01\0".to_vec();
        bytes.extend((dict.len() as u16).to_le_bytes());
        bytes.extend(dict.as_bytes());
        NpyHeader::read(Path::new("x.npy"), &bytes)
    }

    #[test]
    fn a_cifar_c_header_is_understood() {
        let text = "{'descr': '|u1', 'fortran_order': False, 'shape': (50000, 32, 32, 3), }      \n";
        let read = header(text).unwrap();
        assert_eq!(read.shape, [50_000, 32, 32, 3]);
        let (shape, rows) = read.pictures(Path::new("x")).unwrap();
        assert_eq!((shape.len(), rows), (3072, 50_000));
    }

    #[test]
    fn labels_of_every_width_are_read() {
        let one = |descr: &str, bytes: &[u8]| {
            let element = parse_element(descr).unwrap();
            element.value(bytes)
        };
        assert_eq!(one("'<i8'", &[255; 8]), -1);
        assert_eq!(one("'>i2'", &[1, 2]), 258);
        assert_eq!(one("'<u2'", &[1, 2]), 513);
        assert_eq!(one("'|u1'", &[200]), 200);
    }

    #[test]
    fn numbers_of_every_width_are_read() {
        let one = |descr: &str, bytes: &[u8]| parse_element(descr).unwrap().number(bytes);
        assert_eq!(one("'<f4'", &1.25f32.to_le_bytes()), 1.25);
        assert_eq!(one("'>f8'", &(-3.5f64).to_be_bytes()), -3.5);
        // One, the largest finite number, the smallest of all, and minus infinity.
        let halves = [(0x3C00u16, 1.0), (0x7BFF, 65504.0), (1, 2f32.powi(-24)), (0xFC00, f32::NEG_INFINITY)];
        for (half, expected) in halves {
            assert_eq!(one("'<f2'", &half.to_le_bytes()), expected, "{half:x}");
        }
        assert!(one("'<f2'", &0x7E00u16.to_le_bytes()).is_nan());
    }

    #[test]
    fn images_and_labels_are_integers_in_rows() {
        let floats = header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}").unwrap();
        assert!(matches!(floats.integers(Path::new("x"), &[0; 999]), Err(DataError::BadFormat { .. })));
        for text in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2)}",
            "{'descr': '|u1', 'fortran_order': True, 'shape': (1, 2, 2)}",
        ] {
            let refused = header(text).unwrap().pictures(Path::new("x"));
            assert!(matches!(refused, Err(DataError::BadFormat { .. })), "{text}");
        }
    }

    #[test]
    fn malformed_headers_are_refused() {
        for text in [
            "{'descr': '<f1', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '|u1', 'fortran_order': Maybe, 'shape': (1,)}",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '|u1', 'fortran_order': False}",
            "",
        ] {
            assert!(matches!(header(text), Err(DataError::BadFormat { .. })), "{text}");
        }
        let cut = NpyHeader::read(Path::new("x"), b"\x93NUMPY\x01\0\xff\0{");
        assert!(matches!(cut, Err(DataError::Truncated { .. })));
        let wrong = NpyHeader::read(Path::new("x"), b"not numpy at all");
        assert!(matches!(wrong, Err(DataError::BadFormat { .. })));
    }
}
