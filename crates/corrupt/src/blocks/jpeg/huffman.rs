//! Huffman tables made for one image.

/// Longest code the format allows.
const LONGEST: usize = 16;

/// How often each symbol of a table occurs.
#[derive(Clone, Debug)]
pub struct Frequencies([u32; 256]);

impl Frequencies {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self([0; 256])
    }

    /// Counts a symbol.
    #[inline]
    pub fn count(&mut self, symbol: u8) {
        self.0[usize::from(symbol)] += 1;
    }
}

/// A code for every symbol that occurs.
#[derive(Clone, Debug, PartialEq)]
pub struct HuffmanTable {
    /// Number of codes of each length from 1 to 16.
    pub lengths: [u8; LONGEST],
    /// The symbols, shortest codes first.
    pub symbols: Vec<u8>,
    /// Code and its length, by symbol.
    codes: [(u16, u8); 256],
}

impl HuffmanTable {
    /// The shortest codes for these frequencies with at most 16 bits, none of them all ones (Annex K.2 of the standard).
    pub fn optimal(frequencies: &Frequencies) -> Self {
        let depths = code_depths(&frequencies.0);
        // Codes longer than the format allows are shortened pairwise at the cost of a shorter one.
        let mut counts = [0_usize; 257];
        for &depth in depths.iter().filter(|&&depth| depth > 0) {
            counts[depth] += 1;
        }
        for length in (LONGEST + 1..counts.len()).rev() {
            while counts[length] > 0 {
                let donor = (1..length - 1).rev().find(|&shorter| counts[shorter] > 0).expect("a full tree has one");
                counts[length] -= 2;
                counts[length - 1] += 1;
                counts[donor + 1] += 2;
                counts[donor] -= 1;
            }
        }
        // The reserved symbol takes one of the longest codes, the one of all ones.
        let longest = (1..=LONGEST).rev().find(|&length| counts[length] > 0).expect("the reserved symbol has a code");
        counts[longest] -= 1;
        let mut symbols: Vec<u8> = (0..=255).filter(|&symbol| depths[usize::from(symbol)] > 0).collect();
        symbols.sort_by_key(|&symbol| (depths[usize::from(symbol)], symbol));
        Self::new(std::array::from_fn(|i| counts[i + 1] as u8), symbols)
    }

    fn new(lengths: [u8; LONGEST], symbols: Vec<u8>) -> Self {
        let mut codes = [(0, 0); 256];
        let (mut code, mut next) = (0_u16, symbols.iter());
        for (length, &count) in (1..).zip(&lengths) {
            for &symbol in next.by_ref().take(usize::from(count)) {
                codes[usize::from(symbol)] = (code, length);
                code = code.wrapping_add(1);
            }
            code = code.wrapping_shl(1);
        }
        Self { lengths, symbols, codes }
    }

    /// The code of a symbol and its number of bits.
    #[inline]
    pub fn code(&self, symbol: u8) -> (u16, u8) {
        self.codes[usize::from(symbol)]
    }
}

/// The depth of every symbol in a Huffman tree that also holds a reserved symbol of frequency 1 (index 256).
fn code_depths(frequencies: &[u32; 256]) -> [usize; 257] {
    let mut weight: Vec<u64> = frequencies.iter().map(|&f| u64::from(f)).chain([1]).collect();
    let mut depths = [0; 257];
    // Each tree is the list of its leaves.
    let mut leaves: Vec<Vec<usize>> = (0..257).map(|leaf| vec![leaf]).collect();
    let mut alive: Vec<usize> = (0..257).filter(|&i| weight[i] > 0).collect();
    while alive.len() > 1 {
        // The lightest two; of equal ones the later symbols, so that the reserved one goes deepest.
        alive.sort_by_key(|&i| (std::cmp::Reverse(weight[i]), i));
        let (second, first) = (alive.pop().expect("two are left"), alive.pop().expect("two are left"));
        weight[first] += weight[second];
        let moved = std::mem::take(&mut leaves[second]);
        leaves[first].extend(moved);
        for &leaf in &leaves[first] {
            depths[leaf] += 1;
        }
        alive.push(first);
    }
    if let [only] = alive[..] {
        // A table of the reserved symbol alone still needs a code.
        if depths[256] == 0 {
            depths[only] = 1;
        }
    }
    depths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(frequencies: &Frequencies) -> HuffmanTable {
        let table = HuffmanTable::optimal(frequencies);
        let used = frequencies.0.iter().filter(|&&f| f > 0).count();
        assert_eq!(table.symbols.len(), used);
        assert_eq!(table.lengths.iter().map(|&n| usize::from(n)).sum::<usize>(), used);
        let codes: Vec<(u16, u8)> = table.symbols.iter().map(|&symbol| table.code(symbol)).collect();
        for (i, &(code, length)) in codes.iter().enumerate() {
            assert!((1..=16).contains(&length));
            assert_ne!(u32::from(code), (1 << length) - 1, "a code of all ones");
            for &(other, longer) in &codes[i + 1..] {
                assert!(longer >= length && other >> (longer - length) != code, "one code starts another");
            }
        }
        table
    }

    #[test]
    fn frequent_symbols_get_short_codes() {
        let mut frequencies = Frequencies::new();
        for (symbol, times) in [(3, 100), (7, 10), (9, 1), (200, 1)] {
            (0..times).for_each(|_| frequencies.count(symbol));
        }
        let table = check(&frequencies);
        assert_eq!(table.code(3).1, 1);
        assert!(table.code(200).1 > table.code(7).1);
    }

    #[test]
    fn codes_never_exceed_sixteen_bits() {
        let (mut a, mut b) = (1_u32, 1_u32);
        let mut frequencies = Frequencies::new();
        for symbol in 0..40 {
            frequencies.0[symbol] = a;
            (a, b) = (b, a + b);
        }
        check(&frequencies);
        check(&Frequencies([1; 256]));
    }

    #[test]
    fn a_single_symbol_has_a_code() {
        let mut frequencies = Frequencies::new();
        frequencies.count(0);
        assert_eq!(check(&frequencies).code(0), (0, 1));
    }
}
