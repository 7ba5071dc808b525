//! The server: its threads, its queue and what its routes share.

use crate::adaptation::Adapting;
use crate::config::ServeConfig;
use crate::engine::{Answer, Job, JobInput, Refusal, Shared, start_engine};
use crate::feeder::Feeder;
use crate::metrics::Metrics;
use crate::network::Network;
use crate::prepared::Preparation;
use crate::store::{Store, Write};
use crate::streams::{StreamLimits, Streams};
use crate::tls::{check_tls, spawn_serving};
use crate::watch::{WatchStatus, start_watching};
use crate::webhook::send_alarms;
use crate::writer::start_writer;
use crate::{ApiError, Log, ServeError, Writer, routes};
use axum::Router;
use flipcast_models::Model;
use flipcast_run::monitor::MonitorBasis;
use flipcast_run::open::OpenError;
use flipcast_run::{Calibration, Device, OutputsCalibration};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// How long open requests may take to end when the server stops.
const LAST_REQUESTS: Duration = Duration::from_secs(10);
/// How often the server asks whether it should stop.
const STOP_EVERY: Duration = Duration::from_millis(100);
/// How often images whose time is over are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// What is served.
pub enum Subject<'a> {
    /// A network, which predicts the images of requests.
    Network {
        /// The model.
        model: &'a Model,
        /// Its calibration.
        calibration: &'a Calibration,
        /// Where it runs.
        device: Device,
    },
    /// Another server predicts; its responses are logged here.
    Outputs(&'a OutputsCalibration),
}

/// A server that has not begun to listen.
pub struct Server {
    app: Arc<App>,
    threads: Vec<JoinHandle<()>>,
    alarms: tokio::sync::mpsc::UnboundedReceiver<(String, flipcast_run::monitor::Alarm)>,
}

/// What routes share.
pub(crate) struct App {
    pub(crate) config: ServeConfig,
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Arc<Store>,
    pub(crate) preparation: Option<Preparation>,
    pub(crate) classes: usize,
    /// KiB that may wait.
    pub(crate) queue: Arc<Semaphore>,
    /// Bodies of unknown length that are read at the same time.
    #[cfg(feature = "grpc")]
    pub(crate) unknown_bodies: Arc<Semaphore>,
    /// Images that are decoded at the same time.
    pub(crate) decoders: Arc<Semaphore>,
    pub(crate) jobs: Sender<Job>,
    pub(crate) watched: WatchStatus,
    /// What the threads that predict and write hold as long as they live.
    threads: [Weak<()>; 2],
}

impl Server {
    /// Opens the state, starts the network and its threads.
    pub fn new(subject: Subject, config: ServeConfig, log: Log) -> Result<Self, ServeError> {
        config.check()?;
        check_tls(config.tls.as_ref())?;
        let (basis, calibration_key, preparation) = match &subject {
            Subject::Network { model, calibration, .. } => {
                let basis = MonitorBasis::new(calibration, model)?;
                let preprocess = model.require_preprocess().map_err(|source| ServeError::Model {
                    source: Box::new(OpenError::Preprocess { model: model.name().to_owned(), source: source.into() }),
                })?;
                let preparation = Preparation::new(preprocess.clone(), model.input_size(), config.limits.image_pixels);
                (basis, calibration.key()?, Some(preparation))
            }
            Subject::Outputs(calibration) => (MonitorBasis::from_outputs(calibration)?, calibration.key()?, None),
        };
        let windows = format!("{} images", config.monitor.window_images);
        let origin = [("calibration", calibration_key), ("window size", windows)];
        let store = Arc::new(Store::open(&config.state, &origin)?);
        let adapt = config.adapt.as_ref();
        let network = match (&subject, &preparation) {
            (Subject::Network { model, device, .. }, Some(preparation)) => {
                let adapting =
                    adapt.map(|method| Adapting::new(model, *device, method, store.clone(), basis.estimates_gain()));
                let adapting = adapting.transpose()?;
                if let Some(adapting) = &adapting {
                    log.info("adapting", &[("bytes_per_stream", adapting.stream_bytes().into())]);
                }
                Some(Network::new(model, *device, preparation.clone(), adapting, &basis)?)
            }
            _ => None,
        };
        if let Some(method) = adapt.filter(|_| network.is_none()) {
            let (setting, found) = ("the method of adaptation", method.name().to_owned());
            return Err(ServeError::Setting { setting, found, expected: "none where there is no network" });
        }
        let (writer, commits) = Writer::new();
        let limits = StreamLimits { streams: config.limits.streams, in_memory: config.limits.streams_in_memory };
        let basis = Arc::new(basis);
        let classes = basis.classes();
        let streams = Streams::new(basis, config.monitor.clone(), store.clone(), writer, limits)?;
        let streams = Arc::new(Mutex::new(streams));
        let metrics = Arc::new(Metrics::new(&config.model_name, &config.model_version));
        let (alarms, raised) = tokio::sync::mpsc::unbounded_channel();
        let (predicts, writes) = (Arc::new(()), Arc::new(()));
        let writer = start_writer(commits, store.clone(), Arc::downgrade(&streams), log.clone(), writes.clone())?;
        let shared = Arc::new(Shared { streams, metrics, log, alarms });
        let (jobs, waiting) = channel();
        let engine = start_engine(waiting, network, shared.clone(), classes, predicts.clone())?;
        let decoders = std::thread::available_parallelism().map_or(2, usize::from);
        let app = App {
            queue: Arc::new(Semaphore::new(config.limits.queue_bytes / 1024)),
            #[cfg(feature = "grpc")]
            unknown_bodies: Arc::new(Semaphore::new((config.limits.queue_bytes / config.limits.body_bytes).max(1))),
            decoders: Arc::new(Semaphore::new(decoders)),
            config,
            shared,
            store,
            preparation,
            classes,
            jobs,
            watched: WatchStatus::default(),
            threads: [Arc::downgrade(&predicts), Arc::downgrade(&writes)],
        };
        let app = Arc::new(app);
        let mut threads = vec![engine, writer];
        threads.extend(start_watching(&app)?);
        Ok(Self { app, threads, alarms: raised })
    }

    /// Whether its connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.app.config.tls.is_some()
    }

    /// A way in that needs no connection.
    pub fn feeder(&self) -> Feeder {
        Feeder::new(&self.app)
    }

    /// Listens on the address of the settings until `should_stop` says so, which is asked ten times a second; `listening` hears where.
    pub fn run(
        self,
        listening: impl FnOnce(SocketAddr),
        should_stop: impl Fn() -> bool + Send + 'static,
    ) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Thread)?;
        let served = runtime.block_on(async move {
            let address = self.app.config.listen;
            let cannot = |source| ServeError::Listen { address: address.to_string(), source };
            let listener = TcpListener::bind(address).await.map_err(cannot)?;
            listening(listener.local_addr().map_err(cannot)?);
            let stop = async move {
                while !should_stop() {
                    tokio::time::sleep(STOP_EVERY).await;
                }
            };
            self.serve(listener, stop).await
        });
        // A client that holds its connection does not hold the program.
        runtime.shutdown_timeout(STOP_EVERY);
        served
    }

    /// The routes, to be called without a connection.
    pub fn router(&self) -> Router {
        routes::router(self.app.clone())
    }

    /// Answers requests until `stop` says so; open ones are answered before this returns, and all of it is on disk.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let Self { app, threads, alarms } = self;
        let log = app.shared.log.clone();
        let address = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
        let sending = tokio::spawn(send_alarms(alarms, app.config.webhook.clone(), log.clone()));
        let forgetting = tokio::spawn(forget_images(app.clone()));
        log.info("listening", &[("address", address.as_str().into())]);
        let router = routes::router(app.clone());
        let (stopping, stopped) = oneshot::channel();
        let stop = async move {
            stop.await;
            let _ = stopping.send(());
        };
        let mut serving = spawn_serving(listener, router, stop, app.config.tls.clone(), app.config.limits, &log)?;
        tokio::select! {
            _ = &mut serving => {}
            _ = stopped => {
                if timeout(LAST_REQUESTS, &mut serving).await.is_err() {
                    serving.abort();
                }
            }
        }
        forgetting.abort();
        let _ = forgetting.await;
        drop(app);
        for thread in threads {
            let _ = timeout(LAST_REQUESTS, tokio::task::spawn_blocking(move || thread.join())).await;
        }
        let _ = timeout(LAST_REQUESTS, sending).await;
        log.info("stopped", &[]);
        Ok(())
    }
}

impl App {
    /// Hands a job to the engine and waits for its answer.
    pub(crate) async fn submit(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<Answer, Refusal>>) -> Job,
    ) -> Result<Answer, ApiError> {
        use axum::http::StatusCode;
        let stopping = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
        let (reply, answer) = oneshot::channel();
        self.jobs.send(make(reply)).map_err(|_| stopping())?;
        match timeout(Duration::from_secs(self.config.limits.seconds), answer).await {
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(_)) => Err(stopping()),
            Err(_) => {
                let late = "the answer takes too long; a request with the same id and body is not counted again";
                Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, late))
            }
        }
    }

    /// Images that wait, roughly: KiB in the queue by the size of an image.
    pub(crate) fn waiting(&self) -> usize {
        let taken = self.config.limits.queue_bytes / 1024 - self.queue.available_permits();
        let image = self.preparation.as_ref().map_or(4 * self.classes, Preparation::image_bytes);
        1024 * taken / image.max(1)
    }

    /// Whether the threads that predict and write are there; without them nothing but a new start helps.
    pub(crate) fn is_alive(&self) -> bool {
        self.threads.iter().all(|thread| thread.strong_count() > 0)
    }

    /// Whether requests can be answered: the threads live, the state can be read, and no write failed of late.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_alive() && self.store.is_usable()
    }
}

impl Job {
    /// A job of images or logits of `stream`.
    pub fn new(
        stream: String,
        request: Option<u64>,
        input: JobInput,
        reply: oneshot::Sender<Result<Answer, Refusal>>,
    ) -> Self {
        let (files, writes) = (Vec::new(), Vec::new());
        Self { stream, request, time: crate::log::now(), input, files, writes, permit: None, reply }
    }
}

async fn forget_images(app: Arc<App>) {
    let Some(seconds) = app.config.keep_images else { return };
    loop {
        tokio::time::sleep(FORGET_EVERY).await;
        let before = (crate::log::now() as u64).saturating_sub(seconds);
        app.shared.lock().commit(vec![Write::ForgetImages { before }], Vec::new(), |_| ());
    }
}
