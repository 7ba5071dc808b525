use flipcast_executor::OptimizerConfig;
use flipcast_graph::{AffineTable, NormKind};

/// What normalises a network, as far as settings depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norms {
    /// Batch norms, perhaps among others: ResNet, MaxViT.
    Batch,
    /// Layer norms and no batch norm: ViT, Swin, ConvNeXt.
    Layer,
    /// Group norms alone, or no norm at all.
    Group,
}

impl Norms {
    /// Of the network with this table.
    pub fn of(table: &AffineTable) -> Self {
        let is_layer = |kind| kind == NormKind::Layer;
        if table.has_batch_norm() {
            Self::Batch
        } else if table.entries().iter().any(|entry| is_layer(entry.kind)) {
            Self::Layer
        } else {
            Self::Group
        }
    }
}

/// What default settings depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Classes of the network.
    pub num_classes: usize,
    /// What normalises it.
    pub norms: Norms,
    /// Images of a step.
    pub batch_size: usize,
}

impl Target {
    /// A network with batch norms, and batches of 64.
    pub fn of_classes(num_classes: usize) -> Self {
        Self { num_classes, norms: Norms::Batch, batch_size: USUAL_BATCH }
    }

    /// The learning rate published for transformers: 1e-3 for batches of 64, and in proportion for others.
    pub(crate) fn transformer_lr(&self) -> f32 {
        1e-3 * self.batch_size as f32 / USUAL_BATCH as f32
    }

    /// The optimizer of methods that take the transformers' rate where layer norms alone normalise, else `published`.
    pub(crate) fn optimizer(&self, published: OptimizerConfig) -> OptimizerConfig {
        match self.norms {
            Norms::Layer => OptimizerConfig::sgd(self.transformer_lr()),
            Norms::Batch | Norms::Group => published,
        }
    }
}

/// The batches that published settings for ImageNet were made for.
const USUAL_BATCH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::{GraphBuilder, NormKind};

    fn of(kinds: &[NormKind]) -> Norms {
        let (mut g, mut x) = GraphBuilder::new(4);
        for (i, &kind) in kinds.iter().enumerate() {
            x = g.norm(&format!("norm{i}"), x, kind, 1e-5);
        }
        x = g.global_avg_pool("pool", x);
        x = g.linear("fc", x, 4, 2);
        Norms::of(&g.finish(x).unwrap().affine_table())
    }

    #[test]
    fn batch_norms_decide_wherever_there_is_one() {
        let group = NormKind::Group { groups: 2 };
        assert_eq!(of(&[NormKind::Layer, NormKind::Batch]), Norms::Batch);
        assert_eq!(of(&[group, NormKind::Layer]), Norms::Layer);
        assert_eq!(of(&[group]), Norms::Group);
        assert_eq!(of(&[]), Norms::Group);
    }
}
