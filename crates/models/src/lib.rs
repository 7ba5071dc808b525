//! Graph stage: weight files become named tensors, and a name and a weight file become a [`Model`].
//!
//! Takes an architecture by name, from a model card or recognised by its tensors, and a weight file in safetensors or
//! either of PyTorch's formats. Gives a [`Model`]: layers as a [`Graph`](flipcast_graph::Graph), weights as `f32` by
//! torchvision's parameter names, preprocessing and class names. An exported program of PyTorch or an ONNX
//! file brings its layers with it.
//!
//! Guarantees: a model has every parameter of its graph, with the right extents and finite values; whatever does not
//! fit is reported at once; nothing is filled in by guessing. Files are treated as hostile: nothing in them is ever
//! executed, every length is checked against the bytes that are there, and a file that cannot be read in full is a
//! typed error.
//!
//! | family | settings | builder | names accepted |
//! |---|---|---|---|
//! | ResNet, ResNeXt, Wide-ResNet-50-2, ResNet-50-GN, CIFAR ResNets | [`ResNetConfig`] | [`build_resnet`] | torchvision, timm; `linear` and `shortcut` |
//! | WRN-40-2, WRN-28-10 | [`WideResNetConfig`] | [`build_wide_resnet`] | `block1.layer.0.bn1`, as RobustBench |
//! | MobileNetV2 | [`MobileNetV2Config`] | [`build_mobilenet_v2`] | torchvision, timm, Transformers |
//! | EfficientNet-Lite0 to 2 | [`EfficientNetLiteConfig`] | [`build_efficientnet_lite`] | timm |
//! | EfficientNet-B0 | [`EfficientNetConfig`] | [`build_efficientnet`] | torchvision, timm |
//! | ViT and DeiT of any size | [`VitConfig`] | [`build_vit`] | torchvision, timm |
//! | MaxViT-T | [`MaxVitConfig`] | [`build_maxvit`] | torchvision, timm's `_tf` |
//! | Swin-T, S, B | [`SwinConfig`] | [`build_swin`] | torchvision, timm |
//! | ConvNeXt-T, S, B | [`ConvNextConfig`] | [`build_convnext`] | torchvision, timm |
#![deny(unsafe_code)]

mod architecture;
mod blocks;
mod check;
mod convnext;
mod derived;
mod efficientnet;
mod efficientnet_lite;
mod family;
mod fit;
mod foreign_card;
mod hub;
mod inspect;
mod known_from;
mod layout;
mod load;
mod maxvit;
mod mobilenet_v2;
mod model;
mod model_card;
mod model_error;
mod names;

mod program;
mod random;
mod recognise;
mod registry;
mod resnet;
mod resnet_cifar;
mod restored_norms;
mod shapes;
mod swin;
mod text;
mod vit;
mod vit_names;
mod vit_weights;
mod weight_tags;
pub mod weights;
mod wide_resnet;

pub use architecture::{Architecture, ArchitectureError};
pub use convnext::{ConvNextConfig, build_convnext};
pub use efficientnet::{EfficientNetConfig, EfficientNetStage, build_efficientnet};
pub use efficientnet_lite::{EfficientNetLiteConfig, Origin, build_efficientnet_lite};
pub use family::{ArchitectureConfig, Family};
pub use fit::{Fit, Mismatch};
pub use flipcast_graph::{NormGroup, norm_groups};
pub use hub::HubError;
pub use inspect::{FileSummary, OperatorCount, count_parameters, inspect_file};
pub use known_from::{KnownFrom, ModelKnowledge};
pub use load::LoadRequest;
pub use maxvit::{MaxVitConfig, build_maxvit};
pub use mobilenet_v2::{MobileNetV2Config, build_mobilenet_v2};
pub use model::Model;
pub use model_card::{CardError, ModelCard};
pub use model_error::ModelError;
pub use program::{CallError, Place, ProgramError};
pub use recognise::{Match, recognise};
pub use registry::{ARCHITECTURES, ArchitectureEntry};
pub use resnet::{Block, ResNetConfig, ResNetNorm, Shortcut, Stem, build_resnet};
pub use restored_norms::{LayerStatistics, RestoreError, RestoredNorms};
pub use swin::{SwinConfig, build_swin};
pub use vit::{ClassToken, TokenPool, VitConfig, build_vit};
pub use weight_tags::{WEIGHT_TAGS, WeightTag};
pub use weights::{Format, ImportError, TensorInfo, WeightFile};
pub use wide_resnet::{WideResNetConfig, build_wide_resnet};
