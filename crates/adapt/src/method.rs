use crate::{
    AdaptError, Adapter, AsrConfig, BnConfig, BnCumulativeConfig, BnEarlyConfig, ComeConfig, CottaConfig, CplConfig,
    DeyoConfig, EataConfig, EtaConfig, ParamRule, PixelSpace, RdumbConfig, RoidConfig, RplConfig, SarConfig,
    SourceConfig, Target, TentConfig,
};
use flipcast_executor::{NormMode, OptimizerConfig};
use flipcast_graph::AffineTable;
use flipcast_ground::nearest_quoted;
use serde::{Deserialize, Serialize};

/// The settings of one method, as everything outside its file needs them.
pub trait Method {
    /// The method's name in [`METHODS`].
    fn name(&self) -> &'static str;

    /// The settings that methods which move parameters share; `None` for the others.
    fn shared(&mut self) -> Option<SharedSettings<'_>> {
        None
    }

    /// The statistics batch norms use in its forward passes.
    fn norm_mode(&mut self) -> NormMode {
        self.shared().map_or(NormMode::Running, |shared| *shared.norm_mode)
    }

    /// Whether it replaces running statistics, and so needs a network that has some.
    fn replaces_statistics(&self) -> bool {
        false
    }

    /// Whether [`Adapter::prepare`] must see clean batches before the first step.
    fn needs_clean(&self) -> bool {
        false
    }

    /// Steps from one return to the source to the next, for methods that return at fixed intervals.
    fn reset_every(&self) -> Option<u64> {
        None
    }

    /// Says how the network's values relate to pixels; only methods that augment images care.
    fn set_pixels(&mut self, pixels: PixelSpace) {
        let _ = pixels;
    }

    /// The adapter, unless a setting is outside its range. Methods that draw random numbers draw them from `seed`.
    fn build(&self, seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError>;
}

/// Settings that most methods have, to change.
#[derive(Debug)]
pub struct SharedSettings<'a> {
    /// What moves the scales and shifts.
    pub optimizer: &'a mut OptimizerConfig,
    /// Which norm layers adapt.
    pub param_rule: &'a mut ParamRule,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: &'a mut NormMode,
    /// Whether to follow the quirks of the released code, where there are any.
    pub published_code: Option<&'a mut bool>,
}

impl<'a> SharedSettings<'a> {
    /// Of a method whose released code has no quirks.
    pub fn new(optimizer: &'a mut OptimizerConfig, param_rule: &'a mut ParamRule, norm_mode: &'a mut NormMode) -> Self {
        Self { optimizer, param_rule, norm_mode, published_code: None }
    }
}

/// What the table of methods says of one.
#[derive(Clone, Copy, Debug)]
pub struct MethodInfo {
    /// Published name, lower case.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Where it was published; empty for the baseline.
    pub reference: &'static str,
    /// The settings published for the data of a recipe.
    pub published: fn(Recipe) -> MethodConfig,
    /// The settings this crate proposes for a network and batch size.
    pub default: fn(Target) -> MethodConfig,
}

use MethodConfig as M;

/// All methods. A new one has a file of its own, a row here, and a variant with its arm in [`MethodConfig`].
pub const METHODS: &[MethodInfo] = &[
    MethodInfo {
        name: "source",
        summary: "no adaptation",
        reference: "",
        published: |_| M::Source(SourceConfig {}),
        default: |_| M::Source(SourceConfig {}),
    },
    MethodInfo {
        name: "bn",
        summary: "statistics of the batch, source scales and shifts",
        reference: "Nado et al. 2020; Schneider et al., NeurIPS 2020",
        published: |_| M::Bn(BnConfig::batch()),
        default: |_| M::Bn(BnConfig::batch()),
    },
    MethodInfo {
        name: "bn_cumulative",
        summary: "statistics gathered over the stream, source scales and shifts",
        reference: "Schneider et al., NeurIPS 2020",
        published: |_| M::BnCumulative(BnCumulativeConfig::default()),
        default: |_| M::BnCumulative(BnCumulativeConfig::default()),
    },
    MethodInfo {
        name: "bn_early",
        summary: "statistics of the batch in the first quarter of the norms, for batches of few classes",
        reference: "",
        published: |_| M::BnEarly(BnEarlyConfig::quarter()),
        default: |_| M::BnEarly(BnEarlyConfig::quarter()),
    },
    MethodInfo {
        name: "tent",
        summary: "entropy minimisation on every image",
        reference: "Wang et al., ICLR 2021",
        published: |recipe| M::Tent(TentConfig::published(recipe)),
        default: |target| M::Tent(TentConfig::for_target(target)),
    },
    MethodInfo {
        name: "rpl",
        summary: "robust loss against the predicted classes",
        reference: "Rusak et al., TMLR 2022",
        published: |recipe| M::Rpl(RplConfig::published(recipe)),
        default: |_| M::Rpl(RplConfig::default()),
    },
    MethodInfo {
        name: "cpl",
        summary: "the PolyLoss against its conjugate pseudo-labels",
        reference: "Goyal et al., NeurIPS 2022",
        published: |recipe| M::Cpl(CplConfig::published(recipe)),
        default: |_| M::Cpl(CplConfig::default()),
    },
    MethodInfo {
        name: "eta",
        summary: "entropy minimisation on reliable images that are not redundant",
        reference: "Niu et al., ICML 2022",
        published: |recipe| M::Eta(EtaConfig::published(recipe)),
        default: |target| M::Eta(EtaConfig::for_target(target)),
    },
    MethodInfo {
        name: "eata",
        summary: "ETA with a penalty on changing what mattered on clean images",
        reference: "Niu et al., ICML 2022",
        published: |recipe| M::Eata(EataConfig::published(recipe)),
        default: |target| M::Eata(EataConfig::for_target(target)),
    },
    MethodInfo {
        name: "rdumb",
        summary: "ETA that returns to the source every 1000 steps",
        reference: "Press et al., NeurIPS 2023",
        published: |recipe| M::Rdumb(RdumbConfig::published(recipe)),
        default: |target| M::Rdumb(RdumbConfig::for_target(target)),
    },
    MethodInfo {
        name: "sar",
        summary: "entropy minimisation on reliable images, towards flat minima",
        reference: "Niu et al., ICLR 2023",
        published: |recipe| M::Sar(SarConfig::published(recipe)),
        default: |target| M::Sar(SarConfig::for_target(target)),
    },
    MethodInfo {
        name: "cotta",
        summary: "a student follows a slow teacher and now and then forgets",
        reference: "Wang et al., CVPR 2022",
        published: |recipe| M::Cotta(CottaConfig::published(recipe)),
        default: |target| M::Cotta(CottaConfig::for_classes(target.num_classes)),
    },
    MethodInfo {
        name: "roid",
        summary: "likelihood ratios of certain and rare images, consistency, a pull to the source",
        reference: "Marsden et al., WACV 2024",
        published: |recipe| M::Roid(RoidConfig::published(recipe)),
        default: |_| M::Roid(RoidConfig::default()),
    },
    MethodInfo {
        name: "deyo",
        summary: "entropy minimisation on images whose class depends on their shape",
        reference: "Lee et al., ICLR 2024",
        published: |recipe| M::Deyo(DeyoConfig::published(recipe)),
        default: |target| M::Deyo(DeyoConfig::for_target(target)),
    },
    MethodInfo {
        name: "come",
        summary: "Tent with an entropy that leaves room for not knowing",
        reference: "Zhang et al., ICLR 2025",
        published: |recipe| M::Come(ComeConfig::published(recipe)),
        default: |target| M::Come(ComeConfig::for_target(target)),
    },
    MethodInfo {
        name: "asr",
        summary: "ETA that resets when, and as deeply as, predictions concentrate",
        reference: "Lim et al., ICLR 2026",
        published: |recipe| M::Asr(AsrConfig::published(recipe)),
        default: |_| M::Asr(AsrConfig::default()),
    },
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
///
/// ```
/// use flipcast_adapt::{MethodConfig, Recipe};
///
/// let ours = MethodConfig::default_for("rdumb", 10)?;
/// let published = MethodConfig::published("rdumb", Recipe::ImageNet)?;
/// assert_eq!(published.reset_every(), Some(1000));
/// // Margins of the published setting are made for 1,000 classes.
/// assert_ne!(ours, published);
/// let _adapter = ours.with_lr(1e-3).expect("RDumb has a learning rate").build(0)?;
/// # Ok::<(), flipcast_adapt::AdaptError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
pub enum MethodConfig {
    /// [`Source`](crate::Source).
    Source(SourceConfig),
    /// [`Bn`](crate::Bn).
    Bn(BnConfig),
    /// [`BnCumulative`](crate::BnCumulative).
    BnCumulative(BnCumulativeConfig),
    /// [`Bn`](crate::Bn), in the first norms alone.
    BnEarly(BnEarlyConfig),
    /// [`Tent`](crate::Tent).
    Tent(TentConfig),
    /// [`Rpl`](crate::Rpl).
    Rpl(RplConfig),
    /// [`Cpl`](crate::Cpl).
    Cpl(CplConfig),
    /// [`Eta`](crate::Eta).
    Eta(EtaConfig),
    /// [`Eata`](crate::Eata).
    Eata(EataConfig),
    /// [`Rdumb`](crate::Rdumb).
    Rdumb(RdumbConfig),
    /// [`Sar`](crate::Sar).
    Sar(SarConfig),
    /// [`Cotta`](crate::Cotta).
    Cotta(CottaConfig),
    /// [`Roid`](crate::Roid).
    Roid(RoidConfig),
    /// [`Deyo`](crate::Deyo).
    Deyo(DeyoConfig),
    /// [`Come`](crate::Come).
    Come(ComeConfig),
    /// [`Asr`](crate::Asr).
    Asr(AsrConfig),
}

impl MethodConfig {
    /// The settings behind the variant: the one place that tells the methods apart.
    pub fn method_mut(&mut self) -> &mut dyn Method {
        match self {
            Self::Source(config) => config,
            Self::Bn(config) => config,
            Self::BnCumulative(config) => config,
            Self::BnEarly(config) => config,
            Self::Tent(config) => config,
            Self::Rpl(config) => config,
            Self::Cpl(config) => config,
            Self::Eta(config) => config,
            Self::Eata(config) => config,
            Self::Rdumb(config) => config,
            Self::Sar(config) => config,
            Self::Cotta(config) => config,
            Self::Roid(config) => config,
            Self::Deyo(config) => config,
            Self::Come(config) => config,
            Self::Asr(config) => config,
        }
    }

    /// Reads a setting. Settings are small, so that a copy is cheaper than a second match over all methods.
    fn read<T>(&self, get: impl FnOnce(&mut dyn Method) -> T) -> T {
        get(self.clone().method_mut())
    }

    /// The settings published for the method called `name` on the data of `recipe`, with the quirks of the released code. Case and
    /// the choice between `-` and `_` do not matter in names.
    ///
    /// What adapts is every norm layer, but for SAR and DeYO, which leave the last stage alone. The released code of Tent, RPL, CPL, EATA
    /// and RDumb collects batch norms only: the same in networks that have no others, and nothing at all in a ViT.
    pub fn published(name: &str, recipe: Recipe) -> Result<Self, AdaptError> {
        Ok((find(name)?.published)(recipe))
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
    /// | `sar`, `tent`, `eata` | 1e-3 | `main.py` of mr-eggplant/SAR (492c1ad): one rate for all, in proportion to the batch |
    /// | `deyo` | 1e-3 | `main.py` of Jhyun17/DeYO (abfa82e), likewise |
    /// | `eta` | 1e-3 | EATA's, being EATA without its penalty |
    /// | `come` | 1e-3 | Tent's: the choice of this project |
    /// | `rdumb` | 1e-3 | ETA's, being ETA between resets: the choice of this project |
    /// | `rpl`, `cpl`, `cotta`, `roid`, `asr` | as with batch norms | nothing else published; mariodoebler/test-time-adaptation has one rate for all networks |
    pub fn default_on(name: &str, target: Target) -> Result<Self, AdaptError> {
        let classes = target.num_classes;
        AdaptError::unless(classes >= 2, "number of classes", classes as f64, "at least 2")?;
        Ok((find(name)?.default)(target))
    }

    /// The same method with another optimizer, where it has one.
    pub fn with_optimizer(mut self, optimizer: OptimizerConfig) -> Self {
        if let Some(shared) = self.method_mut().shared() {
            *shared.optimizer = optimizer;
        }
        self
    }

    /// The same method with another learning rate; `None` if it has no learning rate.
    pub fn with_lr(self, lr: f32) -> Option<Self> {
        let optimizer = self.optimizer()?.with_lr(lr);
        Some(self.with_optimizer(optimizer))
    }

    /// The same method with or without the quirks of its released code, where there are any.
    pub fn with_published_code(mut self, published_code: bool) -> Self {
        if let Some(quirks) = self.method_mut().shared().and_then(|shared| shared.published_code) {
            *quirks = published_code;
        }
        self
    }

    /// The same method with other norm layers that adapt, where any does.
    pub fn with_param_rule(mut self, rule: ParamRule) -> Self {
        if let Some(shared) = self.method_mut().shared() {
            *shared.param_rule = rule;
        }
        self
    }

    /// The same method for a network whose values relate to pixels in this way; only methods that augment images care.
    pub fn with_pixels(mut self, pixels: PixelSpace) -> Self {
        self.method_mut().set_pixels(pixels);
        self
    }

    /// The method's name in [`METHODS`].
    pub fn name(&self) -> &'static str {
        self.read(|method| method.name())
    }

    /// What moves the parameters; `None` if nothing does.
    pub fn optimizer(&self) -> Option<OptimizerConfig> {
        self.read(|method| method.shared().map(|shared| *shared.optimizer))
    }

    /// Which norm layers adapt; `None` if none does.
    pub fn param_rule(&self) -> Option<ParamRule> {
        self.read(|method| method.shared().map(|shared| shared.param_rule.clone()))
    }

    /// The statistics batch norms use in its forward passes.
    pub fn norm_mode(&self) -> NormMode {
        self.read(|method| method.norm_mode())
    }

    /// Steps from one return to the source to the next, for methods that return at fixed intervals.
    pub fn reset_every(&self) -> Option<u64> {
        self.read(|method| method.reset_every())
    }

    /// Whether [`Adapter::prepare`] must see clean batches before the first step.
    pub fn needs_clean(&self) -> bool {
        self.read(|method| method.needs_clean())
    }

    /// Refuses a network the method has nothing to do in: no norm layer that its rule selects, or no statistics to replace.
    pub fn check_network(&self, table: &AffineTable) -> Result<(), AdaptError> {
        if self.read(|method| method.replaces_statistics()) && !table.has_batch_norm() {
            return Err(AdaptError::NoStatistics { method: self.name() });
        }
        match self.param_rule() {
            Some(rule) => rule.select(table).map(drop),
            None => Ok(()),
        }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        self.build(0).map(drop)
    }

    /// The adapter. Methods that draw random numbers draw them from `seed`.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        let adapter = self.read(|method| method.build(seed))?;
        self.norm_mode().check()?;
        Ok(adapter)
    }
}

/// The row of the method called `name`.
fn find(name: &str) -> Result<&'static MethodInfo, AdaptError> {
    let wanted = name.to_ascii_lowercase().replace('-', "_");
    let names = METHODS.iter().map(|info| info.name);
    METHODS
        .iter()
        .find(|info| info.name == wanted)
        .ok_or_else(|| AdaptError::UnknownMethod { name: name.to_owned(), nearest: nearest_quoted(&wanted, names) })
}

#[cfg(test)]
mod tests;
