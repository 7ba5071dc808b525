/// What the bytes of images stand for: a value for each channel and byte, so that everybody who needs values makes the
/// same ones, bit for bit.
#[derive(Clone, Debug, PartialEq)]
pub struct ByteScale {
    /// 256 values per channel.
    values: Vec<f32>,
}

impl ByteScale {
    /// The scale on which `byte` of `channel` stands for `value(channel, byte)`.
    pub fn new(channels: usize, value: impl Fn(usize, u8) -> f32) -> Self {
        let channel = |channel| (0..=255).map(move |byte| (channel, byte));
        let values = (0..channels).flat_map(channel);
        Self { values: values.map(|(channel, byte)| value(channel, byte)).collect() }
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.values.len() / 256
    }

    /// 256 values per channel.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// What `byte` of `channel` stands for.
    pub fn value(&self, channel: usize, byte: u8) -> f32 {
        self.values[256 * channel + usize::from(byte)]
    }

    /// Writes the values of whole pixels.
    ///
    /// # Panics
    /// If there are not as many values as bytes, or the last pixel is not whole.
    pub fn write(&self, bytes: &[u8], values: &mut [f32]) {
        assert_eq!(values.len(), bytes.len(), "every byte has a value");
        let (tables, _) = self.values.as_chunks::<256>();
        if let [red, green, blue] = tables {
            let (pixels, rest) = bytes.as_chunks::<3>();
            assert!(rest.is_empty(), "pixels are whole");
            for (&[r, g, b], to) in pixels.iter().zip(values.as_chunks_mut::<3>().0) {
                *to = [red[usize::from(r)], green[usize::from(g)], blue[usize::from(b)]];
            }
            return;
        }
        let channels = self.channels().max(1);
        assert!(bytes.len().is_multiple_of(channels), "pixels are whole");
        for (at, (&byte, to)) in bytes.iter().zip(values).enumerate() {
            *to = self.value(at % channels, byte);
        }
    }

    /// Appends the values of whole pixels.
    pub fn append(&self, bytes: &[u8], values: &mut Vec<f32>) {
        let start = values.len();
        values.resize(start + bytes.len(), 0.0);
        self.write(bytes, &mut values[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_channel_has_values_of_its_own() {
        for channels in 1..=4 {
            let of = |channel: usize, byte: u8| 1000.0 * channel as f32 + f32::from(byte);
            let scale = ByteScale::new(channels, of);
            let bytes: Vec<u8> = (0..10 * channels).map(|at| (23 * at) as u8).collect();
            let mut values = vec![-1.0];
            scale.append(&bytes, &mut values);
            let expected = bytes.iter().enumerate();
            let expected: Vec<f32> = expected.map(|(at, &byte)| of(at % channels, byte)).collect();
            assert_eq!(values[1..], expected);
            assert_eq!(scale.channels(), channels);
        }
    }
}
