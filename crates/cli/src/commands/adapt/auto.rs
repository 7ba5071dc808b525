//! `--method auto`: what `flipcast advise` recommends, watched while it runs.

use super::{Args, order};
use crate::commands::estimate::{check_calibration, note_sizing};
use crate::failure;
use crate::output::tell;
use anyhow::{Context, Result, ensure};
use flipcast_adapt::{MethodConfig, SourceConfig};
use flipcast_images::loader::{LoaderConfig, Order};
use flipcast_models::Model;
use flipcast_record::results::ADVICE_FORMAT;
use flipcast_run::adapt::Arbiter;
use flipcast_run::advise::{
    ADVICE_IMAGES, Advice, AdviceFit, AdviceJob, AdviceOrder, Followed, TRIAL_BATCH, advise, follow,
};
use flipcast_run::open::OpenedData;
use flipcast_run::{Calibration, Device, Images, MEMORY_LIMIT, Unwatched};
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Advice is far smaller.
const MAX_ADVICE_BYTES: u64 = 16 << 20;

/// The method to run, and what comes with it.
pub struct Advised {
    pub method: MethodConfig,
    pub anchored: Option<Model>,
    pub arbiter: Option<Arbiter>,
}

/// Takes the best candidate: of the advice given, or else of trials on the first images.
pub fn follow_advice(args: &Args, model: &Model, data: &OpenedData, device: Device) -> Result<Advised> {
    let Some(path) = &args.calibration else {
        return Err(failure::Advised {
            problem: "`--method auto` needs to know what methods gain on this model".to_owned(),
            hint: "give `--calibration FILE`, made with `flipcast calibrate --advise`".to_owned(),
        }
        .into());
    };
    ensure!(!args.no_source, "--no-source is given, but `--method auto` compares with the source model");
    ensure!(args.affine.is_none(), "--affine is given, but `--method auto` starts from the source model");
    ensure!(
        args.batch_size == TRIAL_BATCH,
        "--batch-size is {}, but candidates were tried with {TRIAL_BATCH}",
        args.batch_size
    );
    let given = args.settings.given().or(args.params.is_some().then_some("--params"));
    let given = given.or(args.clean.is_some().then_some("--clean"));
    if let Some(option) = given {
        return Err(failure::Advised {
            problem: format!("{option} is given, but `--method auto` chooses the method with its settings"),
            hint: "leave it out, or name a method".to_owned(),
        }
        .into());
    }
    check_calibration(path)?;
    let mut calibration = Calibration::load(path)?;
    calibration.check_fits(model, &data.preprocess, &data.scope)?;
    note_sizing(&calibration, model, (args.images.only()?, &data.preprocess), |note| args.progress.note(note));
    let Some(fit) = calibration.advice.take() else {
        return Err(failure::Advised {
            problem: format!("the calibration `{}` knows nothing of adapting", path.display()),
            hint: "make it with `flipcast calibrate --advise`".to_owned(),
        }
        .into());
    };
    let temperature = calibration.basis.temperature.value;
    let given = args.advice.as_deref().map(|path| read_advice(path, args)).transpose()?;
    if !fit.whole.tells_risk() {
        args.progress.note(&format!(
            "note: staying with the source model: the shifts of the calibration `{}` are too few kinds to tell the risk of losing accuracy",
            path.display()
        ));
        return Ok(Advised { method: MethodConfig::Source(SourceConfig {}), anchored: None, arbiter: None });
    }
    let advice = match given {
        Some(advice) => advice,
        None => make_advice(args, model, data, device, (&fit, temperature))?,
    };
    let Followed { candidate, anchored, arbiter } = follow(model, &fit, temperature, &advice)?;
    if !args.progress.quiet {
        let expected = advice.tried.first().map_or(0.0, |best| best.gain);
        match advice.recommended {
            Some(_) => tell(&format!(
                "note: adapting with {}, {:+.1} points by estimate",
                candidate.describe(),
                100.0 * expected
            )),
            None => tell(&format!(
                "note: nothing is expected to gain half a point or more on the first images; for those to come, adapting with {}",
                candidate.describe()
            )),
        }
    }
    Ok(Advised { method: candidate.config, anchored, arbiter: Some(arbiter) })
}

/// Tries every candidate on the first images.
fn make_advice(
    args: &Args,
    model: &Model,
    data: &OpenedData,
    device: Device,
    (fit, temperature): (&AdviceFit, f64),
) -> Result<Advice> {
    let config =
        LoaderConfig { on_bad_image: args.on_bad_image.into(), limit: Some(ADVICE_IMAGES), ..data.config.clone() };
    let images = Images::open(data.dataset.clone(), config, MEMORY_LIMIT)?;
    let job = AdviceJob {
        model,
        device,
        images: &images,
        scope: &data.scope,
        fit,
        temperature,
        order: match order(args, data) {
            Order::Stored => AdviceOrder::Stored,
            Order::Shuffled { .. } => AdviceOrder::Shuffled,
        },
        limit: ADVICE_IMAGES,
        seed: args.seed,
        level: 0.9,
    };
    advise(&job, &mut Unwatched).with_context(|| format!("cannot advise on `{}`", model.name()))
}

/// What `flipcast advise` wrote; says so where that was for other images.
fn read_advice(path: &Path, args: &Args) -> Result<Advice> {
    let cannot = || format!("cannot read the advice `{}`", path.display());
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(MAX_ADVICE_BYTES).read_to_string(&mut text)).with_context(cannot)?;
    let file: Value = serde_json::from_str(&text).with_context(cannot)?;
    if file["flipcast_advice"] != ADVICE_FORMAT {
        return Err(failure::Advised {
            problem: format!("`{}` holds no advice of format {ADVICE_FORMAT}", path.display()),
            hint: "expected what `flipcast advise --out FILE` wrote".to_owned(),
        }
        .into());
    }
    let advice = Advice::deserialize(&file["advice"]).with_context(cannot)?;
    let here = args.images.only()?;
    match file["data"].as_str() {
        Some(there) if there != here => args.progress.note(&format!(
            "note: the advice `{}` was given for `{there}`, but --data is `{here}`: what gains there may lose here",
            path.display()
        )),
        _ => {}
    }
    Ok(advice)
}
