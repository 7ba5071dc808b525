use super::PredictionError;
use std::path::Path;

/// How predictions are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header; quoted where needed.
    Csv,
    /// One JSON object a line.
    Jsonl,
    /// Apache Parquet, compressed with Snappy.
    Parquet,
}

impl Format {
    /// The format the end of a file's name stands for.
    pub fn of(path: &Path) -> Result<Self, PredictionError> {
        let end = path.extension().unwrap_or_default().to_string_lossy();
        match end.to_ascii_lowercase().as_str() {
            "csv" => Ok(Self::Csv),
            "jsonl" | "ndjson" => Ok(Self::Jsonl),
            "parquet" => Ok(Self::Parquet),
            _ => Err(PredictionError::UnknownFormat {
                path: path.to_owned(),
                found: match path.extension() {
                    Some(_) => format!(".{end}"),
                    None => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                },
            }),
        }
    }
}
