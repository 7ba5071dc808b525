//! For tests: reads the files of [`encode`](super::encode) with the arithmetic of the reference library.

use flipcast_images::Image;

use super::colour::{Plane, merge};
use super::dct;
use super::file::ZIGZAG;

/// The pixels that the reference library decodes from a baseline file with halved chroma.
pub(crate) fn decode(file: &[u8]) -> Image {
    let mut tables = Tables::default();
    let mut at = 2;
    loop {
        assert_eq!(file[at], 0xff, "a marker at {at}");
        let marker = file[at + 1];
        let end = at + 2 + usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]]));
        let body = &file[at + 4..end];
        match marker {
            0xdb => tables.steps[usize::from(body[0])] = body[1..].to_vec(),
            0xc4 => tables.codes[usize::from(body[0] >> 4)][usize::from(body[0] & 15)] = codes(&body[1..]),
            0xc0 => tables.size = [3, 1].map(|i| usize::from(u16::from_be_bytes([body[i], body[i + 1]]))),
            _ => {}
        }
        at = end;
        if marker == 0xda {
            return tables.scan(&file[at..file.len() - 2]);
        }
    }
}

#[derive(Default)]
struct Tables {
    /// Width and height.
    size: [usize; 2],
    /// Divisors of luma and chroma in file order.
    steps: [Vec<u8>; 2],
    /// Code, its length and its symbol: of first values, then of the rest, each for luma and chroma.
    codes: [[Vec<(u32, u8, u8)>; 2]; 2],
}

fn codes(body: &[u8]) -> Vec<(u32, u8, u8)> {
    let (mut code, mut found) = (0, Vec::new());
    let mut symbols = body[16..].iter();
    for (length, &count) in (1..).zip(&body[..16]) {
        for &symbol in symbols.by_ref().take(usize::from(count)) {
            found.push((code, length, symbol));
            code += 1;
        }
        code <<= 1;
    }
    found
}

impl Tables {
    fn scan(&self, data: &[u8]) -> Image {
        let [width, height] = self.size;
        let stride = width.next_multiple_of(16);
        let half = |side: usize| side.div_ceil(2);
        let mut planes = [
            Plane::black(width, height, stride),
            Plane::black(half(width), half(height), stride / 2),
            Plane::black(half(width), half(height), stride / 2),
        ];
        let mut bits = Bits { data, at: 0, held: 0, count: 0 };
        let mut means = [0; 3];
        let across = width.div_ceil(16);
        for square in 0..across * height.div_ceil(16) {
            let (row, column) = (square / across, square % across);
            let places = [0, 1, 2, 3].map(|i| (0, 2 * row + i / 2, 2 * column + i % 2));
            for (component, block_row, block_column) in places.into_iter().chain([(1, row, column), (2, row, column)]) {
                let samples = self.block(&mut bits, component.min(1), &mut means[component]);
                let plane = &mut planes[component];
                for (y, line) in samples.chunks_exact(8).enumerate() {
                    let y = 8 * block_row + y;
                    if y < plane.height.next_multiple_of(8) && 8 * block_column < plane.stride {
                        plane.row_mut(y)[8 * block_column..][..8].copy_from_slice(line);
                    }
                }
            }
        }
        merge(&planes)
    }

    /// The samples of the next block, row by row.
    fn block(&self, bits: &mut Bits, kind: usize, mean: &mut i32) -> Vec<u8> {
        let mut block = [[0]; 64];
        let mut put = |at: usize, level: i32| {
            let place = ZIGZAG[at];
            block[8 * (place % 8) + place / 8] = [level * i32::from(self.steps[kind][at])];
        };
        let length = bits.symbol(&self.codes[0][kind]);
        *mean += bits.value(length);
        put(0, *mean);
        let mut at = 1;
        while at < 64 {
            let symbol = bits.symbol(&self.codes[1][kind]);
            match (symbol >> 4, symbol & 15) {
                (0, 0) => break,
                (zeros, length) => {
                    at += usize::from(zeros);
                    put(at, bits.value(length));
                    at += 1;
                }
            }
        }
        dct::inverse(&mut block);
        (0..64).map(|i| block[8 * (i % 8) + i / 8][0].clamp(0, 255) as u8).collect()
    }
}

struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    held: u32,
    count: u8,
}

impl Bits<'_> {
    fn bit(&mut self) -> u32 {
        if self.count == 0 {
            self.held = u32::from(self.data[self.at]);
            // A byte of all ones is followed by a zero byte.
            self.at += 1 + usize::from(self.held == 0xff);
            self.count = 8;
        }
        self.count -= 1;
        self.held >> self.count & 1
    }

    fn symbol(&mut self, codes: &[(u32, u8, u8)]) -> u8 {
        let (mut code, mut length) = (0, 0);
        loop {
            (code, length) = (code << 1 | self.bit(), length + 1);
            if let Some((.., symbol)) = codes.iter().find(|(c, l, _)| (*c, *l) == (code, length)) {
                return *symbol;
            }
            assert!(length < 16, "a code of the table");
        }
    }

    fn value(&mut self, length: u8) -> i32 {
        let value = (0..length).fold(0, |value, _| value << 1 | self.bit()) as i32;
        if length > 0 && value < 1 << (length - 1) { value - (1 << length) + 1 } else { value }
    }
}
