//! Protocols of weighted flips, by name.

use crate::RunError;
use flipcast_adapt::{EntropyMargin, EtaConfig, MethodConfig, RdumbConfig, RedundancyMargin};
use flipcast_estimate::CurveKind;
use serde::{Deserialize, Serialize};

/// How flips are counted: what adapts, for how long, and what is probed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlipProtocol {
    /// The name it is asked for by.
    pub name: String,
    /// The adaptation.
    pub method: MethodConfig,
    /// Images of an adaptation step; a smaller dataset is one batch.
    pub batch_size: usize,
    /// Steps after which the probe is predicted again, ascending; the last is where adaptation ends.
    pub stops: Vec<usize>,
    /// Images of the probe.
    pub probe_images: usize,
    /// Probe images that share batch statistics, at most.
    pub probe_chunk: usize,
    /// Images of the dataset that are used at all; `None` is all.
    pub image_limit: Option<usize>,
    /// Seed of the shuffles and of the method.
    pub seed: u64,
}

/// The protocols and what they are, in one line each.
pub const FLIP_PROTOCOLS: &[(&str, &str)] = &[
    (
        "flipcast",
        "ETA without redundancy filter, 25 steps, margins in ln K, probe of 2,000; the default",
    ),
    (
        "paper",
        "RDumb as published for ImageNet, 1,000 steps, probe of 1,000 (Press et al., 2024)",
    ),
    ("code", "the same as its published code has it: 990 steps"),
    ("limited-memory", "as `code` with a probe of 100 images"),
    ("limited-data", "as `code` on 1,000 images in all"),
    (
        "statistics",
        "no adaptation: running against batch statistics",
    ),
];

impl FlipProtocol {
    /// The protocol called `name`.
    pub fn named(name: &str) -> Result<Self, RunError> {
        let own = || {
            MethodConfig::Eta(EtaConfig {
                redundancy_margin: RedundancyMargin::Off,
                ..EtaConfig::default()
            })
        };
        // The released code has ln 1000 in it, whatever the network.
        let published = || {
            let rdumb = RdumbConfig::imagenet();
            MethodConfig::Rdumb(RdumbConfig {
                eta: EtaConfig {
                    entropy_margin: EntropyMargin::Nats(0.4 * 1000f64.ln()),
                    ..rdumb.eta
                },
                ..rdumb
            })
        };
        let (method, stop) = match name {
            "flipcast" => (own(), 25),
            "statistics" => (own(), 0),
            "paper" => (published(), 1000),
            "code" | "limited-memory" | "limited-data" => (published(), 990),
            _ => {
                let known: Vec<&str> = FLIP_PROTOCOLS.iter().map(|(name, _)| *name).collect();
                return Err(RunError::UnknownProtocol {
                    name: name.to_owned(),
                    known: known.join(", "),
                });
            }
        };
        Ok(Self {
            name: name.to_owned(),
            method,
            batch_size: 64,
            stops: vec![stop],
            probe_images: match name {
                "flipcast" | "statistics" => 2000,
                "limited-memory" => 100,
                _ => 1000,
            },
            probe_chunk: 100,
            image_limit: (name == "limited-data").then_some(1000),
            seed: 0,
        })
    }

    /// The curve its flips are fitted with: a quadratic as published, or one that cannot turn back.
    pub fn curve(&self) -> CurveKind {
        match self.name.as_str() {
            "flipcast" | "statistics" => CurveKind::Monotone,
            _ => CurveKind::Quadratic,
        }
    }

    /// The step at which adaptation ends.
    pub fn last_stop(&self) -> usize {
        self.stops.last().copied().unwrap_or(0)
    }

    /// Refuses what cannot work.
    pub fn check(&self) -> Result<(), RunError> {
        let wrong = |setting: &'static str, found: usize, expected: &'static str| {
            Err(RunError::Setting {
                setting,
                found,
                expected,
            })
        };
        if self.batch_size < 2 {
            return wrong(
                "batch size",
                self.batch_size,
                "at least 2, for batch statistics need several images",
            );
        }
        if self.probe_images < 2 {
            return wrong("probe images", self.probe_images, "at least 2");
        }
        if self.probe_chunk < 2 {
            return wrong("probe chunk", self.probe_chunk, "at least 2");
        }
        if self.stops.is_empty() || !self.stops.is_sorted() {
            return wrong("number of stops", self.stops.len(), "at least 1, ascending");
        }
        if self.image_limit == Some(0) {
            return wrong("image limit", 0, "at least 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_of_the_table_can_run() {
        for (name, _) in FLIP_PROTOCOLS {
            let protocol = FlipProtocol::named(name).unwrap();
            protocol.check().unwrap();
            let text = serde_json::to_string(&protocol).unwrap();
            assert_eq!(
                serde_json::from_str::<FlipProtocol>(&text).unwrap(),
                protocol
            );
        }
        assert_eq!(FlipProtocol::named("paper").unwrap().last_stop(), 1000);
        assert_eq!(FlipProtocol::named("code").unwrap().last_stop(), 990);
        assert_eq!(
            FlipProtocol::named("limited-memory").unwrap().probe_images,
            100
        );
        assert_eq!(
            FlipProtocol::named("limited-data").unwrap().image_limit,
            Some(1000)
        );
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let refused = FlipProtocol::named("papr").unwrap_err().to_string();
        assert!(
            refused.contains("`papr`") && refused.contains("paper"),
            "{refused}"
        );
        let good = FlipProtocol::named("flipcast").unwrap();
        let broken = [
            FlipProtocol {
                batch_size: 1,
                ..good.clone()
            },
            FlipProtocol {
                batch_size: 0,
                ..good.clone()
            },
            FlipProtocol {
                probe_images: 0,
                ..good.clone()
            },
            FlipProtocol {
                stops: Vec::new(),
                ..good.clone()
            },
            FlipProtocol {
                stops: vec![50, 10],
                ..good
            },
        ];
        for protocol in broken {
            assert!(protocol.check().is_err(), "{protocol:?}");
        }
    }
}
