//! Tensors of the Open Inference Protocol: JSON or bytes behind the JSON.

use crate::prepared::{Layout, RawImages, Tensor};
use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flipcast_images::preprocess::Size;
use serde::de::{DeserializeSeed, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;

/// Largest extent of an image, so that products of extents fit.
const LARGEST_EXTENT: usize = 1 << 16;

/// Why a tensor cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct BadTensor(pub String);

/// A tensor as a request names it.
#[derive(Deserialize)]
pub struct RequestTensor {
    pub name: String,
    pub shape: Vec<usize>,
    pub datatype: String,
    #[serde(default)]
    pub parameters: Map<String, Value>,
    #[serde(default)]
    data: Option<Flat>,
}

/// The elements of JSON data, however deep: numbers or texts, never the tree they came in, which takes many times their memory.
#[derive(Default)]
struct Flat {
    numbers: Vec<f32>,
    texts: Vec<String>,
    /// Whether all numbers are whole and from 0 to 255.
    are_bytes: bool,
}

impl<'de> Deserialize<'de> for Flat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut flat = Self { are_bytes: true, ..Self::default() };
        deserializer.deserialize_any(Elements(&mut flat))?;
        Ok(flat)
    }
}

/// Takes elements, and those of arrays within.
struct Elements<'a>(&'a mut Flat);

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("numbers, texts, or arrays of them")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element_seed(Elements(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.are_bytes &= value <= 255;
        self.0.numbers.push(value as f32);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.are_bytes = false;
        self.0.numbers.push(value as f32);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.are_bytes = false;
        self.0.numbers.push(value as f32);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.texts.push(value.to_owned());
        Ok(())
    }
}

impl RequestTensor {
    /// A tensor whose bytes, `length` of them, come separately.
    pub fn of_bytes(name: String, shape: Vec<usize>, datatype: String, length: usize) -> Self {
        let parameters = Map::from_iter([("binary_data_size".to_owned(), length.into())]);
        Self { name, shape, datatype, parameters, data: None }
    }

    /// Takes its bytes from the front of `binary`, if it has any there.
    fn take_binary(&self, binary: &mut Bytes) -> Result<Option<Bytes>, BadTensor> {
        let Some(size) = self.parameters.get("binary_data_size") else { return Ok(None) };
        let size = size.as_u64().and_then(|size| usize::try_from(size).ok());
        match size.filter(|size| *size <= binary.len()) {
            Some(size) => Ok(Some(binary.split_to(size))),
            None => Err(self.bad("`binary_data_size` is more than what follows the JSON")),
        }
    }

    fn bad(&self, reason: impl std::fmt::Display) -> BadTensor {
        BadTensor(format!("tensor `{}`: {reason}", self.name.chars().take(64).collect::<String>()))
    }

    /// Values of an `FP32` tensor.
    pub fn floats(&self, binary: &mut Bytes) -> Result<Vec<f32>, BadTensor> {
        if self.datatype != "FP32" {
            return Err(self.bad(format!("its datatype is `{}`, expected FP32", self.datatype)));
        }
        let values = match self.take_binary(binary)? {
            Some(bytes) => {
                let (values, rest) = bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(self.bad("it ends within a number"));
                }
                values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
            }
            None => self.json("a number", |data| data.texts.is_empty())?.numbers.clone(),
        };
        self.check_length(values.len(), self.elements()?)?;
        Ok(values)
    }

    /// Images, in whatever form they come.
    pub fn images(&self, binary: &mut Bytes) -> Result<RawImages, BadTensor> {
        match self.datatype.as_str() {
            "BYTES" => self.files(binary).map(RawImages::Encoded),
            "UINT8" => {
                let (images, size, layout) = self.extents()?;
                let data = match self.take_binary(binary)? {
                    Some(bytes) => bytes,
                    None => {
                        let are_bytes = |data: &Flat| data.are_bytes && data.texts.is_empty();
                        let data = self.json("a whole number from 0 to 255", are_bytes)?;
                        data.numbers.iter().map(|value| *value as u8).collect()
                    }
                };
                self.check_length(data.len(), self.elements()?)?;
                Ok(RawImages::Pixels(Tensor { images, size, layout, data }))
            }
            "FP32" => {
                let (images, size, layout) = self.extents()?;
                Ok(RawImages::Values(Tensor { images, size, layout, data: self.floats(binary)? }))
            }
            other => Err(self.bad(format!(
                "its datatype is `{}`, expected BYTES (files), UINT8 (pixels) or FP32 (what the network takes)",
                other.chars().take(16).collect::<String>()
            ))),
        }
    }

    fn files(&self, binary: &mut Bytes) -> Result<Vec<Bytes>, BadTensor> {
        let mut files = Vec::new();
        match self.take_binary(binary)? {
            Some(mut bytes) => {
                while !bytes.is_empty() {
                    let Some(length) = bytes.first_chunk::<4>() else { return Err(self.bad("a length is cut off")) };
                    let length = u32::from_le_bytes(*length) as usize;
                    if length > bytes.len() - 4 {
                        return Err(self.bad("an element is longer than what is left"));
                    }
                    let _ = bytes.split_to(4);
                    files.push(bytes.split_to(length));
                }
            }
            None => {
                let what = "a file in base64";
                for text in &self.json(what, |data| data.numbers.is_empty())?.texts {
                    let file = STANDARD.decode(text);
                    files.push(file.map_err(|_| self.bad(format!("an element of `data` is not {what}")))?.into());
                }
            }
        }
        self.check_length(files.len(), self.elements()?)?;
        Ok(files)
    }

    /// The data in JSON, if they are of the right kind.
    fn json(&self, what: &str, fits: impl Fn(&Flat) -> bool) -> Result<&Flat, BadTensor> {
        let data = self.data.as_ref().ok_or_else(|| self.bad("it has neither `data` nor `binary_data_size`"))?;
        if fits(data) { Ok(data) } else { Err(self.bad(format!("an element of `data` is not {what}"))) }
    }

    fn elements(&self) -> Result<usize, BadTensor> {
        let product = self.shape.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent));
        product.ok_or_else(|| self.bad("its shape is too large"))
    }

    fn check_length(&self, found: usize, expected: usize) -> Result<(), BadTensor> {
        if found == expected {
            return Ok(());
        }
        Err(self.bad(format!("it has {found} elements, but its shape says {expected}")))
    }

    /// Images, their size, and the order of axes. Three channels in the second axis mean channels first.
    fn extents(&self) -> Result<(usize, Size, Layout), BadTensor> {
        if self.shape.iter().any(|extent| *extent > LARGEST_EXTENT) {
            return Err(self.bad("its shape is too large"));
        }
        match self.shape[..] {
            [images, 3, height, width] => Ok((images, Size { width, height }, Layout::ChannelsFirst)),
            [images, height, width, 3] => Ok((images, Size { width, height }, Layout::ChannelsLast)),
            _ => {
                let mut found: Vec<String> = self.shape.iter().take(8).map(usize::to_string).collect();
                if self.shape.len() > found.len() {
                    found.push("...".to_owned());
                }
                let found = found.join(", ");
                let expected = "[images, 3, height, width] or [images, height, width, 3]";
                Err(self.bad(format!("its shape is [{found}], expected {expected}")))
            }
        }
    }
}
