use crate::weights::ImportError;
use std::ops::Range;

/// One field of a message: a number, or a place in the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    /// Text, bytes, a packed list or another message.
    Bytes(Range<usize>),
}

/// The fields of a message, in the order in which they are stored.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    /// The fields of the message at `place` in `bytes`, which lies inside.
    pub fn new(bytes: &'a [u8], place: Range<usize>) -> Self {
        Self { bytes, at: place.start, end: place.end }
    }

    /// Number and value of the next field; `None` at the end of the message.
    pub fn next(&mut self) -> Result<Option<(u32, Field)>, ImportError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|&number| number > 0);
        let number = number.ok_or(ImportError::BadProtobuf { at: self.at, problem: "a field without a number" })?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(self.fixed()?),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(self.fixed()?),
            _ => return Err(ImportError::BadProtobuf { at: self.at, problem: "a field of an unknown kind" }),
        };
        Ok(Some((number, field)))
    }

    /// The next number of a packed list.
    pub fn next_packed(&mut self) -> Result<Option<u64>, ImportError> {
        if self.at >= self.end { Ok(None) } else { self.varint().map(Some) }
    }

    fn varint(&mut self) -> Result<u64, ImportError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let at = self.take(1)?.start;
            let byte = self.bytes[at];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ImportError::BadProtobuf { at: self.at, problem: "a number of more than ten bytes" })
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], ImportError> {
        let place = self.take(N as u64)?;
        Ok(self.bytes[place].try_into().expect("as many bytes were taken"))
    }

    fn take(&mut self, length: u64) -> Result<Range<usize>, ImportError> {
        let left = (self.end - self.at) as u64;
        if length > left {
            return Err(ImportError::Truncated { what: "an ONNX field".into(), needed: length, found: left });
        }
        let place = self.at..self.at + length as usize;
        self.at = place.end;
        Ok(place)
    }
}

impl Field {
    /// A whole number; signed ones are stored as their two's complement.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Varint(value) => Some(*value as i64),
            _ => None,
        }
    }

    pub fn float(&self) -> Option<f32> {
        match self {
            Self::Fixed32(bytes) => Some(f32::from_le_bytes(*bytes)),
            _ => None,
        }
    }

    pub fn place(&self) -> Option<Range<usize>> {
        match self {
            Self::Bytes(place) => Some(place.clone()),
            _ => None,
        }
    }

    /// Text; bytes that are not UTF-8 are replaced.
    pub fn text(&self, bytes: &[u8]) -> Option<String> {
        self.place().map(|place| String::from_utf8_lossy(&bytes[place]).into_owned())
    }

    /// Adds the numbers of a repeated field, packed or one by one.
    pub fn push_ints(&self, bytes: &[u8], to: &mut Vec<i64>) -> Result<(), ImportError> {
        match self {
            Self::Varint(value) => to.push(*value as i64),
            Self::Bytes(place) => {
                let mut packed = Fields::new(bytes, place.clone());
                while let Some(value) = packed.next_packed()? {
                    to.push(value as i64);
                }
            }
            Self::Fixed32(_) | Self::Fixed64(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u32, Field)>, ImportError> {
        let mut fields = Fields::new(bytes, 0..bytes.len());
        let mut found = Vec::new();
        while let Some(field) = fields.next()? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn every_kind_of_field_is_read() {
        let found = all(&[0x08, 0xac, 0x02, 0x12, 2, b'h', b'i', 0x1d, 0, 0, 128, 63]).unwrap();
        assert_eq!(found[0], (1, Field::Varint(300)));
        assert_eq!(found[1], (2, Field::Bytes(5..7)));
        assert_eq!(found[2].1.float(), Some(1.0));
    }

    #[test]
    fn what_reaches_beyond_its_message_is_refused() {
        for bytes in [&[0x08][..], &[0x12, 5, 1], &[0x1d, 1, 2], &[0x08, 0x80]] {
            assert!(matches!(all(bytes), Err(ImportError::Truncated { .. })), "{bytes:?}");
        }
    }

    #[test]
    fn malformed_fields_are_refused() {
        for bytes in
            [&[0x0b][..], &[0x00, 0x00], &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]]
        {
            assert!(matches!(all(bytes), Err(ImportError::BadProtobuf { .. })), "{bytes:?}");
        }
    }
}
