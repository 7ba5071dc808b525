use super::PredictionRow;
use super::error::EncodeError;
use super::writer::Encoder;
use std::fs::File;
use std::io::Write;

/// One JSON object a line.
pub(super) struct JsonRows {
    file: File,
}

impl JsonRows {
    pub fn new(file: File) -> Self {
        Self { file }
    }
}

impl Encoder for JsonRows {
    fn write(&mut self, rows: &[PredictionRow]) -> Result<(), EncodeError> {
        let mut text = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut text, row).map_err(std::io::Error::from)?;
            text.push(b'\n');
        }
        Ok(self.file.write_all(&text)?)
    }

    fn finish(self: Box<Self>) -> Result<File, EncodeError> {
        Ok(self.file)
    }
}
