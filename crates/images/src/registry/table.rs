use super::Count::{Exactly, First, Reported, Unknown};
use super::Group::{Calibration, Shift, Small};
use super::PixelRule::{AsWeightsSay, Bordered, Ready};
use super::{Count, DatasetInfo, Group, PixelRule, Splits};

#[rustfmt::skip]
const IMAGENET_C: &[&str] = &[
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
    "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
];
const IMAGENET_C_EXTRA: &[&str] = &["speckle_noise", "gaussian_blur", "spatter", "saturate"];
#[rustfmt::skip]
const IMAGENET_C_BAR: &[&str] = &[
    "blue_noise_sample", "brownish_noise", "caustic_refraction", "checkerboard_cutout", "cocentric_sine_waves",
    "inverse_sparkles", "perlin_noise", "plasma_noise", "single_frequency_greyscale", "sparkles",
];
#[rustfmt::skip]
const IMAGENET_3DCC: &[&str] = &[
    "near_focus", "far_focus", "fog_3d", "flash", "color_quant", "low_light", "xy_motion_blur", "z_motion_blur",
    "iso_noise", "bit_error", "h265_abr", "h265_crf",
];
#[rustfmt::skip]
const CIFAR_C: &[&str] = &[
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
    "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
    "speckle_noise", "gaussian_blur", "spatter", "saturate",
];
const V2: &[&str] = &["matched-frequency", "threshold0.7", "top-images"];
#[rustfmt::skip]
const BACKGROUNDS: &[&str] = &[
    "original", "mixed_same", "mixed_rand", "mixed_next", "no_fg", "only_bg_b", "only_bg_t", "only_fg",
];
#[rustfmt::skip]
const PATCH_TARGETS: &[&str] = &[
    "487", "513", "546", "585", "804", "806", "878", "923", "954", "968",
];
const OBFUSCATIONS: &[&str] = &["ColorPatternOverlay", "LowContrastTriangles", "PerspectiveComposition"];

const SPLIT: &[&str] = &["{split}"];
const WHOLE: &[&str] = &["val", ""];

const RESEARCH: &str = "images from ImageNet: non-commercial research and education only";
const OPEN: &str = "research use; see the publisher's page";

/// The columns of one row: name, group, splits, places, class space, pixels, images, licence.
type Row = (&'static str, Group, Splits, &'static [&'static str], &'static str, PixelRule, Count, &'static str);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("imagenet-c", Shift, Splits::Severities(IMAGENET_C), SPLIT, "imagenet-1k", Ready, Exactly(50_000), RESEARCH),
    ("imagenet-c-bar", Shift, Splits::Severities(IMAGENET_C_BAR), SPLIT, "imagenet-1k", Ready, Exactly(50_000), RESEARCH),
    ("imagenet-3dcc", Shift, Splits::Severities(IMAGENET_3DCC), SPLIT, "imagenet-1k", Ready, Exactly(50_000), "non-commercial licence of the 3D Common Corruptions; images from ImageNet"),
    ("ccc", Shift, Splits::Streams, SPLIT, "imagenet-1k", Ready, First(25_000), RESEARCH),
    ("stylized-imagenet", Shift, Splits::One, WHOLE, "imagenet-1k", Ready, Exactly(50_000), "not distributed: every copy has its own styles, so numbers vary by copy"),
    ("imagenet-v2", Shift, Splits::Named(V2), &["{split}", "imagenetv2-{split}-format-val", "imagenetv2-{split}"], "imagenet-v2", AsWeightsSay, Exactly(10_000), OPEN),
    ("imagenet-sketch", Shift, Splits::One, &["sketch", ""], "imagenet-1k", AsWeightsSay, Reported(50_889), OPEN),
    ("imagenet-r", Shift, Splits::One, &["imagenet-r", ""], "imagenet-r", AsWeightsSay, Exactly(30_000), OPEN),
    ("imagenet-a", Shift, Splits::One, &["imagenet-a", ""], "imagenet-a", AsWeightsSay, Exactly(7_500), OPEN),
    ("imagenet-d-real", Shift, Splits::One, &["real", ""], "imagenet-d", AsWeightsSay, Exactly(97_095), OPEN),
    ("imagenet-d-painting", Shift, Splits::One, &["painting", ""], "imagenet-d", AsWeightsSay, Exactly(39_556), OPEN),
    ("imagenet-d-clipart", Shift, Splits::One, &["clipart", ""], "imagenet-d", AsWeightsSay, Exactly(26_023), OPEN),
    ("imagenet-d-sketch", Shift, Splits::One, &["sketch", ""], "imagenet-d", AsWeightsSay, Exactly(37_066), OPEN),
    ("imagenet-d-infograph", Shift, Splits::One, &["infograph", ""], "imagenet-d", AsWeightsSay, Exactly(28_752), OPEN),
    ("imagenet-d-quickdraw", Shift, Splits::One, &["quickdraw", ""], "imagenet-d", AsWeightsSay, Exactly(90_500), OPEN),
    ("imagenet-cartoon-drawing", Shift, Splits::Named(&["cartoon", "drawing"]), &["{split}", "imagenet-{split}"], "imagenet-1k", AsWeightsSay, Exactly(50_000), RESEARCH),
    ("imagenet-9", Shift, Splits::Named(BACKGROUNDS), &["{split}/val", "{split}"], "imagenet-9", Ready, Reported(4_050), RESEARCH),
    ("imagenet-c-patch", Shift, Splits::Severities(IMAGENET_C), SPLIT, "imagenet-1k", Ready, Exactly(50_000), RESEARCH),
    ("imagenet-hard", Shift, Splits::One, &["data", ""], "imagenet-hard", AsWeightsSay, Reported(10_980), OPEN),
    ("imagenet-patch", Shift, Splits::Named(PATCH_TARGETS), &["{split}", "Imagenet-Patch/{split}"], "imagenet-patch", AsWeightsSay, Exactly(5_000), RESEARCH),
    ("imagenet-obfuscations", Shift, Splits::Named(OBFUSCATIONS), &["{split}", "validation_{split}"], "imagenet-1k", Ready, Unknown, "images from ImageNet; unpack the record files into class folders or shards first"),
    ("objectnet", Shift, Splits::One, &["objectnet-1.0/images", "images", ""], "objectnet", Bordered(2), Exactly(18_574), "may never be used to tune parameters of any model: estimate on it, do not adapt to it"),
    ("ninco", Shift, Splits::One, &["NINCO_OOD_classes", ""], "ninco", AsWeightsSay, Exactly(5_879), OPEN),
    ("imagenet-val", Calibration, Splits::One, WHOLE, "imagenet-1k", AsWeightsSay, Exactly(50_000), RESEARCH),
    ("imagenet-c-extra", Calibration, Splits::Severities(IMAGENET_C_EXTRA), SPLIT, "imagenet-1k", Ready, Exactly(50_000), RESEARCH),
    ("tiny-imagenet-val", Small, Splits::One, &["tiny_imagenet_val.tar", "val", ""], "", AsWeightsSay, Exactly(10_000), RESEARCH),
    ("cifar10-test", Small, Splits::One, WHOLE, "", AsWeightsSay, Exactly(10_000), OPEN),
    ("cifar100-test", Small, Splits::One, &["cifar100_test.tar", ""], "", AsWeightsSay, Exactly(10_000), OPEN),
    ("cifar10-c", Small, Splits::Severities(CIFAR_C), SPLIT, "", AsWeightsSay, Exactly(10_000), OPEN),
    ("cifar100-c", Small, Splits::Severities(CIFAR_C), SPLIT, "", AsWeightsSay, Exactly(10_000), OPEN),
    ("imagenette", Small, Splits::One, WHOLE, "imagenette", AsWeightsSay, Unknown, RESEARCH),
];

/// Every dataset known by name: the paper's rows first, in its order.
pub const DATASETS: [DatasetInfo; ROWS.len()] = {
    let mut all = [row(ROWS[0]); ROWS.len()];
    let mut i = 0;
    while i < ROWS.len() {
        all[i] = row(ROWS[i]);
        i += 1;
    }
    all
};

const fn row(row: Row) -> DatasetInfo {
    DatasetInfo {
        name: row.0,
        group: row.1,
        splits: row.2,
        places: row.3,
        class_space: row.4,
        pixels: row.5,
        images: row.6,
        licence: row.7,
    }
}

/// Whether a published set of corruptions has one of this name.
pub(crate) fn is_corruption(name: &str) -> bool {
    [IMAGENET_C, IMAGENET_C_EXTRA, IMAGENET_C_BAR, IMAGENET_3DCC].iter().any(|set| set.contains(&name))
}

/// The datasets of one group.
pub fn datasets(group: Group) -> impl Iterator<Item = DatasetInfo> {
    DATASETS.into_iter().filter(move |d| d.group == group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labelspace::builtin;

    #[test]
    fn the_paper_has_23_rows_and_326_splits() {
        assert_eq!(datasets(Group::Shift).count(), 23);
        let splits: usize = datasets(Group::Shift).map(|d| d.splits.names().len()).sum();
        assert_eq!(splits, 326);
    }

    #[test]
    fn names_differ_and_class_spaces_exist() {
        for (i, dataset) in DATASETS.iter().enumerate() {
            assert!(DATASETS[..i].iter().all(|d| d.name != dataset.name));
            if !dataset.class_space.is_empty() {
                builtin(dataset.class_space).unwrap();
            }
            assert!(!dataset.places.is_empty() && !dataset.licence.is_empty());
        }
    }
}
