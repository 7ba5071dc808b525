//! Streams in memory and on disk: every event is applied at once and on disk before anybody is told so.

use crate::adaptation::AdaptedCounts;
use crate::event::Event;
use crate::store::{Store, Stored, Write};
use crate::{ServeError, Writer};
use flipcast_estimate::Outputs;
use flipcast_run::monitor::{
    Alarm, Monitor, MonitorBasis, MonitorConfig, MonitorError, MonitorQuestion, MonitorState, Window, WindowKind,
};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Events after which a stream's snapshot is written anew.
const EVENTS_PER_SNAPSHOT: u64 = 256;
/// Images after which it is.
const IMAGES_PER_SNAPSHOT: u64 = 512;
/// Requests with an id that a stream remembers.
const KNOWN_REQUESTS: usize = 4096;
/// Windows of each kind that a stream keeps on disk.
const WINDOWS_ON_DISK: u64 = 4000;
/// Windows of each kind that it keeps in memory.
const WINDOWS_IN_MEMORY: usize = 16;
/// Longest name of a stream.
const LONGEST_NAME: usize = 128;

/// Why a stream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// A name that is no name.
    #[error("a stream is called `{name}`, expected 1 to {LONGEST_NAME} of the letters A-Z, a-z, 0-9 and . _ : / @ -")]
    Name {
        /// The start of the name.
        name: String,
    },
    /// There are as many streams as there may be.
    #[error("there are {limit} streams, which is as many as there may be")]
    TooMany {
        /// The limit.
        limit: u64,
    },
    /// No such stream.
    #[error("there is no stream called `{name}`")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// The state cannot be read.
    #[error("the state cannot be read")]
    Store(#[from] Box<redb::Error>),
    /// The state holds what cannot be understood.
    #[error("the state cannot be used")]
    State(#[from] Box<ServeError>),
    /// The monitor refuses it.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
}

/// All streams.
pub struct Streams {
    basis: Arc<MonitorBasis>,
    config: MonitorConfig,
    store: Arc<Store>,
    writer: Writer,
    entries: HashMap<String, Entry>,
    limits: StreamLimits,
    clock: u64,
    /// Alarms that were raised since somebody last took them.
    raised: Vec<(String, Alarm)>,
    forgotten: u64,
}

/// How many streams there may be.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// In all.
    pub streams: u64,
    /// In memory; the others lie on disk until an image comes.
    pub in_memory: usize,
}

/// A stream in memory.
struct Entry {
    monitor: Monitor,
    next_event: u64,
    /// Events below this number are on disk.
    on_disk: Arc<AtomicU64>,
    snapshot: SnapshotMark,
    requests: VecDeque<u64>,
    windows_written: [u64; 2],
    adapted: Option<AdaptedCounts>,
    used: u64,
}

/// Where the last snapshot was made.
#[derive(Clone, Copy, Default)]
struct SnapshotMark {
    event: u64,
    images: u64,
}

/// A stream's state as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Snapshot {
    event: u64,
    requests: VecDeque<u64>,
    windows_written: [u64; 2],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adapted: Option<AdaptedCounts>,
    monitor: MonitorState,
}

impl Streams {
    /// No stream in memory yet.
    pub fn new(
        basis: Arc<MonitorBasis>,
        config: MonitorConfig,
        store: Arc<Store>,
        writer: Writer,
        limits: StreamLimits,
    ) -> Result<Self, ServeError> {
        let config = MonitorConfig { kept_windows: WINDOWS_IN_MEMORY, ..config };
        config.check()?;
        Ok(Self {
            basis,
            config,
            store,
            writer,
            entries: HashMap::new(),
            limits,
            clock: 0,
            raised: Vec::new(),
            forgotten: 0,
        })
    }

    /// What is known of the classifier.
    pub fn basis(&self) -> &Arc<MonitorBasis> {
        &self.basis
    }

    /// Images of a stream so far; 0 for one that has not begun.
    pub fn images(&mut self, name: &str) -> Result<u64, StreamError> {
        Ok(self.entry(name)?.map_or(0, |entry| entry.monitor.state().images()))
    }

    /// Whether a request was counted already.
    pub fn knows_request(&mut self, name: &str, request: u64) -> Result<bool, StreamError> {
        Ok(self.entry(name)?.is_some_and(|entry| entry.requests.contains(&request)))
    }

    /// The monitor of a stream that exists.
    pub fn monitor(&mut self, name: &str) -> Result<&Monitor, StreamError> {
        let unknown = || StreamError::Unknown { name: shortened(name) };
        Ok(&self.entry(name)?.ok_or_else(unknown)?.monitor)
    }

    /// Applies events to a stream, which begins if it is new. What must be written is added to `writes`.
    pub fn apply(&mut self, name: &str, events: Vec<Event>, writes: &mut Vec<Write>) -> Result<Applied, StreamError> {
        let classes = self.basis.classes();
        if self.entry(name)?.is_none() {
            self.begin(name)?;
        }
        self.clock += 1;
        let entry = self.entries.get_mut(name).expect("it was just loaded or begun");
        entry.used = self.clock;
        let before = entry.monitor.alarms().len();
        let first_event = entry.next_event;
        let mut questions = Vec::new();
        for event in events {
            let asked = entry.apply(&event, classes)?;
            questions.extend(asked);
            writes.push(Write::Event { stream: name.to_owned(), number: entry.next_event - 1, bytes: event.encode() });
            if matches!(event, Event::Label { .. }) {
                // What labels say of a window changes after it was closed.
                entry.windows_written[0] = entry.windows_written[0].saturating_sub(WINDOWS_IN_MEMORY as u64);
            }
        }
        entry.write_windows(name, writes);
        let images = entry.monitor.state().images();
        if first_event == 0
            || entry.next_event - entry.snapshot.event >= EVENTS_PER_SNAPSHOT
            || images - entry.snapshot.images >= IMAGES_PER_SNAPSHOT
        {
            writes.push(entry.snapshot(name));
        }
        self.raised.extend(entry.monitor.alarms()[before..].iter().map(|alarm| (name.to_owned(), alarm.clone())));
        let applied = Applied { on_disk: entry.on_disk.clone(), next_event: entry.next_event, questions };
        self.forget_idle();
        Ok(applied)
    }

    /// Closes windows of streams in memory that end before `time`.
    pub fn close_windows(&mut self, time: f64, writes: &mut Vec<Write>) {
        for (name, entry) in &mut self.entries {
            // A state that no estimate can be made of is told when an image comes.
            if entry.monitor.close_windows(time).is_ok() {
                entry.write_windows(name, writes);
            }
        }
    }

    /// Hands changes to the writer. Called while the lock is held, so that changes are written in the order in which they were made.
    pub fn commit(&self, writes: Vec<Write>, applied: Vec<Applied>, done: impl FnOnce(bool) + Send + 'static) {
        self.writer.send(writes, move |written| {
            if written {
                applied.iter().for_each(|one| one.on_disk.store(one.next_event, Ordering::Release));
            }
            done(written);
        });
    }

    /// Forgets everything in memory: it is read again from disk. For when a write failed.
    pub fn forget(&mut self) {
        self.entries.clear();
        self.raised.clear();
        self.forgotten += 1;
    }

    /// How often everything was forgotten.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// What the adapted network did in a stream in memory, if it did anything.
    pub fn adapted(&self, name: &str) -> Option<&AdaptedCounts> {
        self.entries.get(name).and_then(|entry| entry.adapted.as_ref())
    }

    /// Alarms raised since the last call.
    pub fn take_raised(&mut self) -> Vec<(String, Alarm)> {
        std::mem::take(&mut self.raised)
    }

    /// Names of streams in memory.
    pub fn in_memory(&self) -> Vec<String> {
        let mut names: Vec<String> = self.entries.keys().cloned().collect();
        names.sort();
        names
    }

    /// A stream in memory.
    pub fn peek(&self, name: &str) -> Option<&Monitor> {
        self.entries.get(name).map(|entry| &entry.monitor)
    }

    /// The stream from memory, or else from disk, if there is one.
    fn entry(&mut self, name: &str) -> Result<Option<&mut Entry>, StreamError> {
        check_name(name)?;
        if !self.entries.contains_key(name) {
            let stored = self.store.load(name).map_err(Box::new)?;
            let Some(stored) = stored else { return Ok(None) };
            let entry = self.replay(name, stored)?;
            // Reading many streams must not bring all of them into memory.
            self.forget_idle();
            self.entries.insert(name.to_owned(), Entry { used: self.clock, ..entry });
        }
        Ok(self.entries.get_mut(name))
    }

    fn begin(&mut self, name: &str) -> Result<(), StreamError> {
        let limit = self.limits.streams;
        if self.store.count().map_err(Box::new)? >= limit {
            return Err(StreamError::TooMany { limit });
        }
        let monitor = Monitor::new(self.basis.clone(), self.config.clone())?;
        self.entries.insert(name.to_owned(), Entry::new(monitor, 0));
        Ok(())
    }

    fn replay(&self, name: &str, stored: Stored) -> Result<Entry, StreamError> {
        let damaged =
            |reason: String| StreamError::State(Box::new(ServeError::Event { stream: name.to_owned(), reason }));
        let mut entry = match stored.snapshot {
            Some(bytes) => {
                let snapshot: Snapshot = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
                let monitor = Monitor::resume(self.basis.clone(), self.config.clone(), snapshot.monitor)?;
                let mut entry = Entry::new(monitor, snapshot.event);
                (entry.requests, entry.windows_written) = (snapshot.requests, snapshot.windows_written);
                entry.adapted = snapshot.adapted;
                entry
            }
            None => Entry::new(Monitor::new(self.basis.clone(), self.config.clone())?, 0),
        };
        for (number, bytes) in stored.events {
            if number != entry.next_event {
                return Err(damaged(format!("event {number} follows event {}", entry.next_event)));
            }
            let event = Event::decode(&bytes).map_err(damaged)?;
            entry.apply(&event, self.basis.classes())?;
        }
        entry.on_disk.store(entry.next_event, Ordering::Release);
        Ok(entry)
    }

    /// Lets go of the streams that were not used for longest, where all of them is on disk.
    fn forget_idle(&mut self) {
        if self.entries.len() <= self.limits.in_memory {
            return;
        }
        let is_on_disk = |entry: &Entry| entry.on_disk.load(Ordering::Acquire) == entry.next_event;
        let mut idle: Vec<(u64, String)> =
            self.entries.iter().filter(|(_, e)| is_on_disk(e)).map(|(name, e)| (e.used, name.clone())).collect();
        idle.sort();
        // A tenth at once, so that not every image searches for one.
        let many = self.entries.len() - self.limits.in_memory * 9 / 10;
        idle.into_iter().take(many).for_each(|(_, name)| drop(self.entries.remove(&name)));
    }
}

/// What was applied, to be marked as written.
pub struct Applied {
    on_disk: Arc<AtomicU64>,
    next_event: u64,
    /// Images worth a label, where somebody asked.
    pub questions: Vec<MonitorQuestion>,
}

impl Entry {
    fn new(monitor: Monitor, next_event: u64) -> Self {
        let snapshot = SnapshotMark { event: next_event, images: monitor.state().images() };
        Self {
            monitor,
            next_event,
            on_disk: Arc::new(AtomicU64::new(next_event)),
            snapshot,
            requests: VecDeque::new(),
            windows_written: [0; 2],
            adapted: None,
            used: 0,
        }
    }

    /// Applies an event: the same events in the same order give the same state.
    fn apply(&mut self, event: &Event, classes: usize) -> Result<Vec<MonitorQuestion>, MonitorError> {
        let mut questions = Vec::new();
        match event {
            Event::Images { request, time, logits } => {
                self.monitor.update(&Outputs::new(logits.clone(), classes)?, *time)?;
                self.requests.extend(*request);
                while self.requests.len() > KNOWN_REQUESTS {
                    self.requests.pop_front();
                }
            }
            Event::SecondLook { first, logits }
            | Event::EarlyLook { first, logits }
            | Event::AdaptedLook { first, logits } => {
                let outputs = Outputs::new(logits.clone(), classes)?;
                let images: Vec<u64> = (0..outputs.images() as u64).map(|i| first.saturating_add(i)).collect();
                match event {
                    Event::EarlyLook { .. } => self.monitor.look_early(&images, &outputs)?,
                    Event::AdaptedLook { .. } => self.monitor.look_adapted(&images, &outputs)?,
                    _ => self.monitor.look_again(&images, &outputs)?,
                }
            }
            Event::Embedded { images, sum } => self.monitor.add_embeddings(*images, sum)?,
            Event::Adapted { counted } => self.adapted.get_or_insert_default().add(counted),
            Event::Asked { questions: wanted } => questions = self.monitor.ask(*wanted)?,
            Event::Label { image, verdict } => self.monitor.label(*image, *verdict)?,
            Event::Reset => self.monitor.reset(),
        }
        self.next_event += 1;
        Ok(questions)
    }

    fn write_windows(&mut self, name: &str, writes: &mut Vec<Write>) {
        for (kind, which) in [WindowKind::Count, WindowKind::Time].into_iter().enumerate() {
            let from = self.windows_written[kind];
            let windows: Vec<&Window> = self.monitor.windows_from(which, from).collect();
            for window in &windows {
                let bytes = serde_json::to_vec(window).expect("a window has no key that JSON refuses");
                writes.push(Write::Window { stream: name.to_owned(), kind: kind as u8, number: window.number, bytes });
                if window.number.is_multiple_of(64) && window.number > WINDOWS_ON_DISK {
                    let below = window.number - WINDOWS_ON_DISK;
                    writes.push(Write::ForgetWindows { stream: name.to_owned(), kind: kind as u8, below });
                }
            }
            self.windows_written[kind] = windows.last().map_or(from, |window| window.number + 1);
        }
    }

    fn snapshot(&mut self, name: &str) -> Write {
        self.snapshot = SnapshotMark { event: self.next_event, images: self.monitor.state().images() };
        let snapshot = Snapshot {
            event: self.next_event,
            requests: self.requests.clone(),
            windows_written: self.windows_written,
            adapted: self.adapted.clone(),
            monitor: self.monitor.state().clone(),
        };
        let bytes = serde_json::to_vec(&snapshot).expect("a state has no key that JSON refuses");
        Write::Snapshot { stream: name.to_owned(), number: self.next_event, bytes }
    }
}

/// Refuses a name that is too long or has letters that do not belong into one.
pub fn check_name(name: &str) -> Result<(), StreamError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(fits) {
        return Err(StreamError::Name { name: shortened(name) });
    }
    Ok(())
}

fn shortened(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}
