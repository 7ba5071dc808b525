use crate::nearest::nearest_names;
use crate::{
    AdaptError, Adapter, Asr, AsrConfig, AsrStep, Bn, BnConfig, BnCumulative, BnCumulativeConfig, Come, ComeConfig,
    Cotta, CottaConfig, Cpl, CplConfig, Deyo, DeyoConfig, Eata, EataConfig, Eta, EtaConfig, Norms, OptimiserConfig,
    ParamRule, PixelSpace, Rdumb, RdumbConfig, Roid, RoidConfig, Rpl, RplConfig, Sar, SarConfig, Source, Target, Tent,
    TentConfig,
};
use flipcast_exec::NormMode;
use flipcast_graph::AffineTable;
use serde::{Deserialize, Serialize};

/// What the table of methods says of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodInfo {
    /// Published name, lower case.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Where it was published; empty for the baseline.
    pub reference: &'static str,
}

/// All methods, one line each.
#[rustfmt::skip]
pub const METHODS: &[MethodInfo] = &[
    MethodInfo { name: "source", summary: "no adaptation", reference: "" },
    MethodInfo { name: "bn", summary: "statistics of the batch, source scales and shifts", reference: "Nado et al. 2020; Schneider et al., NeurIPS 2020" },
    MethodInfo { name: "bn_cumulative", summary: "statistics gathered over the stream, source scales and shifts", reference: "Schneider et al., NeurIPS 2020" },
    MethodInfo { name: "tent", summary: "entropy minimisation on every image", reference: "Wang et al., ICLR 2021" },
    MethodInfo { name: "rpl", summary: "robust loss against the predicted classes", reference: "Rusak et al., TMLR 2022" },
    MethodInfo { name: "cpl", summary: "the PolyLoss against its conjugate pseudo-labels", reference: "Goyal et al., NeurIPS 2022" },
    MethodInfo { name: "eta", summary: "entropy minimisation on reliable images that are not redundant", reference: "Niu et al., ICML 2022" },
    MethodInfo { name: "eata", summary: "ETA with a penalty on changing what mattered on clean images", reference: "Niu et al., ICML 2022" },
    MethodInfo { name: "rdumb", summary: "ETA that returns to the source every 1000 steps", reference: "Press et al., NeurIPS 2023" },
    MethodInfo { name: "sar", summary: "entropy minimisation on reliable images, towards flat minima", reference: "Niu et al., ICLR 2023" },
    MethodInfo { name: "cotta", summary: "a student follows a slow teacher and now and then forgets", reference: "Wang et al., CVPR 2022" },
    MethodInfo { name: "roid", summary: "likelihood ratios of certain and rare images, consistency, a pull to the source", reference: "Marsden et al., WACV 2024" },
    MethodInfo { name: "deyo", summary: "entropy minimisation on images whose class depends on their shape", reference: "Lee et al., ICLR 2024" },
    MethodInfo { name: "come", summary: "Tent with an entropy that leaves room for not knowing", reference: "Zhang et al., ICLR 2025" },
    MethodInfo { name: "asr", summary: "ETA that resets when, and as deeply as, predictions concentrate", reference: "Lim et al., ICLR 2026" },
];

/// The data a published setting was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recipe {
    /// ImageNet and its shifts: 1000 classes, batches of 64.
    ImageNet,
    /// The same with a ViT-B, whose layer norms bear other learning rates. Methods for which none were published there have those
    /// of [`Recipe::ImageNet`].
    #[serde(rename = "imagenet-vit")]
    ImageNetVit,
    /// CIFAR-10-C: 10 classes, batches of 200.
    Cifar10,
    /// CIFAR-100-C: 100 classes, batches of 200.
    Cifar100,
}

/// A method with its settings: what a protocol stores, and what an [`Adapter`] is built from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum MethodConfig {
    /// [`Source`], which has no settings.
    Source {},
    /// [`Bn`].
    Bn(BnConfig),
    /// [`BnCumulative`].
    BnCumulative(BnCumulativeConfig),
    /// [`Tent`].
    Tent(TentConfig),
    /// [`Rpl`].
    Rpl(RplConfig),
    /// [`Cpl`].
    Cpl(CplConfig),
    /// [`Eta`].
    Eta(EtaConfig),
    /// [`Eata`].
    Eata(EataConfig),
    /// [`Rdumb`].
    Rdumb(RdumbConfig),
    /// [`Sar`].
    Sar(SarConfig),
    /// [`Cotta`].
    Cotta(CottaConfig),
    /// [`Roid`].
    Roid(RoidConfig),
    /// [`Deyo`].
    Deyo(DeyoConfig),
    /// [`Come`].
    Come(ComeConfig),
    /// [`Asr`].
    Asr(AsrConfig),
}

impl MethodConfig {
    /// The settings published for the method called `name` on the data of `recipe`, with the quirks of the released code. Case and
    /// the choice between `-` and `_` do not matter in names.
    ///
    /// What adapts is every norm layer, but for SAR and DeYO, which leave the last stage alone. The released code of Tent, RPL, CPL, EATA
    /// and RDumb collects batch norms only: the same in networks that have no others, and nothing at all in a ViT.
    pub fn published(name: &str, recipe: Recipe) -> Result<Self, AdaptError> {
        use Recipe::{Cifar10, Cifar100, ImageNet, ImageNetVit};
        let eta = |eta| EtaConfig { published_code: true, ..eta };
        let sar = |sar| SarConfig { published_code: true, ..sar };
        Ok(match (find(name)?, recipe) {
            ("source", _) => Self::Source {},
            ("bn", _) => Self::Bn(BnConfig::batch()),
            ("bn_cumulative", _) => Self::BnCumulative(BnCumulativeConfig::default()),
            ("tent", ImageNetVit) => Self::Tent(TentConfig::imagenet_vit()),
            ("tent", ImageNet) => Self::Tent(TentConfig::imagenet()),
            ("tent", Cifar10 | Cifar100) => Self::Tent(TentConfig::cifar()),
            ("rpl", ImageNet | ImageNetVit) => Self::Rpl(RplConfig::imagenet()),
            ("rpl", Cifar10 | Cifar100) => Self::Rpl(RplConfig::cifar()),
            ("cpl", ImageNet | ImageNetVit) => Self::Cpl(CplConfig::imagenet()),
            ("cpl", Cifar10 | Cifar100) => Self::Cpl(CplConfig::cifar()),
            ("eta", ImageNetVit) => Self::Eta(eta(EtaConfig::imagenet_vit())),
            ("eta", ImageNet) => Self::Eta(eta(EtaConfig::imagenet())),
            ("eta", Cifar10) => Self::Eta(eta(EtaConfig::cifar10())),
            ("eta", Cifar100) => Self::Eta(eta(EtaConfig::cifar100())),
            ("eata", _) => {
                let config = match recipe {
                    ImageNet => EataConfig::imagenet(),
                    ImageNetVit => EataConfig::imagenet_vit(),
                    Cifar10 => EataConfig::cifar10(),
                    Cifar100 => EataConfig::cifar100(),
                };
                Self::Eata(EataConfig { eta: eta(config.eta), ..config })
            }
            ("rdumb", ImageNet | ImageNetVit) => Self::Rdumb(RdumbConfig::imagenet()),
            ("rdumb", Cifar10 | Cifar100) => Self::Rdumb(RdumbConfig::cifar()),
            ("sar", ImageNetVit) => Self::Sar(sar(SarConfig::imagenet_vit())),
            ("sar", ImageNet) => Self::Sar(sar(SarConfig::imagenet())),
            ("sar", Cifar10 | Cifar100) => Self::Sar(sar(SarConfig::cifar())),
            ("cotta", ImageNet | ImageNetVit) => Self::Cotta(CottaConfig::imagenet()),
            ("cotta", Cifar10) => Self::Cotta(CottaConfig::cifar10()),
            ("cotta", Cifar100) => Self::Cotta(CottaConfig::cifar100()),
            ("roid", ImageNet | ImageNetVit) => Self::Roid(RoidConfig::imagenet()),
            ("roid", Cifar10 | Cifar100) => Self::Roid(RoidConfig::cifar()),
            ("deyo", ImageNetVit) => Self::Deyo(DeyoConfig::imagenet_vit()),
            ("deyo", ImageNet) => Self::Deyo(DeyoConfig::imagenet()),
            ("deyo", Cifar10 | Cifar100) => Self::Deyo(DeyoConfig::cifar()),
            ("come", ImageNetVit) => Self::Come(ComeConfig::imagenet_vit()),
            ("come", ImageNet) => Self::Come(ComeConfig::imagenet()),
            ("come", Cifar10 | Cifar100) => Self::Come(ComeConfig::cifar()),
            ("asr", ImageNet | ImageNetVit) => Self::Asr(AsrConfig::imagenet()),
            ("asr", Cifar10) => Self::Asr(AsrConfig::cifar10()),
            ("asr", Cifar100) => Self::Asr(AsrConfig::cifar100()),
            (other, _) => return Err(unknown(other)),
        })
    }

    /// The settings this crate proposes for the method called `name` and a network of `num_classes` classes with batch norms, in batches
    /// of 64: those published for ImageNet, with margins that adapt at any number of classes and without the quirks of the
    /// released code.
    pub fn default_for(name: &str, num_classes: usize) -> Result<Self, AdaptError> {
        Self::default_on(name, Target::of_classes(num_classes))
    }

    /// The settings this crate proposes for the method called `name` on `target`.
    ///
    /// Learning rates depend on what normalises the network. With layer norms and no batch norm, batches of 64 and SGD with momentum:
    ///
    /// | method | rate | from |
    /// |---|---|---|
    /// | `sar` | 1e-3 | its paper and code, in proportion to the batch |
    /// | `tent`, `eta`, `eata`, `come`, `deyo` | 1e-3 | memory of the code of SAR and DeYO, which sets one rate for all they compare |
    /// | `rdumb` | 1e-3 | ETA's, being ETA between resets; nobody published one |
    /// | `rpl`, `cpl`, `cotta`, `roid`, `asr` | as with batch norms | nothing else published; mariodoebler/test-time-adaptation has one rate for all networks |
    pub fn default_on(name: &str, target: Target) -> Result<Self, AdaptError> {
        let num_classes = target.num_classes;
        let classes = num_classes as f64;
        AdaptError::unless(num_classes >= 2, "number of classes", classes, "at least 2")?;
        let config = match find(name)? {
            "source" => Self::Source {},
            "bn" => Self::Bn(BnConfig::batch()),
            "bn_cumulative" => Self::BnCumulative(BnCumulativeConfig::default()),
            "tent" => Self::Tent(TentConfig::imagenet()),
            "rpl" => Self::Rpl(RplConfig::default()),
            "cpl" => Self::Cpl(CplConfig::default()),
            "eta" => Self::Eta(EtaConfig::default()),
            "eata" => Self::Eata(EataConfig::for_classes(num_classes)),
            "rdumb" => Self::Rdumb(RdumbConfig::default()),
            "sar" => return Ok(Self::Sar(SarConfig::for_target(target))),
            "cotta" => Self::Cotta(CottaConfig::for_classes(num_classes)),
            "roid" => Self::Roid(RoidConfig::default()),
            "deyo" => Self::Deyo(DeyoConfig::default()),
            "come" => Self::Come(ComeConfig::imagenet()),
            "asr" => Self::Asr(AsrConfig::default()),
            other => return Err(unknown(other)),
        };
        Ok(match (target.norms, config.name()) {
            (Norms::Layer, "tent" | "eta" | "eata" | "rdumb" | "come" | "deyo") => {
                config.with_optimiser(OptimiserConfig::sgd(target.transformer_lr()))
            }
            _ => config,
        })
    }

    /// The same method with another optimiser, where it has one.
    pub fn with_optimiser(mut self, optimiser: OptimiserConfig) -> Self {
        match &mut self {
            Self::Source {} | Self::Bn(_) | Self::BnCumulative(_) => {}
            Self::Tent(config) => config.optimiser = optimiser,
            Self::Rpl(config) => config.optimiser = optimiser,
            Self::Cpl(config) => config.optimiser = optimiser,
            Self::Eta(config) => config.optimiser = optimiser,
            Self::Eata(config) => config.eta.optimiser = optimiser,
            Self::Rdumb(config) => config.eta.optimiser = optimiser,
            Self::Sar(config) => config.optimiser = optimiser,
            Self::Cotta(config) => config.optimiser = optimiser,
            Self::Roid(config) => config.optimiser = optimiser,
            Self::Deyo(config) => config.optimiser = optimiser,
            Self::Come(config) => config.optimiser = optimiser,
            Self::Asr(config) => match &mut config.step {
                AsrStep::Eta(config) => config.optimiser = optimiser,
                AsrStep::Tent(config) => config.optimiser = optimiser,
            },
        }
        self
    }

    /// Which norm layers adapt; `None` if none does.
    pub fn param_rule(&self) -> Option<&ParamRule> {
        match self {
            Self::Source {} | Self::Bn(_) | Self::BnCumulative(_) => None,
            Self::Tent(config) => Some(&config.param_rule),
            Self::Rpl(config) => Some(&config.param_rule),
            Self::Cpl(config) => Some(&config.param_rule),
            Self::Eta(config) => Some(&config.param_rule),
            Self::Eata(config) => Some(&config.eta.param_rule),
            Self::Rdumb(config) => Some(&config.eta.param_rule),
            Self::Sar(config) => Some(&config.param_rule),
            Self::Cotta(config) => Some(&config.param_rule),
            Self::Roid(config) => Some(&config.param_rule),
            Self::Deyo(config) => Some(&config.param_rule),
            Self::Come(config) => Some(&config.param_rule),
            Self::Asr(config) => match &config.step {
                AsrStep::Eta(config) => Some(&config.param_rule),
                AsrStep::Tent(config) => Some(&config.param_rule),
            },
        }
    }

    /// The same method with other norm layers that adapt, where any does.
    pub fn with_param_rule(mut self, rule: ParamRule) -> Self {
        match &mut self {
            Self::Source {} | Self::Bn(_) | Self::BnCumulative(_) => {}
            Self::Tent(config) => config.param_rule = rule,
            Self::Rpl(config) => config.param_rule = rule,
            Self::Cpl(config) => config.param_rule = rule,
            Self::Eta(config) => config.param_rule = rule,
            Self::Eata(config) => config.eta.param_rule = rule,
            Self::Rdumb(config) => config.eta.param_rule = rule,
            Self::Sar(config) => config.param_rule = rule,
            Self::Cotta(config) => config.param_rule = rule,
            Self::Roid(config) => config.param_rule = rule,
            Self::Deyo(config) => config.param_rule = rule,
            Self::Come(config) => config.param_rule = rule,
            Self::Asr(config) => match &mut config.step {
                AsrStep::Eta(config) => config.param_rule = rule,
                AsrStep::Tent(config) => config.param_rule = rule,
            },
        }
        self
    }

    /// Refuses a network the method has nothing to do in: no norm layer that its rule selects, or no statistics to replace.
    pub fn check_network(&self, table: &AffineTable) -> Result<(), AdaptError> {
        if let (Self::Bn(_) | Self::BnCumulative(_), false) = (self, table.has_batch_norm()) {
            return Err(AdaptError::NoStatistics { method: self.name() });
        }
        match self.param_rule() {
            Some(rule) => rule.select(table).map(drop),
            None => Ok(()),
        }
    }

    /// The method's name in [`METHODS`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::Source {} => "source",
            Self::Bn(_) => "bn",
            Self::BnCumulative(_) => "bn_cumulative",
            Self::Tent(_) => "tent",
            Self::Rpl(_) => "rpl",
            Self::Cpl(_) => "cpl",
            Self::Eta(_) => "eta",
            Self::Eata(_) => "eata",
            Self::Rdumb(_) => "rdumb",
            Self::Sar(_) => "sar",
            Self::Cotta(_) => "cotta",
            Self::Roid(_) => "roid",
            Self::Deyo(_) => "deyo",
            Self::Come(_) => "come",
            Self::Asr(_) => "asr",
        }
    }

    /// What moves the parameters; `None` if nothing does.
    pub fn optimiser(&self) -> Option<&OptimiserConfig> {
        match self {
            Self::Source {} | Self::Bn(_) | Self::BnCumulative(_) => None,
            Self::Tent(config) => Some(&config.optimiser),
            Self::Rpl(config) => Some(&config.optimiser),
            Self::Cpl(config) => Some(&config.optimiser),
            Self::Eta(config) => Some(&config.optimiser),
            Self::Eata(config) => Some(&config.eta.optimiser),
            Self::Rdumb(config) => Some(&config.eta.optimiser),
            Self::Sar(config) => Some(&config.optimiser),
            Self::Cotta(config) => Some(&config.optimiser),
            Self::Roid(config) => Some(&config.optimiser),
            Self::Deyo(config) => Some(&config.optimiser),
            Self::Come(config) => Some(&config.optimiser),
            Self::Asr(config) => Some(config.optimiser()),
        }
    }

    /// The statistics batch norms use in its forward passes.
    pub fn norm_mode(&self) -> NormMode {
        match self {
            Self::Source {} => NormMode::Running,
            Self::Bn(config) => config.norm_mode(),
            Self::BnCumulative(config) => config.norm_mode(),
            Self::Tent(config) => config.norm_mode,
            Self::Rpl(config) => config.norm_mode,
            Self::Cpl(config) => config.norm_mode,
            Self::Eta(config) => config.norm_mode,
            Self::Eata(config) => config.eta.norm_mode,
            Self::Rdumb(config) => config.eta.norm_mode,
            Self::Sar(config) => config.norm_mode,
            Self::Cotta(config) => config.norm_mode,
            Self::Roid(config) => config.norm_mode,
            Self::Deyo(config) => config.norm_mode,
            Self::Come(config) => config.norm_mode,
            Self::Asr(config) => config.norm_mode(),
        }
    }

    /// The same method for a network whose values relate to pixels in this way; only methods that augment images care.
    pub fn with_pixels(mut self, pixels: PixelSpace) -> Self {
        match &mut self {
            Self::Cotta(config) => config.augment.pixels = pixels,
            Self::Roid(config) => {
                if let Some(augment) = &mut config.consistency {
                    augment.pixels = pixels;
                }
            }
            _ => {}
        }
        self
    }

    /// Steps from one return to the source to the next, for methods that return at fixed intervals.
    pub fn reset_every(&self) -> Option<u64> {
        match self {
            Self::Rdumb(config) => Some(config.reset_every),
            _ => None,
        }
    }

    /// Whether [`Adapter::prepare`] must see clean batches before the first step.
    pub fn needs_clean(&self) -> bool {
        matches!(self, Self::Eata(_))
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        self.build(0).map(drop)
    }

    /// The adapter. Methods that draw random numbers draw them from `seed`.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(match self.clone() {
            Self::Source {} => Box::new(Source::new()),
            Self::Bn(config) => Box::new(Bn::new(config)?),
            Self::BnCumulative(config) => Box::new(BnCumulative::new(config)?),
            Self::Tent(config) => Box::new(Tent::new(config)?),
            Self::Rpl(config) => Box::new(Rpl::new(config)?),
            Self::Cpl(config) => Box::new(Cpl::new(config)?),
            Self::Eta(config) => Box::new(Eta::new(config)?),
            Self::Eata(config) => Box::new(Eata::new(config)?),
            Self::Rdumb(config) => Box::new(Rdumb::new(config)?),
            Self::Sar(config) => Box::new(Sar::new(config)?),
            Self::Cotta(config) => Box::new(Cotta::new(config, seed)?),
            Self::Roid(config) => Box::new(Roid::new(config, seed)?),
            Self::Deyo(config) => Box::new(Deyo::new(config, seed)?),
            Self::Come(config) => Box::new(Come::new(config)?),
            Self::Asr(config) => Box::new(Asr::new(config)?),
        })
    }
}

/// The spelling of `name` in the table.
fn find(name: &str) -> Result<&'static str, AdaptError> {
    let wanted = name.to_ascii_lowercase().replace('-', "_");
    let info = METHODS.iter().find(|info| info.name == wanted);
    info.map(|info| info.name).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> AdaptError {
    let wanted = name.to_ascii_lowercase().replace('-', "_");
    AdaptError::UnknownMethod {
        name: name.to_owned(),
        nearest: nearest_names(&wanted, METHODS.iter().map(|info| info.name)),
    }
}

#[cfg(test)]
mod tests;
