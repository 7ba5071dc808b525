//! What Prometheus reads.

use crate::streams::Streams;
use flipcast_run::monitor::{AlarmKind, WindowKind};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

/// Streams that are told apart; more would be too many labels.
const MOST_STREAMS: usize = 200;

type Ratio = Gauge<f64, AtomicU64>;

/// Counters of the whole server.
pub struct Metrics {
    images: Counter,
    repeated: Counter,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Histogram,
    network_seconds: Histogram,
    refused: Counter,
    model: String,
    version: String,
}

/// What the metrics tell of the server besides its counters.
pub struct ServerGauges {
    /// Streams on disk.
    pub stored: u64,
    /// Images that wait, roughly.
    pub waiting: usize,
    /// Files of watched folders that wait, and those that cannot be read.
    pub files: (usize, usize),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EstimateLabels {
    model: String,
    version: String,
    stream: String,
    kind: &'static str,
    estimator: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StreamLabels {
    stream: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AlarmLabels {
    stream: String,
    kind: &'static str,
}

impl Metrics {
    /// Counters at 0, for the model of this name and version.
    pub fn new(model: &str, version: &str) -> Self {
        Self {
            images: Counter::default(),
            repeated: Counter::default(),
            requests: Family::default(),
            request_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            network_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            refused: Counter::default(),
            model: model.to_owned(),
            version: version.to_owned(),
        }
    }

    /// Images that were counted.
    pub fn images(&self, images: u64) {
        self.images.inc_by(images);
    }

    /// Images of requests that were counted before.
    pub fn repeated(&self, images: u64) {
        self.repeated.inc_by(images);
    }

    /// A request that was answered.
    pub fn request(&self, status: u16, seconds: f64) {
        self.requests.get_or_create(&RequestLabels { status }).inc();
        self.request_seconds.observe(seconds);
        if status == 429 {
            self.refused.inc();
        }
    }

    /// Time that the network took for the batches of one turn.
    pub fn network_seconds(&self, seconds: f64) {
        self.network_seconds.observe(seconds);
    }

    /// The page that Prometheus reads.
    pub fn render(&self, streams: &Streams, server: &ServerGauges) -> String {
        let mut registry = Registry::with_prefix("flipcast");
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of the program", build);
        registry.register("images", "Images that were counted", self.images.clone());
        registry.register("repeated_images", "Images of requests that were counted before", self.repeated.clone());
        registry.register("requests", "Requests by status", self.requests.clone());
        registry.register("refused_requests", "Requests refused because the queue was full", self.refused.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from a request to its answer",
            Unit::Seconds,
            self.request_seconds.clone(),
        );
        registry.register_with_unit(
            "network_duration",
            "Time the source model took for the batches of one turn",
            Unit::Seconds,
            self.network_seconds.clone(),
        );
        let number = |registry: &mut Registry, name: &str, help: &str, value: f64| {
            let gauge = Ratio::default();
            gauge.set(value);
            registry.register(name, help, gauge);
        };
        let names = streams.in_memory();
        number(&mut registry, "streams", "Streams, idle ones included", server.stored as f64);
        number(&mut registry, "streams_in_memory", "Streams in memory", names.len() as f64);
        number(&mut registry, "queue", "Images that wait for the network", server.waiting as f64);
        let (waiting, unreadable) = server.files;
        number(&mut registry, "watched_files_waiting", "Files of watched folders that wait", waiting as f64);
        number(&mut registry, "watched_files_unreadable", "Files there that are no images", unreadable as f64);
        self.register_streams(&mut registry, streams, &names);
        let mut page = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut page, &registry);
        page
    }

    fn register_streams(&self, registry: &mut Registry, streams: &Streams, names: &[String]) {
        let accuracy: [Family<EstimateLabels, Ratio>; 3] = Default::default();
        let gain: [Family<StreamLabels, Ratio>; 3] = Default::default();
        let images: Family<StreamLabels, Gauge> = Family::default();
        let adapted: [Family<StreamLabels, Gauge>; 4] = Default::default();
        let active: Family<AlarmLabels, Gauge> = Family::default();
        let (log_e_value, line): (Family<AlarmLabels, Ratio>, Family<AlarmLabels, Ratio>) = Default::default();
        for name in names.iter().take(MOST_STREAMS) {
            let Some(monitor) = streams.peek(name) else { continue };
            let window = monitor.last_window(WindowKind::Count);
            if let Some((window, estimate)) = window.and_then(|window| Some((window, window.best()?))) {
                let labels = EstimateLabels {
                    model: self.model.clone(),
                    version: self.version.clone(),
                    stream: name.clone(),
                    kind: "source",
                    estimator: if window.labelled.is_some() { "labelled" } else { "combined" },
                };
                let values = [estimate.accuracy, estimate.low, estimate.high];
                for (family, value) in accuracy.iter().zip(values) {
                    family.get_or_create(&labels).set(value);
                }
                let adapted = window.adapted.as_ref();
                if let Some((adapted, estimate)) = adapted.and_then(|one| Some((one, one.estimate.as_ref()?))) {
                    let labels = EstimateLabels { kind: "adapted", estimator: "gain", ..labels };
                    let values = [estimate.accuracy, estimate.low, estimate.high];
                    for (family, value) in accuracy.iter().zip(values) {
                        family.get_or_create(&labels).set(value);
                    }
                    let values = [adapted.gain, adapted.low, adapted.high];
                    for (family, value) in gain.iter().zip(values) {
                        family.get_or_create(&StreamLabels { stream: name.clone() }).set(value);
                    }
                }
            }
            let seen = i64::try_from(monitor.state().images()).unwrap_or(i64::MAX);
            images.get_or_create(&StreamLabels { stream: name.clone() }).set(seen);
            if let Some(counts) = streams.adapted(name) {
                let labels = StreamLabels { stream: name.clone() };
                let values = [counts.images, counts.allowed_images, counts.changed_images, counts.resets];
                for (family, value) in adapted.iter().zip(values) {
                    family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
                }
            }
            for kind in AlarmKind::ALL {
                let labels = AlarmLabels { stream: name.clone(), kind: kind.name() };
                active.get_or_create(&labels).set(i64::from(monitor.is_active(kind)));
            }
            for test in monitor.tests() {
                let labels = AlarmLabels { stream: name.clone(), kind: test.kind.name() };
                log_e_value.get_or_create(&labels).set(test.log_e_value);
                line.get_or_create(&labels).set(test.line);
            }
        }
        let [estimate, low, high] = accuracy;
        registry.register("estimated_accuracy_ratio", "Accuracy of the last closed window", estimate);
        registry.register("estimated_accuracy_lower_ratio", "Lower end of its interval", low);
        registry.register("estimated_accuracy_upper_ratio", "Upper end of its interval", high);
        let [estimate, low, high] = gain;
        let gained = "Accuracy of the adapted network less the source model's, in the last closed window";
        registry.register("estimated_gain_ratio", gained, estimate);
        registry.register("estimated_gain_lower_ratio", "Lower end of its interval", low);
        registry.register("estimated_gain_upper_ratio", "Upper end of its interval", high);
        registry.register("stream_images", "Images of a stream so far", images);
        let [predicted, allowed, changed, resets] = adapted;
        registry.register("adapted_images", "Images of a stream that the adapted network predicted", predicted);
        registry.register("adapted_allowed_images", "Those in which the guard found nothing", allowed);
        registry.register("adapted_changed_images", "Those it predicts otherwise than the source model", changed);
        registry.register("adaptation_resets", "Returns to the source parameters", resets);
        registry.register("alarm_active", "1 while an alarm stands", active);
        registry.register("log_e_value", "Logarithm of the evidence against `nothing has changed`", log_e_value);
        registry.register("log_e_value_line", "Where that becomes an alarm", line);
    }
}
