use crate::lanes::{Lanes, Task};
use crate::portable::Portable;
use std::fmt;

/// An instruction set this machine has. A value of this type is proof that it may be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Isa(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Portable,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The best instruction set here.
    pub fn detect() -> Self {
        *Self::available().last().expect("the portable set is always there")
    }

    /// Every instruction set here, worst first.
    pub fn available() -> Vec<Self> {
        let mut sets = vec![Self(Kind::Portable)];
        // Every 64-bit ARM has it.
        #[cfg(target_arch = "aarch64")]
        sets.push(Self(Kind::Neon));
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(Self(Kind::Avx2));
                let wide = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl");
                if wide {
                    sets.push(Self(Kind::Avx512));
                }
            }
        }
        sets
    }

    /// The available set called `scalar`, `avx2`, `avx512` or `neon`.
    pub fn named(name: &str) -> Option<Self> {
        Self::available().into_iter().find(|isa| isa.name() == name)
    }

    /// `scalar`, `avx2`, `avx512` or `neon`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "scalar",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "neon",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
        }
    }

    /// Floats per vector register.
    pub fn lanes(self) -> usize {
        match self.0 {
            Kind::Portable => Portable::N,
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => crate::neon::Neon::N,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => crate::avx2::Avx2::N,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => crate::avx512::Avx512::N,
        }
    }

    /// Most rows of a matrix tile.
    pub(crate) fn tile_rows(self) -> usize {
        match self.0 {
            Kind::Portable => Portable::TILE_ROWS,
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => crate::neon::Neon::TILE_ROWS,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => crate::avx2::Avx2::TILE_ROWS,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => crate::avx512::Avx512::TILE_ROWS,
        }
    }

    /// Runs `task` with this instruction set.
    pub fn run<T: Task>(self, task: T) -> T::Output {
        // SAFETY: `self` exists only if `available` found the set on this machine.
        unsafe {
            match self.0 {
                Kind::Portable => Portable::vectorize(task),
                #[cfg(target_arch = "aarch64")]
                Kind::Neon => crate::neon::Neon::vectorize(task),
                #[cfg(target_arch = "x86_64")]
                Kind::Avx2 => crate::avx2::Avx2::vectorize(task),
                #[cfg(target_arch = "x86_64")]
                Kind::Avx512 => crate::avx512::Avx512::vectorize(task),
            }
        }
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
