//! The kernels' source files.

/// A source file.
pub(crate) struct Source {
    pub file: &'static str,
    pub text: &'static str,
}

/// Files that others include.
pub(crate) const HEADERS: &[Source] = &[
    Source { file: "element.cuh", text: include_str!("../kernels/element.cuh") },
    Source { file: "corrupt.cuh", text: include_str!("../kernels/corrupt.cuh") },
    Source { file: "activation.cuh", text: include_str!("../kernels/activation.cuh") },
    Source { file: "attention.cuh", text: include_str!("../kernels/attention.cuh") },
    Source { file: "attention_tiles.cuh", text: include_str!("../kernels/attention_tiles.cuh") },
    Source { file: "mma.cuh", text: include_str!("../kernels/mma.cuh") },
    Source { file: "shared.cuh", text: include_str!("../kernels/shared.cuh") },
    Source { file: "step.cuh", text: include_str!("../kernels/step.cuh") },
    Source { file: "tables.cuh", text: include_str!("../kernels/tables.cuh") },
    Source { file: "warp.cuh", text: include_str!("../kernels/warp.cuh") },
    Source { file: "pointwise.cuh", text: include_str!("../kernels/pointwise.cuh") },
    Source { file: "warpgroup.cuh", text: include_str!("../kernels/warpgroup.cuh") },
    Source { file: "panel.cuh", text: include_str!("../kernels/panel.cuh") },
    Source { file: "rows.cuh", text: include_str!("../kernels/rows.cuh") },
];

/// Files with kernels, each compiled on its own.
pub(crate) const SOURCES: &[Source] = &[
    Source { file: "elementwise.cu", text: include_str!("../kernels/elementwise.cu") },
    Source { file: "corrupt.cu", text: include_str!("../kernels/corrupt.cu") },
    Source { file: "corrupt_bar.cu", text: include_str!("../kernels/corrupt_bar.cu") },
    Source { file: "preprocess.cu", text: include_str!("../kernels/preprocess.cu") },
    Source { file: "attention.cu", text: include_str!("../kernels/attention.cu") },
    Source { file: "attention_tensor.cu", text: include_str!("../kernels/attention_tensor.cu") },
    Source { file: "layer_norm.cu", text: include_str!("../kernels/layer_norm.cu") },
    Source { file: "loss.cu", text: include_str!("../kernels/loss.cu") },
    Source { file: "optimiser.cu", text: include_str!("../kernels/optimiser.cu") },
    Source { file: "tokens.cu", text: include_str!("../kernels/tokens.cu") },
    Source { file: "norm.cu", text: include_str!("../kernels/norm.cu") },
    Source { file: "norm_backward.cu", text: include_str!("../kernels/norm_backward.cu") },
    Source { file: "pointwise.cu", text: include_str!("../kernels/pointwise.cu") },
    Source { file: "pointwise_back.cu", text: include_str!("../kernels/pointwise_back.cu") },
    Source { file: "panel_pack.cu", text: include_str!("../kernels/panel_pack.cu") },
    Source { file: "panel_forward.cu", text: include_str!("../kernels/panel_forward.cu") },
    Source { file: "panel_back.cu", text: include_str!("../kernels/panel_back.cu") },
    Source { file: "pool.cu", text: include_str!("../kernels/pool.cu") },
    Source { file: "conv.cu", text: include_str!("../kernels/conv.cu") },
];
