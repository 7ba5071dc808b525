//! How errors reach the user: what failed, why, and what to do about it.

use crate::commands::corrupt::SettingsError;
use crate::commands::serve;
use crate::interrupt::{self, Interrupted};
use crate::output::tell;
use flipcast_corrupt::write::WriteError;
use flipcast_cuda::CudaError;
use flipcast_exec::ExecError;
use flipcast_ground::{Hint, with_causes};
use flipcast_images::dataset::DataError;
use flipcast_images::loader::LoadError;
use flipcast_images::preprocess::PreprocessError;
use flipcast_models::ModelError;
use flipcast_record::RecordError;
use flipcast_record::predictions::PredictionError;
use flipcast_run::adapt::AffineError;
use flipcast_run::open::{LabelMatchError, OpenError};
use flipcast_run::{LabelFileError, PartError, RunError};
use std::error::Error;
use std::io::ErrorKind;
use std::path::Path;

/// Most unusable images that are named.
const MAX_NAMED: usize = 20;

/// The environment lacks something the user asked for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Environment(pub String);

/// A check found what it looks for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fired(pub String);

/// An error with advice of its own.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct Advised {
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub hint: String,
}

/// Prints an error with its causes and hints, and gives its exit code.
pub fn report(error: &anyhow::Error) -> u8 {
    tell(&format!("error: {error}"));
    for cause in error.chain().skip(1) {
        tell(&format!("  caused by: {cause}"));
    }
    for cause in error.chain() {
        if let Some(LoadError::BadImages { bad, count }) = cause.downcast_ref() {
            for image in bad.iter().take(MAX_NAMED) {
                tell(&format!("  unusable: `{}`: {}", image.id, with_causes(&image.cause)));
            }
            if *count > MAX_NAMED {
                tell(&format!("  and {} more", count - MAX_NAMED));
            }
        }
    }
    for hint in hints(error) {
        tell(&format!("  hint: {hint}"));
    }
    exit_code(error)
}

/// What the error and its causes advise, each piece once.
pub fn hints(error: &anyhow::Error) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for hint in error.chain().filter_map(hint) {
        if !told.contains(&hint) {
            told.push(hint);
        }
    }
    told
}

/// 1 when a check fired, 130 or 143 when a signal ended the work, 3 when the environment is at fault, otherwise 2.
fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<Fired>() {
        return 1;
    }
    if let Some(Interrupted { signal, .. }) = error.downcast_ref() {
        return interrupt::exit_code(*signal);
    }
    let environment =
        |cause: &(dyn Error + 'static)| cause.is::<Environment>() || cause.is::<CudaError>() || cannot_write(cause);
    if error.chain().any(environment) {
        return 3;
    }
    2
}

/// Whether the disk, and not what the user asked for, stopped a write.
fn cannot_write(cause: &(dyn Error + 'static)) -> bool {
    let source = if let Some(DataError::Write { source, .. }) = cause.downcast_ref() {
        source
    } else if let Some(LabelFileError::Write { source, .. }) = cause.downcast_ref() {
        source
    } else if let Some(PartError::Write { source, .. }) = cause.downcast_ref() {
        source
    } else if let Some(WriteError::Io { source, .. }) = cause.downcast_ref() {
        source
    } else if let Some(SettingsError::Io { source, .. }) = cause.downcast_ref() {
        source
    } else if let Some(RecordError::Write { source, .. }) = cause.downcast_ref() {
        source
    } else if let Some(PredictionError::Write { source, .. }) = cause.downcast_ref() {
        source
    } else {
        return false;
    };
    matches!(
        source.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

/// Whether the name is that of an image.
fn is_image(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    let known = ["jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff"];
    ending.is_some_and(|ending| known.iter().any(|known| ending == *known))
}

/// What one error of a chain advises: in words of the library, then the flags that do it.
fn hint(cause: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = cause.downcast_ref::<Advised>() {
        return Some(error.hint.clone());
    }
    if let Some(error) = cause.downcast_ref::<SettingsError>() {
        return error.hint();
    }
    if let Some(hint) = serve::hint(cause) {
        return Some(hint);
    }
    match (flipcast::hint(cause), flags(cause)) {
        (Some(hint), Some(flags)) => Some(format!("{hint}: {flags}")),
        (hint, flags) => hint.or(flags),
    }
}

/// The flags and commands that do what the library advises, by error.
fn flags(cause: &(dyn Error + 'static)) -> Option<String> {
    let text = if let Some(error) = cause.downcast_ref::<ModelError>() {
        match error {
            ModelError::TensorsDoNotFit { head_classes: Some(classes), .. } => {
                return Some(format!("`--classes {classes}`"));
            }
            ModelError::Ambiguous { candidates, .. } => {
                return Some(format!("`--model {} --weights FILE`", candidates.first()?));
            }
            ModelError::NoPreprocess { published, .. } => {
                let name = published.first().unwrap_or(&"resnet50.tv_in1k");
                return Some(format!(
                    "`--model {name} --weights FILE`, or `--mean R,G,B --std R,G,B --resize SIZE --crop SIZE`"
                ));
            }
            ModelError::Preprocess { source: PreprocessError::NormaliseUnknown { .. } } => "`--mean R,G,B --std R,G,B`",
            ModelError::CardConflict { .. } => "`--model FILE` alone follows the card",
            _ => return None,
        }
    } else if let Some(error) = cause.downcast_ref::<OpenError>() {
        match error {
            OpenError::NameWithoutFile { name } => return Some(format!("`--model {name} --weights FILE`")),
            OpenError::NoSplit { .. } => "`--split train`, `--split test` or `--dataset NAME`",
            _ => return None,
        }
    } else if let Some(error) = cause.downcast_ref::<LabelMatchError>() {
        match error {
            LabelMatchError::OtherNumbers { .. } => "`--labels auto` or `--labels none`",
            LabelMatchError::NoNames { .. } => "`--class-map FILE` or `--labels none`",
            LabelMatchError::UnknownNames { .. } => "`--class-map FILE`, `--labels index` or `--labels none`",
            LabelMatchError::OtherOutputs { .. } | LabelMatchError::ClassMap(_) | LabelMatchError::Space(_) => {
                return None;
            }
        }
    } else if let Some(error) = cause.downcast_ref::<RunError>() {
        match error {
            RunError::OutsideClassSpace { .. } => "`flipcast data check` says what it holds",
            RunError::CalibrationJson { .. } => {
                "`flipcast calibrate`, or `flipcast calibrate refit` for one of an earlier version"
            }
            RunError::OtherKind { .. } => {
                "`--logits FILE` with what `flipcast calibrate --logits` made, `--model FILE` with what `flipcast calibrate --model` made"
            }
            RunError::OtherCalibration { .. } => "`flipcast calibrate`",
            RunError::FewKinds { .. } => "`--shifts fog:3,contrast:3`, or `--also DATA`",
            _ => return None,
        }
    } else if let Some(error) = cause.downcast_ref::<LoadError>() {
        match error {
            LoadError::MixedSizes { usual: Some(size), .. } => {
                return Some(format!("`--resize {}x{}`", size.width, size.height));
            }
            LoadError::MixedSizes { usual: None, .. } => "`--resize SIZE --crop SIZE`",
            LoadError::BadImages { .. } => "`--on-bad-image skip`",
            _ => return None,
        }
    } else if let Some(AffineError::NotAffine { .. }) = cause.downcast_ref() {
        "`--save-affine` writes one"
    } else if let Some(error) = cause.downcast_ref::<ExecError>() {
        match error {
            ExecError::NonFiniteLogits { .. } | ExecError::NonFiniteGradient { .. } => {
                "`--lr`, or `--guard reset`, which catches a collapse before it comes to this"
            }
            ExecError::BatchShape { .. } => "`--resize SIZE --crop SIZE`",
            ExecError::OutOfMemory { .. } => "`--batch-size`, or `--batch` for `bench`",
            _ => return None,
        }
    } else if let Some(error) = cause.downcast_ref::<DataError>() {
        match error {
            DataError::ImageCount { .. } => "`--any-size`",
            _ if flipcast::hint(error).is_some() => return None,
            DataError::Io { path, source } if source.kind() == ErrorKind::NotFound => {
                if path.to_string_lossy().contains('@') {
                    "check the path; a corruption is added as in `DATA@gaussian_noise:3`"
                } else {
                    "check the path"
                }
            }
            DataError::UnknownDataset { .. } | DataError::UnknownSplit { .. } => {
                "`flipcast data list` shows the known datasets, `flipcast data list NAME` the splits of one"
            }
            DataError::UnknownLayout { path, .. } if is_image(path) => {
                "this is one image; give the folder that holds it"
            }
            DataError::NoImages { .. } | DataError::OnlyIgnored { .. } => {
                "give the folder that holds the images or the class folders"
            }
            _ => return None,
        }
    } else {
        return None;
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use flipcast_corrupt::CorruptError;
    use flipcast_images::decode::DecodeError;

    #[test]
    fn exit_codes_tell_checks_input_and_environment_apart() {
        let io = |kind: ErrorKind| WriteError::Io { path: "out".into(), source: kind.into() };
        let plain: anyhow::Error = anyhow::anyhow!("bad input");
        assert_eq!(exit_code(&plain), 2);
        assert_eq!(exit_code(&Fired("found".into()).into()), 1);
        let wrapped = Err::<(), _>(CorruptError::BadSeverity { found: "9".into() })
            .context(Fired("found".into()))
            .expect_err("an error");
        assert_eq!(exit_code(&wrapped), 1);
        assert_eq!(exit_code(&Environment("no such set".into()).into()), 3);
        assert_eq!(exit_code(&io(ErrorKind::StorageFull).into()), 3);
        assert_eq!(exit_code(&io(ErrorKind::NotFound).into()), 2);
    }

    #[test]
    fn hints_are_found_in_every_crate_s_errors() {
        let error = CorruptError::UnknownCorruption { name: "fogg".into(), set: None, nearest: vec!["fog"] };
        assert!(hint(&error).is_some_and(|text| text.contains("spelling")));
        let error = DataError::NoImages { path: "x".into() };
        assert!(hint(&error).is_some());
        assert!(hint(&DecodeError::Empty).is_some());
        let error =
            ExecError::BatchShape { found: 12, found_extents: "2 x 2 x 3".into(), expected: "4 x 4 x 3".into() };
        assert!(hint(&error).is_some_and(|text| text.ends_with("size: `--resize SIZE --crop SIZE`")));
    }
}
