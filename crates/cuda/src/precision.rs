/// How numbers are stored and multiplied on the GPU. Statistics, losses, optimizers and the adapted scales and shifts are
/// 32-bit floats in every precision, and logits are handed out as such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32-bit values; products with 10-bit mantissas on tensor cores, sums in 32 bits.
    #[default]
    Tf32,
    /// 16-bit brain floats between layers and in products, sums in 32 bits.
    Bf16,
    /// 32-bit values and products.
    F32,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tf32, Self::Bf16, Self::F32];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// How activations and weights are stored.
    pub fn element(self) -> Element {
        match self {
            Self::Bf16 => Element::Bf16,
            Self::Tf32 | Self::F32 => Element::F32,
        }
    }
}

/// What a piece of device memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 16-bit brain floats.
    Bf16,
    /// 64-bit floats.
    F64,
    /// 32-bit integers.
    I32,
    /// Bytes.
    U8,
}

impl Element {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::Bf16 => 2,
            Self::U8 => 1,
        }
    }
}
