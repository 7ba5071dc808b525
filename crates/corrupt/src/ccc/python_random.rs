//! Python's `random.choice`: the Mersenne Twister with Python's seeding and rejection.

const WORDS: usize = 624;
const MIDDLE: usize = 397;

/// The generator behind Python's `random` module.
#[derive(Clone, Debug)]
pub struct PythonRandom {
    state: [u32; WORDS],
    next: usize,
}

impl PythonRandom {
    /// As `random.seed(seed)` for a whole number.
    pub fn new(seed: u32) -> Self {
        let mut state = [0; WORDS];
        state[0] = 19_650_218_u32;
        for i in 1..WORDS {
            state[i] = mixed(state[i - 1], 1_812_433_253).wrapping_add(i as u32);
        }
        // Python seeds with an array of words; whole numbers below 2^32 are an array of one.
        let mut i = 1;
        for _ in 0..WORDS {
            state[i] = (state[i] ^ mixed(state[i - 1], 1_664_525)).wrapping_add(seed);
            i = advance(i, &mut state);
        }
        for _ in 1..WORDS {
            state[i] = (state[i] ^ mixed(state[i - 1], 1_566_083_941)).wrapping_sub(i as u32);
            i = advance(i, &mut state);
        }
        state[0] = 0x8000_0000;
        Self { state, next: WORDS }
    }

    fn bits(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    fn twist(&mut self) {
        for i in 0..WORDS {
            let joined = self.state[i] & 0x8000_0000 | self.state[(i + 1) % WORDS] & 0x7fff_ffff;
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + MIDDLE) % WORDS] ^ joined >> 1 ^ odd;
        }
        self.next = 0;
    }

    /// As `random.choice(range(count))`; `count` is at least 1.
    pub fn choice(&mut self, count: usize) -> usize {
        let count = count as u32;
        let unused = count.leading_zeros();
        loop {
            let drawn = self.bits() >> unused;
            if drawn < count {
                return drawn as usize;
            }
        }
    }
}

fn mixed(word: u32, factor: u32) -> u32 {
    (word ^ word >> 30).wrapping_mul(factor)
}

fn advance(i: usize, state: &mut [u32; WORDS]) -> usize {
    if i + 1 < WORDS {
        return i + 1;
    }
    state[0] = state[WORDS - 1];
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_python() {
        // [random.getrandbits(32) for _ in range(3)] after random.seed(42).
        let mut random = PythonRandom::new(42);
        assert_eq!([0; 3].map(|_: i32| random.bits()), [2_746_317_213, 478_163_327, 107_420_369]);
    }
}
