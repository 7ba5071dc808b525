//! `flipcast serve`: a monitor beside a running classifier.

mod demo;

use super::demo::assets;
use super::estimate::note_sizing;
use super::inputs::{ModelArgs, PreprocessArgs};
use super::{DeviceArgs, thread_count};
use crate::failure::Advised;
use crate::interrupt::StopRequest;
use crate::output::print;
use crate::output::tell;
use crate::progress::ProgressArgs;
use anyhow::{Context, Result};
use flipcast_adapt::{MethodConfig, Norms, Target};
use flipcast_estimate::FLIP_BATCH;
use flipcast_ground::Hint;
use flipcast_models::Model;
use flipcast_run::monitor::MonitorConfig;
use flipcast_run::{Calibration, OutputsCalibration};
use flipcast_serve::{Limits, Log, ServeConfig, ServeError, Server, Subject, TlsFiles, Tokens, WatchedFolder, Webhook};
use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Watch a running classifier: its accuracy by windows, alarms, a page, metrics, and images worth a label.
///
/// Answers the Open Inference Protocol v2 over HTTP and gRPC (JSON and binary tensors; files, pixels or values) and takes KServe's logged
/// CloudEvents. Without --model, a calibration of outputs alone watches what another server predicts. `docs/serve.md` shows
/// requests, metrics and alarms.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Bring a model, its calibration and three streams, two of which change after half a minute
    #[arg(long, conflicts_with_all = ["model", "calibration"])]
    demo: bool,
    #[command(flatten)]
    model: Option<ModelArgs>,
    #[command(flatten)]
    preprocess: PreprocessArgs,
    /// What `flipcast calibrate` wrote
    #[arg(long, value_name = "FILE", required_unless_present = "demo")]
    calibration: Option<PathBuf>,
    /// Folder of the state: one file, which outlives the program [default: flipcast-state; with --demo, a folder that is removed]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Where to listen; an address that other machines can reach needs --write-token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8686")]
    listen: SocketAddr,
    /// The model's name in requests [default: that of the model]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The model's version in requests
    #[arg(long, value_name = "VERSION", default_value = "1")]
    model_version: String,
    /// Images of a window, a multiple of 64 [default: 512; with --demo, 256]
    #[arg(long, value_name = "N")]
    window_images: Option<usize>,
    /// Seconds of a window by time
    #[arg(long, value_name = "N", default_value_t = 3600)]
    window_seconds: u64,
    /// Probability with which intervals are meant to hold the accuracy
    #[arg(long, default_value_t = 0.9)]
    level: f64,
    /// Probability of any false alarm in a stream that never changes
    #[arg(long, value_name = "P", default_value_t = 0.01)]
    false_alarms: f64,
    /// Raise an alarm when the accuracy is probably below this, such as 0.8
    #[arg(long, value_name = "ACCURACY")]
    accuracy_line: Option<f64>,
    /// Send alarms as JSON to this address, http://host[:port]/path
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Count the images that come into this folder, in a stream of its name or of the one given; may be given several times
    #[arg(long, value_name = "DIR[=STREAM]")]
    watch: Vec<String>,
    /// Let the network adapt to every stream, by tent, rpl, cpl, eta or come; its classes are told beside the source model's where its guard finds nothing, and its accuracy where the calibration was made with --advise
    #[arg(long, value_name = "METHOD", conflicts_with = "demo", requires = "model")]
    adapt: Option<String>,
    /// PEM file with the certificate, for encrypted connections; needs a build with the feature `tls`
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with its private key; both files are read again when they change
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Keep images for this many hours, so that the page can show those to label; without it no image is kept
    #[arg(long, value_name = "HOURS")]
    keep_images: Option<u64>,
    /// File with the token that writing needs
    #[arg(long, value_name = "FILE")]
    write_token: Option<PathBuf>,
    /// File with the token that reading needs
    #[arg(long, value_name = "FILE")]
    read_token: Option<PathBuf>,
    /// Largest body of a request, in MiB
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_body: usize,
    /// Most images of a request
    #[arg(long, value_name = "N", default_value_t = 1024)]
    max_images: usize,
    /// MiB of requests and images that may wait; beyond this requests are told to come again
    #[arg(long, value_name = "N", default_value_t = 512)]
    queue: usize,
    /// Seconds for which a request may arrive, be decoded, and wait for its answer; a connection that says nothing for so long is closed
    #[arg(long, value_name = "N", default_value_t = 30)]
    timeout: u64,
    /// Most connections at the same time; others wait
    #[arg(long, value_name = "N", default_value_t = 4096)]
    max_connections: usize,
    /// Most streams, idle ones included
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    max_streams: u64,
    /// Most streams in memory; the others lie on disk until an image comes
    #[arg(long, value_name = "N", default_value_t = 2000)]
    streams_in_memory: usize,
    /// Threads; 0 means one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if args.demo {
        return demo::run(args);
    }
    let path = args.calibration.as_deref().context("--calibration is required")?;
    let state = args.state.clone().unwrap_or_else(|| PathBuf::from("flipcast-state"));
    match &args.model {
        Some(model) => {
            let model = model.open(&args.preprocess, &ProgressArgs::default())?;
            let calibration = Calibration::load(path)?;
            check_fits(&calibration, &model)?;
            let server = args.network_server(&model, &calibration, state)?;
            serve(server, &StopRequest::listen()?)
        }
        None => {
            let calibration = OutputsCalibration::load(path)?;
            let config = args.config("outputs", Vec::new(), state)?;
            let server = Server::new(Subject::Outputs(&calibration), config, Log::stderr())?;
            serve(server, &StopRequest::listen()?)
        }
    }
}

/// Serves until a signal asks for an end.
fn serve(server: Server, stop: &StopRequest) -> Result<()> {
    let scheme = if server.is_encrypted() { "https" } else { "http" };
    let stop = stop.clone();
    let listening = move |address: SocketAddr| {
        // A closed stdout is no reason not to serve.
        let _ = print(&format!("listening on {scheme}://{address}\n"));
    };
    Ok(server.run(listening, move || stop.signal().is_some())?)
}

impl Args {
    /// A server of a network.
    fn network_server(&self, model: &Model, calibration: &Calibration, state: PathBuf) -> Result<Server> {
        let device = self.device.device(thread_count(self.threads)?)?;
        let names = model.class_names().map(<[String]>::to_vec).unwrap_or_default();
        let norms = Norms::of(&model.graph().affine_table());
        let target = Target { num_classes: model.num_classes(), norms, batch_size: FLIP_BATCH };
        let adapt = self.adapt.as_deref().map(|name| MethodConfig::default_on(name, target)).transpose()?;
        let config = ServeConfig { adapt, ..self.config(model.name(), names, state)? };
        let subject = Subject::Network { model, calibration, device };
        Ok(Server::new(subject, config, Log::stderr())?)
    }

    fn config(&self, name: &str, class_names: Vec<String>, state: PathBuf) -> Result<ServeConfig> {
        let monitor = MonitorConfig {
            window_images: self.window_images.unwrap_or(if self.demo { 256 } else { 512 }),
            window_seconds: self.window_seconds,
            level: self.level,
            false_alarms: self.false_alarms,
            accuracy_line: self.accuracy_line,
            ..MonitorConfig::default()
        };
        let limits = Limits {
            body_bytes: self.max_body.saturating_mul(1 << 20),
            request_images: self.max_images,
            queue_bytes: self.queue.saturating_mul(1 << 20),
            seconds: self.timeout,
            connections: self.max_connections,
            streams: self.max_streams,
            streams_in_memory: self.streams_in_memory,
            ..Limits::default()
        };
        let (read, write) = (read_token(self.read_token.as_deref())?, read_token(self.write_token.as_deref())?);
        Ok(ServeConfig {
            listen: self.listen,
            state,
            model_name: self.name.clone().unwrap_or_else(|| name.to_owned()),
            model_version: self.model_version.clone(),
            class_names,
            monitor,
            tokens: Tokens { read, write },
            limits,
            keep_images: self.keep_images.map(|hours| hours.saturating_mul(3600)),
            webhook: self.webhook.as_deref().map(Webhook::parse).transpose()?,
            adapt: None,
            watch: self.watch.iter().map(|text| WatchedFolder::parse(text)).collect(),
            tls: self
                .tls_cert
                .clone()
                .zip(self.tls_key.clone())
                .map(|(certificate, key)| TlsFiles { certificate, key }),
        })
    }
}

fn check_fits(calibration: &Calibration, model: &Model) -> Result<()> {
    let preprocess = model.require_preprocess()?;
    calibration.check_fits(model, preprocess, &flipcast_run::Scope::new(model.num_classes(), None))?;
    note_sizing(calibration, model, (model.name(), preprocess), tell);
    Ok(())
}

/// The first line of a file.
fn read_token(path: Option<&Path>) -> Result<Option<String>> {
    let Some(path) = path else { return Ok(None) };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the token in `{}`", path.display()))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < 16 {
        let (problem, hint) = (
            format!("the token in `{}` has {} letters, expected at least 16", path.display(), token.len()),
            "`openssl rand -hex 32` makes one".to_owned(),
        );
        return Err(Advised { problem, hint }.into());
    }
    Ok(Some(token.to_owned()))
}

/// What an error of the server advises, in words of the command line.
pub fn hint(cause: &(dyn Error + 'static)) -> Option<String> {
    match cause.downcast_ref::<ServeError>()? {
        ServeError::Unprotected { .. } => Some("give --write-token FILE, or --listen 127.0.0.1:8686".to_owned()),
        ServeError::OtherState { .. } => Some("give another folder with --state".to_owned()),
        error => error.hint(),
    }
}
