use crate::preprocess::Preprocess;

/// What a dataset is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// A row of the paper's main table.
    Shift,
    /// Used to fit or calibrate.
    Calibration,
    /// Small datasets to try things on.
    Small,
}

/// The splits of a dataset; each is measured on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splits {
    /// The dataset as a whole.
    One,
    /// These.
    Named(&'static [&'static str]),
    /// Each of these corruptions at severity 1 to 5: `<corruption>/<severity>`.
    Severities(&'static [&'static str]),
    /// CCC's streams: difficulty x speed x seed.
    Streams,
}

/// CCC's accuracy baselines, images per step and seeds.
const BASELINES: [u32; 3] = [0, 20, 40];
const SPEEDS: [u32; 3] = [1000, 2000, 5000];
const SEEDS: [u32; 3] = [43, 44, 45];

impl Splits {
    /// Their names in published order; a single split has the empty name.
    pub fn names(self) -> Vec<String> {
        match self {
            Self::One => vec![String::new()],
            Self::Named(names) => names.iter().map(|n| n.to_string()).collect(),
            Self::Severities(corruptions) => {
                corruptions.iter().flat_map(|c| (1..=5).map(move |s| format!("{c}/{s}"))).collect()
            }
            Self::Streams => {
                let mut names = Vec::new();
                for baseline in BASELINES {
                    for speed in SPEEDS {
                        for seed in SEEDS {
                            names.push(format!("baseline_{baseline}_transition+speed_{speed}_seed_{seed}"));
                        }
                    }
                }
                names
            }
        }
    }
}

/// How many images a split has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This many; anything else is an incomplete copy.
    Exactly(usize),
    /// About this many, by accounts that were not checked.
    Reported(usize),
    /// At least this many; the first so many are used.
    First(usize),
    /// Not known.
    Unknown,
}

/// What must happen to the pixels before the weights' rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelRule {
    /// Nothing: the weights' resize and crop apply.
    AsWeightsSay,
    /// The images were resized and cropped when the dataset was made; doing it again is a mistake.
    Ready,
    /// This many pixels are cut off every side, then the weights' rule applies.
    Bordered(usize),
}

impl PixelRule {
    /// The weights' rule as it applies to this dataset.
    pub fn adapt(self, weights: &Preprocess) -> Preprocess {
        match self {
            Self::AsWeightsSay | Self::Bordered(_) => weights.clone(),
            Self::Ready => weights.for_ready_images(),
        }
    }

    /// Pixels to cut off every side.
    pub fn border(self) -> usize {
        match self {
            Self::Bordered(border) => border,
            Self::AsWeightsSay | Self::Ready => 0,
        }
    }
}

/// One dataset by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetInfo {
    /// The name it is asked for by.
    pub name: &'static str,
    /// What it is used for.
    pub group: Group,
    /// Its splits.
    pub splits: Splits,
    /// Where a split lies below the root, in the order tried; `{split}` stands for its name.
    pub places: &'static [&'static str],
    /// Its class space, a built-in name, or empty where the network has the dataset's own classes.
    pub class_space: &'static str,
    /// What must happen to its pixels.
    pub pixels: PixelRule,
    /// Images per split.
    pub images: Count,
    /// Terms worth knowing before use.
    pub licence: &'static str,
}
