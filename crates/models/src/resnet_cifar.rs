use crate::check::check_rule;
use crate::resnet::{Block, ResNetConfig, ResNetNorm, Shortcut, Stem};
use flipcast_graph::GraphError;

const PREFIX: &str = "cifar_resnet";
const USUAL_WIDTH: usize = 16;

impl ResNetConfig {
    /// A residual network for 32x32 images: 3x3 stem and three stages of `(depth - 2) / 6` basic units, whose widths
    /// are `width`, `2 width` and `4 width`. The published networks have `width` 16.
    pub fn cifar(depth: usize, width: usize, shortcut: Shortcut, classes: usize) -> Result<Self, GraphError> {
        let fits = depth >= 8 && depth % 6 == 2;
        check_rule(fits, PREFIX, "depth", depth, || "6 n + 2 with n at least 1".into())?;
        let units = (depth - 2) / 6;
        let widths = [1, 2, 4].map(|times| width.saturating_mul(times));
        let layers = [units; 3];
        let plain = Self::plain(Block::Basic, Stem::Cifar, &widths, &layers, classes);
        let config = Self { shortcut, ..plain };
        config.check()?;
        Ok(config)
    }

    /// The network called `cifar_resnet<depth>`, then `_w<width>` unless the width is 16, then `_a` for type A
    /// shortcuts: `cifar_resnet26_w32`, `cifar_resnet20_a`. `None` when the name has another form.
    pub fn from_cifar_name(name: &str, classes: usize) -> Option<Result<Self, GraphError>> {
        let rest = name.strip_prefix(PREFIX)?;
        let (rest, shortcut) = match rest.strip_suffix("_a") {
            Some(rest) => (rest, Shortcut::A),
            None => (rest, Shortcut::B),
        };
        let (depth, width) = match rest.split_once("_w") {
            Some((depth, width)) => (depth, width.parse().ok()?),
            None => (rest, USUAL_WIDTH),
        };
        Some(Self::cifar(depth.parse().ok()?, width, shortcut, classes))
    }

    /// The name [`ResNetConfig::from_cifar_name`] understands, for networks that have one.
    pub fn cifar_name(&self) -> Option<String> {
        let (&width, &units) = (self.widths.first()?, self.layers.first()?);
        let depth = units.checked_mul(6)?.checked_add(2)?;
        let twin = Self::cifar(depth, width, self.shortcut, self.classes).ok()?;
        if twin != *self || self.norm != ResNetNorm::Batch {
            return None;
        }
        let width = match width {
            USUAL_WIDTH => String::new(),
            other => format!("_w{other}"),
        };
        let shortcut = match self.shortcut {
            Shortcut::A => "_a",
            Shortcut::B => "",
        };
        Some(format!("{PREFIX}{depth}{width}{shortcut}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resnet::build_resnet;
    use flipcast_graph::{Dims, Op};

    #[test]
    fn names_and_settings_round_trip() {
        for name in ["cifar_resnet20", "cifar_resnet26_w32", "cifar_resnet8_w4_a"] {
            let config = ResNetConfig::from_cifar_name(name, 10).unwrap().unwrap();
            assert_eq!(config.cifar_name().as_deref(), Some(name));
        }
    }

    #[test]
    fn irregular_networks_have_no_name() {
        let config = ResNetConfig::plain(Block::Basic, Stem::Cifar, &[8, 16, 32], &[2, 1, 1], 10);
        assert_eq!(config.cifar_name(), None);
        assert!(build_resnet(&config).is_ok());
    }

    #[test]
    fn a_depth_that_does_not_divide_is_refused() {
        let error = ResNetConfig::from_cifar_name("cifar_resnet21", 10).unwrap().unwrap_err();
        assert_eq!(error.to_string(), "`cifar_resnet` has depth = 21, expected 6 n + 2 with n at least 1");
    }

    #[test]
    fn other_names_are_left_to_others() {
        for name in ["resnet20", "cifar_resnet", "cifar_resnet20_w", "cifar_resnet-8"] {
            assert!(ResNetConfig::from_cifar_name(name, 10).is_none(), "{name}");
        }
    }

    #[test]
    fn type_a_shortcuts_have_no_parameters() {
        let config = ResNetConfig::cifar(20, 16, Shortcut::A, 10).unwrap();
        let graph = build_resnet(&config).unwrap();
        let shortcut = graph.find("layer2.0.downsample").unwrap();
        assert_eq!(graph.node(shortcut).op, Op::ShortcutA { stride: 2, channels: 32 });
        assert!(graph.params().iter().all(|p| !p.name.contains("downsample")));
        let dims = graph.infer_dims(32, 32).unwrap();
        assert_eq!(dims[graph.embedding().index()], Dims::new(1, 1, 64));
    }
}
