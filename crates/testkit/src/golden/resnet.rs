use super::{Block, GoldenCase, GoldenError, Stem};
use flipcast_graph::{Activation, Conv2d, Graph, GraphBuilder, NodeId, Pool};

const EPS: f32 = 1e-5;

/// Builds the ResNet a golden case describes, with torchvision's module names.
pub(super) fn build(case: &GoldenCase) -> Result<Graph, GoldenError> {
    let (builder, input) = GraphBuilder::new(3);
    let mut net = Net { builder };
    let mut x = net.stem(case.stem, input, case.widths[0]);
    for (stage, (&width, &blocks)) in case.widths.iter().zip(&case.layers).enumerate() {
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let name = format!("layer{}.{block}", stage + 1);
            x = net.residual(case.block, &name, x, (width, stride));
        }
    }
    let mut builder = net.builder;
    let features = builder.channels(x);
    let x = builder.global_avg_pool("avgpool", x);
    let logits = builder.linear("fc", x, features, case.classes);
    Ok(builder.finish(logits)?)
}

struct Net {
    builder: GraphBuilder,
}

impl Net {
    fn stem(&mut self, stem: Stem, x: NodeId, width: usize) -> NodeId {
        let conv = match stem {
            Stem::Imagenet => Conv2d::new(3, width, 7).stride(2).padding(3),
            Stem::Cifar => Conv2d::new(3, width, 3).padding(1),
        };
        let x = self.builder.conv("conv1", x, conv);
        let x = self.builder.batch_norm("bn1", x, EPS);
        let x = self.builder.activation("relu", x, Activation::Relu);
        match stem {
            Stem::Cifar => x,
            Stem::Imagenet => {
                let pool = Pool::new(3, 2, 1);
                self.builder.max_pool("maxpool", x, pool)
            }
        }
    }

    fn residual(&mut self, block: Block, name: &str, x: NodeId, (width, stride): (usize, usize)) -> NodeId {
        let from = self.builder.channels(x);
        let (y, to) = match block {
            Block::Basic => (self.basic(name, x, (width, stride)), width),
            Block::Bottleneck => (self.bottleneck(name, x, (width, stride)), 4 * width),
        };
        let shortcut = if stride == 1 && from == to {
            x
        } else {
            let conv = Conv2d::new(from, to, 1).stride(stride);
            let y = self.builder.conv(&format!("{name}.downsample.0"), x, conv);
            self.builder.batch_norm(&format!("{name}.downsample.1"), y, EPS)
        };
        let sum = self.builder.add(&format!("{name}.add"), y, shortcut);
        self.relu(&format!("{name}.relu"), sum)
    }

    fn basic(&mut self, name: &str, x: NodeId, (width, stride): (usize, usize)) -> NodeId {
        let from = self.builder.channels(x);
        let y = self.unit(name, 1, x, Conv2d::new(from, width, 3).stride(stride).padding(1));
        let y = self.relu(&format!("{name}.relu1"), y);
        self.unit(name, 2, y, Conv2d::new(width, width, 3).padding(1))
    }

    /// The stride sits in the 3x3 convolution, as in torchvision.
    fn bottleneck(&mut self, name: &str, x: NodeId, (width, stride): (usize, usize)) -> NodeId {
        let from = self.builder.channels(x);
        let y = self.unit(name, 1, x, Conv2d::new(from, width, 1));
        let y = self.relu(&format!("{name}.relu1"), y);
        let y = self.unit(name, 2, y, Conv2d::new(width, width, 3).stride(stride).padding(1));
        let y = self.relu(&format!("{name}.relu2"), y);
        self.unit(name, 3, y, Conv2d::new(width, 4 * width, 1))
    }

    /// Convolution and norm number `index` of a block.
    fn unit(&mut self, name: &str, index: usize, x: NodeId, conv: Conv2d) -> NodeId {
        let x = self.builder.conv(&format!("{name}.conv{index}"), x, conv);
        self.builder.batch_norm(&format!("{name}.bn{index}"), x, EPS)
    }

    fn relu(&mut self, name: &str, x: NodeId) -> NodeId {
        self.builder.activation(name, x, Activation::Relu)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Reference, ReferenceNorm, golden_index, relative_l2};

    /// Files store logits in `f32`, which rounds each by up to 6e-8 of itself (measured 3e-8). Features are stored in
    /// `f64`; there `eps`, an `f32` in the graph, is off by 2.5e-8 of itself, which shows only where a variance is as
    /// small as `eps` (measured 9e-12).
    const RELATIVE_L2: f64 = 1e-7;

    #[test]
    fn the_reference_reproduces_source_and_bn() {
        let mut runs = 0;
        for case in golden_index().unwrap() {
            let mode = match case.method.as_str() {
                "source" => ReferenceNorm::Running,
                "bn" => ReferenceNorm::Batch,
                _ => continue,
            };
            let graph = case.build_graph().unwrap();
            let reference = Reference::new(&graph, &case.load_weights().unwrap()).unwrap();
            let expected = case.load_expected().unwrap();
            for (step, batch) in case.load_batches().unwrap().iter().enumerate() {
                let run = reference.forward(batch, mode, &reference.affine()).unwrap();
                for (what, found) in [("logits", run.logits()), ("features", run.embedding())] {
                    let expected = expected.values(&format!("{what}.{step}")).unwrap();
                    let error = relative_l2(found, expected);
                    assert!(
                        error <= RELATIVE_L2,
                        "{} {what}.{step}: relative L2 error {error:.3e}, bound {RELATIVE_L2:.0e}",
                        case.name()
                    );
                }
                runs += 1;
            }
        }
        assert!(runs >= 12, "{runs} runs compared");
    }
}
