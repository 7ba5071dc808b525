//! The header of a `.npy` file, version 1.0.

/// The header of a C-order array with this element type (`|u1`, `<i8`) and shape.
pub fn header(element: &str, shape: &[usize]) -> Vec<u8> {
    let sides: Vec<String> = shape.iter().map(usize::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text =
        format!("{{'descr': '{element}', 'fortran_order': False, 'shape': ({}{comma}), }}", sides.join(", "));
    // Data starts at a multiple of 64 bytes; ten come before the text and a line end after it.
    let padded = (10 + text.len() + 1).next_multiple_of(64);
    text.push_str(&" ".repeat(padded - 11 - text.len()));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let length = u16::try_from(text.len()).expect("a shape of at most four numbers is short");
    bytes.extend(length.to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_aligned_and_name_the_shape() {
        for shape in [vec![5], vec![50_000, 32, 32, 3]] {
            let bytes = header("|u1", &shape);
            assert_eq!(bytes.len() % 64, 0);
            assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
            assert_eq!(bytes.last(), Some(&b'\n'));
        }
        let text = String::from_utf8_lossy(&header("<i8", &[5])[10..]).into_owned();
        assert!(text.starts_with("{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }"));
    }
}
