use super::CallError;

/// Elements that any file may ask for: two maps of 512 x 512 pixels.
const FREE: usize = 1 << 19;
/// Elements for every byte of a file: far more than its own weights, also where these are bytes.
const PER_BYTE: usize = 4;
/// Elements at most, so that their places are 32-bit numbers.
const MOST: usize = 1 << 31;

/// How many elements the constants of a program may still be made of, so that a small file cannot ask for much memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room(usize);

impl Room {
    /// The room of a file of so many bytes.
    pub fn of_file(bytes: usize) -> Self {
        Self(bytes.saturating_mul(PER_BYTE).saturating_add(FREE).min(MOST))
    }

    /// The number of elements of a constant of `extents`, if there is room for it.
    pub fn count(self, extents: &[usize]) -> Result<usize, CallError> {
        let count = extents.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        let problem = || {
            let Self(left) = self;
            format!("a constant of extents {extents:?}, where a file of this size may ask for {left} elements more")
        };
        count.filter(|&count| count <= self.0).ok_or_else(|| CallError::Extents { problem: problem() })
    }

    /// Takes room for so many elements.
    pub fn take(&mut self, elements: usize) -> Result<(), CallError> {
        self.0 -= self.count(&[elements])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_with_the_file_and_is_used_up() {
        assert!(Room::of_file(0).count(&[2, 512, 512]).is_ok());
        assert!(Room::of_file(0).count(&[2, 512, 513]).is_err());
        assert!(Room::of_file(1 << 20).count(&[1 << 22]).is_ok());
        assert!(Room::of_file(usize::MAX).count(&[usize::MAX, 2]).is_err());
        assert!(Room::of_file(usize::MAX).count(&[MOST + 1]).is_err());
        let mut room = Room::of_file(0);
        room.take(FREE - 1).unwrap();
        room.take(1).unwrap();
        let error = room.take(1).unwrap_err();
        assert!(error.to_string().contains("0 elements more"), "{error}");
    }
}
