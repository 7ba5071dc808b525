use super::PredictionRow;
use super::error::EncodeError;
use super::row::COLUMNS;
use super::writer::Encoder;
use std::fs::File;
use std::io::Write;

/// Comma-separated values: a header, then whole rows.
pub(super) struct CsvRows {
    file: File,
}

impl CsvRows {
    pub fn new(mut file: File) -> Result<Self, EncodeError> {
        let mut header = csv::Writer::from_writer(Vec::new());
        header.write_record(COLUMNS).map_err(std::io::Error::from)?;
        file.write_all(&finished(header)?)?;
        Ok(Self { file })
    }
}

impl Encoder for CsvRows {
    fn write(&mut self, rows: &[PredictionRow]) -> Result<(), EncodeError> {
        let mut text = csv::Writer::from_writer(Vec::new());
        for row in rows {
            let record = [
                row.id.clone(),
                row.class.to_string(),
                row.class_name.clone().unwrap_or_default(),
                row.confidence.to_string(),
                row.entropy.to_string(),
                row.flipped.map_or_else(String::new, |f| f.to_string()),
            ];
            text.write_record(&record).map_err(std::io::Error::from)?;
        }
        Ok(self.file.write_all(&finished(text)?)?)
    }

    fn finish(self: Box<Self>) -> Result<File, EncodeError> {
        Ok(self.file)
    }
}

fn finished(writer: csv::Writer<Vec<u8>>) -> Result<Vec<u8>, EncodeError> {
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(bytes)
}
