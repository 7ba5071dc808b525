use super::GoldenError;
use flipcast_tensor::{Shape, Tensor};
use safetensors::{Dtype, SafeTensors};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The tensors of one safetensors file, in `f64`.
#[derive(Clone, Debug)]
pub struct TensorFile {
    path: String,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
}

impl TensorFile {
    /// Reads all tensors of the file at `path`.
    pub fn load(path: &Path) -> Result<Self, GoldenError> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|source| GoldenError::Read { path: name.clone(), source })?;
        Self::read(name, &bytes)
    }

    /// Reads all tensors in `bytes`; `path` appears in errors.
    pub fn read(path: String, bytes: &[u8]) -> Result<Self, GoldenError> {
        let file = match SafeTensors::deserialize(bytes) {
            Ok(file) => file,
            Err(source) => return Err(GoldenError::Format { path, source }),
        };
        let mut tensors = BTreeMap::new();
        for (name, view) in file.iter() {
            let data = view.data();
            let values = match view.dtype() {
                Dtype::F32 => each(data, |b| f64::from(f32::from_le_bytes(b))),
                Dtype::F64 => each(data, f64::from_le_bytes),
                Dtype::I64 => each(data, |b| i64::from_le_bytes(b) as f64),
                other => {
                    return Err(GoldenError::ElementType { path, name: name.to_owned(), found: format!("{other:?}") });
                }
            };
            tensors.insert(name.to_owned(), (view.shape().to_vec(), values));
        }
        Ok(Self { path, tensors })
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The extents of a tensor.
    pub fn shape(&self, name: &str) -> Result<&[usize], GoldenError> {
        self.find(name).map(|(shape, _)| shape.as_slice())
    }

    /// The values of a tensor in row-major order.
    pub fn values(&self, name: &str) -> Result<&[f64], GoldenError> {
        self.find(name).map(|(_, values)| values.as_slice())
    }

    /// All tensors as `f32`, which loses nothing when the file stores `f32`.
    pub fn to_tensors(&self) -> Result<HashMap<String, Tensor>, GoldenError> {
        self.tensors
            .iter()
            .map(|(name, (shape, values))| {
                let values = values.iter().map(|&v| v as f32).collect();
                let tensor = Tensor::new(Shape::new(shape.clone()), values);
                match tensor {
                    Ok(tensor) => Ok((name.clone(), tensor)),
                    Err(source) => Err(GoldenError::Tensor { path: self.path.clone(), source }),
                }
            })
            .collect()
    }

    /// Where the tensors came from.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn find(&self, name: &str) -> Result<&(Vec<usize>, Vec<f64>), GoldenError> {
        self.tensors
            .get(name)
            .ok_or_else(|| GoldenError::MissingTensor { path: self.path.clone(), name: name.to_owned() })
    }
}

fn each<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    let (chunks, _) = bytes.as_chunks::<N>();
    chunks.iter().map(|&chunk| convert(chunk)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one tensor, as the format describes it: header length, header, data.
    fn file(dtype: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let end = data.len();
        let header = format!(r#"{{"x":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{end}]}}}}"#);
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn doubles_keep_all_their_digits() {
        let bytes = file("F64", "[1]", &0.1f64.to_le_bytes());
        let read = TensorFile::read("memory".into(), &bytes).unwrap();
        assert_eq!(read.values("x").unwrap(), [0.1]);
        assert_eq!(read.shape("x").unwrap(), [1]);
    }

    #[test]
    fn a_missing_tensor_is_named() {
        let bytes = file("F32", "[1]", &1f32.to_le_bytes());
        let read = TensorFile::read("memory".into(), &bytes).unwrap();
        assert_eq!(read.values("y").unwrap_err().to_string(), "there is no tensor `y` in `memory`");
    }

    #[test]
    fn a_truncated_file_is_refused() {
        let bytes = file("F32", "[2]", &[0; 8]);
        let error = TensorFile::read("memory".into(), &bytes[..bytes.len() - 1]).unwrap_err();
        assert!(matches!(error, GoldenError::Format { .. }), "{error}");
    }

    #[test]
    fn another_element_type_is_refused() {
        let bytes = file("U8", "[2]", &[1, 2]);
        let error = TensorFile::read("memory".into(), &bytes).unwrap_err();
        assert!(matches!(error, GoldenError::ElementType { .. }), "{error}");
    }
}
