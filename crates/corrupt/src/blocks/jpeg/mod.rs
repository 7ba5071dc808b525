//! What a JPEG does to pixels (colour conversion, chroma halving, DCT, quantiser and back), and writing JPEG files.

mod colour;
mod dct;
mod file;
mod huffman;
mod quantiser;
#[cfg(test)]
pub(crate) mod reference_decoder;
mod round_trip;

pub use file::{EncodeJpegError, encode};
pub use quantiser::{ANNEX_K_CHROMA, ANNEX_K_LUMA, Quantiser};
pub use round_trip::round_trip;
