//! `--method auto`: what `flipcast advise` recommends, watched while it runs.

use super::{Args, order};
use crate::commands::estimate::check_calibration;
use crate::failure;
use anyhow::{Context, Result, ensure};
use flipcast_adapt::{MethodConfig, SourceConfig};
use flipcast_images::loader::{LoaderConfig, Order};
use flipcast_models::Model;
use flipcast_run::adapt::GainWatch;
use flipcast_run::advise::{ADVICE_IMAGES, AdviceJob, AdviceOrder, TRIAL_BATCH, advise};
use flipcast_run::open::OpenedData;
use flipcast_run::{Calibration, Device, Images, MEMORY_LIMIT, Unwatched};

/// The method to run, and what comes with it.
pub struct Advised {
    pub method: MethodConfig,
    pub anchored: Option<Model>,
    pub gain: Option<GainWatch>,
}

/// Tries every candidate on the first images and takes the best.
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
    check_calibration(path)?;
    let mut calibration = Calibration::load(path)?;
    calibration.check_fits(model, &data.preprocess, &data.scope)?;
    let Some(fit) = calibration.advice.take() else {
        return Err(failure::Advised {
            problem: format!("the calibration `{}` knows nothing of adapting", path.display()),
            hint: "make it with `flipcast calibrate --advise`".to_owned(),
        }
        .into());
    };
    let config =
        LoaderConfig { on_bad_image: args.on_bad_image.into(), limit: Some(ADVICE_IMAGES), ..data.config.clone() };
    let images = Images::open(data.dataset.clone(), config, MEMORY_LIMIT)?;
    let temperature = calibration.basis.temperature.value;
    let job = AdviceJob {
        model,
        device,
        images: &images,
        scope: &data.scope,
        fit: &fit,
        temperature,
        order: match order(args, data) {
            Order::Stored => AdviceOrder::Stored,
            Order::Shuffled { .. } => AdviceOrder::Shuffled,
        },
        limit: ADVICE_IMAGES,
        seed: args.seed,
        level: 0.9,
    };
    let advice = advise(&job, &mut Unwatched).with_context(|| format!("cannot advise on `{}`", model.name()))?;
    let Some(chosen) = advice.recommended else {
        if !args.progress.quiet {
            eprintln!("note: nothing is expected to gain half a point or more: the model is left as it is");
        }
        return Ok(Advised { method: MethodConfig::Source(SourceConfig {}), anchored: None, gain: None });
    };
    if !args.progress.quiet {
        let gain = advice.tried.first().map_or(0.0, |best| best.gain);
        eprintln!("note: adapting with {}, {:+.1} points by estimate", chosen.describe(), 100.0 * gain);
    }
    let anchored = match (&fit.anchors, chosen.anchored) {
        (Some(anchors), true) => Some(anchors.apply(model, chosen.config.norm_mode())?),
        _ => None,
    };
    Ok(Advised { method: chosen.config, anchored, gain: Some(GainWatch::new(fit.alone, temperature)) })
}
