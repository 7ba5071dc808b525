use flipcast_ground::Hint;

use super::super::Limits;
use super::*;

/// A file of the kind named, 3 x 2 pixels.
fn small_png() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, 3, 2);
    encoder.set_color(::png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&(0..18).collect::<Vec<u8>>()).unwrap();
    writer.finish().unwrap();
    bytes
}

/// A 24-bit BMP header and `data` bytes.
fn small_bmp(width: u32, height: u32, data: usize) -> Vec<u8> {
    let mut bytes = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
    bytes.extend(width.to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend([1, 0, 24, 0]);
    bytes.resize(54, 0);
    bytes.resize(54 + data, 7);
    bytes
}

#[test]
fn content_decides_and_unknown_content_is_shown() {
    assert_eq!(decode(b""), Err(DecodeError::Empty));
    let refused = decode(b"<html>no</html>").unwrap_err();
    assert_eq!(refused, DecodeError::UnknownFormat { start: "3c 68 74 6d 6c 3e 6e 6f".into() });
    assert!(refused.hint().is_some());
}

#[test]
fn formats_that_are_not_read_are_named_with_advice() {
    for (start, name) in [
        (&b"\0\0\0\x1cftypavif\0\0\0\0"[..], "AVIF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0", "HEIC"),
        (b"\xff\x0a\0\0", "JPEG XL"),
    ] {
        let refused = decode(start).unwrap_err();
        assert_eq!(refused, DecodeError::NotRead { found: name });
        assert!(refused.hint().unwrap().contains("PNG"));
    }
}

#[test]
fn cut_off_files_are_truncated_at_every_length() {
    let whole = small_png();
    assert_eq!(decode(&whole).unwrap().rgb()[17], 17);
    for len in 8..whole.len() {
        let refused = decode(&whole[..len]).unwrap_err();
        assert!(matches!(refused, DecodeError::Truncated { format: Format::Png, .. }), "{len}: {refused}");
    }
    let whole = small_bmp(3, 2, 24);
    assert!(decode(&whole).is_ok());
    for len in 2..whole.len() - 3 {
        let refused = decode(&whole[..len]).unwrap_err();
        assert!(matches!(refused, DecodeError::Truncated { format: Format::Bmp, .. }), "{len}: {refused}");
    }
    for start in [&b"GIF89a\x03\0"[..], b"\xff\xd8\xff\xe0\0\x10JFIF", b"RIFF\xff\0\0\0WEBPVP8 "] {
        assert!(matches!(decode(start), Err(DecodeError::Truncated { .. })), "{start:?}");
    }
}

#[test]
fn a_jpeg_without_its_end_marker_is_truncated() {
    let mut bytes = vec![0xFF, 0xD8, 0xFF, 0xDA, 0, 2];
    bytes.extend([1, 2, 0xFF, 0, 3, 0xFF, 0xD0, 4]);
    let refused = decode(&bytes).unwrap_err();
    assert_eq!(refused, DecodeError::Truncated { format: Format::Jpeg, found: 14 });
    // With the marker it is complete, but has no frame header.
    bytes.extend([0xFF, 0xD9]);
    assert!(matches!(decode(&bytes), Err(DecodeError::Damaged { .. })));
}

#[test]
fn declared_sizes_are_checked_before_memory_is_taken() {
    let mut png = small_png();
    png[16..20].copy_from_slice(&100_000u32.to_be_bytes());
    png[20..24].copy_from_slice(&100_000u32.to_be_bytes());
    let crc = crc32(&png[12..29]);
    png[29..33].copy_from_slice(&crc.to_be_bytes());
    let expected = |format| DecodeError::TooLarge { format, width: 100_000, height: 100_000, limit: 178_956_970 };
    assert_eq!(decode(&png), Err(expected(Format::Png)));
    assert_eq!(decode(&small_bmp(100_000, 100_000, 6)), Err(expected(Format::Bmp)));

    let options = DecodeOptions { limits: Limits { max_pixels: 5 }, ..DecodeOptions::default() };
    let refused = decode_with(&small_png(), &options).unwrap_err();
    assert!(matches!(refused, DecodeError::TooLarge { width: 3, height: 2, limit: 5, .. }));
}

#[test]
fn a_jpeg_header_of_65535_squared_is_too_large() {
    let frame = [
        0xFF, 0xD8, // start
        0xFF, 0xDB, 0, 67, 0, // one quantisation table of ones follows
    ];
    let mut bytes = frame.to_vec();
    bytes.extend([1; 64]);
    bytes.extend([0xFF, 0xC0, 0, 11, 8, 0xFF, 0xFF, 0xFF, 0xFF, 1, 1, 0x11, 0]);
    bytes.extend([0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0, 0xFF, 0xD9]);
    let refused = decode(&bytes).unwrap_err();
    assert!(matches!(refused, DecodeError::TooLarge { width: 65_535, height: 65_535, .. }), "{refused}");
}

#[test]
fn a_zero_side_has_no_pixels() {
    let refused = decode(&small_bmp(0, 2, 24)).unwrap_err();
    assert!(matches!(refused, DecodeError::NoPixels { width: 0, height: 2, .. }));
}

#[test]
fn damaged_pixels_are_refused() {
    let mut png = small_png();
    let at = png.len() - 20;
    png[at] ^= 0x55;
    assert!(matches!(decode(&png), Err(DecodeError::Damaged { format: Format::Png, .. })));
}

#[test]
fn unknown_bmp_kinds_are_named() {
    let mut jpeg_inside = small_bmp(3, 2, 24);
    jpeg_inside[30] = 4;
    assert!(matches!(decode(&jpeg_inside), Err(DecodeError::Unsupported { .. })));
}

#[test]
fn run_length_coded_bmp_is_unrolled() {
    let mut bytes = small_bmp(4, 2, 0);
    bytes[28] = 8;
    bytes[30] = 1;
    bytes[46] = 2;
    bytes.extend([10, 20, 30, 0, 40, 50, 60, 0]);
    bytes[10] = bytes.len() as u8;
    // Bottom row: four times colour 1. Top row: three literal bytes and a run of one.
    bytes.extend([4, 1, 0, 0, 0, 3, 0, 1, 0, 0, 1, 1, 0, 1]);
    let image = decode(&bytes).unwrap();
    let reds: Vec<u8> = image.rgb().chunks(3).map(|p| p[0]).collect();
    assert_eq!(reds, [30, 60, 30, 60, 60, 60, 60, 60]);
    bytes.truncate(bytes.len() - 4);
    assert!(matches!(decode(&bytes), Err(DecodeError::Truncated { .. })));
}

/// The checksum PNG chunks end with.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
