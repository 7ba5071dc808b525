/// Element-wise functions, without parameters of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// `x`.
    #[default]
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `x * sigmoid(x)`.
    Silu,
    /// `x * Phi(x)`, with the exact normal distribution function.
    Gelu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `tanh(x)`.
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `x * relu6(x + 3) / 6`.
    HardSwish,
    /// `relu6(x + 3) / 6`.
    HardSigmoid,
    /// `1 / sqrt(x)`, and 0 where `x` is not positive: lengths of vectors are made of it.
    InverseSqrt,
}

impl Activation {
    /// Whether the derivative can be read off the *output*, so that the input need not be kept.
    pub fn derivative_from_output(self) -> bool {
        matches!(self, Self::Identity | Self::Relu | Self::Relu6)
    }
}
