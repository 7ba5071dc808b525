/// Reads little-endian values from a slice; `None` means the slice ends too early.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at `at`, which may lie beyond the end: every read then gives `None`.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Offset of the next byte.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    pub(super) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// The next `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// The next `len` bytes, for a length a file declares.
    pub(super) fn take_declared(&mut self, len: u64) -> Option<&'a [u8]> {
        self.take(usize::try_from(len).ok()?)
    }

    /// The bytes up to the next newline, which is consumed but not returned.
    pub(super) fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let len = rest.iter().position(|&byte| byte == b'\n')?;
        self.at += len + 1;
        Some(&rest[..len])
    }

    /// The next `N` bytes by value.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    /// The next byte.
    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// The next two bytes.
    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes.
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes.
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_slice_gives_nothing_and_stays_put() {
        let mut reader = Reader::new(&[1, 2, 3], 0);
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.u16(), Some(0x0201));
        assert_eq!((reader.at(), reader.left()), (2, 1));
    }

    #[test]
    fn a_start_beyond_the_end_reads_nothing() {
        let mut reader = Reader::new(&[1], 9);
        assert_eq!((reader.left(), reader.u8(), reader.line()), (0, None, None));
    }

    #[test]
    fn a_length_near_the_largest_does_not_wrap() {
        assert_eq!(Reader::new(&[1, 2], 1).take(usize::MAX), None);
    }

    #[test]
    fn a_line_ends_before_its_newline() {
        let mut reader = Reader::new(b"torch\nrest", 0);
        assert_eq!(reader.line(), Some(&b"torch"[..]));
        assert_eq!(reader.line(), None);
    }
}
