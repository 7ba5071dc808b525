use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::BadImageCause;
use super::worker::Prepared;

/// The outcome of preparing one image.
pub(super) type Outcome = Result<Prepared, BadImageCause>;

/// Hands positions to workers and their results to the consumer in order, never more than `window` ahead.
pub(super) struct Queue {
    order: Vec<usize>,
    window: usize,
    state: Mutex<State>,
    /// Signalled when a result arrives.
    arrived: Condvar,
    /// Signalled when the consumer moves on or closes.
    moved: Condvar,
}

struct State {
    /// Next position to hand out.
    next: usize,
    /// Position of the first element of `results`.
    consumed: usize,
    results: VecDeque<Option<Outcome>>,
    /// Buffers to fill again.
    spare: Vec<Vec<f32>>,
    closed: bool,
}

impl Queue {
    pub fn new(order: Vec<usize>, window: usize) -> Self {
        Self {
            order,
            window,
            state: Mutex::new(State {
                next: 0,
                consumed: 0,
                results: VecDeque::new(),
                spare: Vec::new(),
                closed: false,
            }),
            arrived: Condvar::new(),
            moved: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs while the lock is held.
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// For a worker: the next position, its dataset index and a buffer; `None` when there is nothing left to do.
    pub fn take(&self) -> Option<(usize, usize, Vec<f32>)> {
        let mut state = self.lock();
        loop {
            if state.closed || state.next >= self.order.len() {
                return None;
            }
            if state.next < state.consumed + self.window {
                let position = state.next;
                state.next += 1;
                state.results.push_back(None);
                let buffer = state.spare.pop().unwrap_or_default();
                return Some((position, self.order[position], buffer));
            }
            state = self.moved.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// For a worker: the result for `position`.
    pub fn put(&self, position: usize, outcome: Outcome) {
        let mut state = self.lock();
        // A position handed out is not consumed before its result arrives.
        let slot = position - state.consumed;
        state.results[slot] = Some(outcome);
        self.arrived.notify_one();
    }

    /// For the consumer: the next dataset index and its result; `None` at the end.
    pub fn next(&self) -> Option<(usize, Outcome)> {
        let mut state = self.lock();
        if state.consumed >= self.order.len() {
            return None;
        }
        loop {
            if matches!(state.results.front(), Some(Some(_))) {
                let outcome = state.results.pop_front().flatten();
                let index = self.order[state.consumed];
                state.consumed += 1;
                self.moved.notify_one();
                return outcome.map(|outcome| (index, outcome));
            }
            state = self.arrived.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// For the consumer: everything the window still covers, after which nothing more is handed out. What it holds
    /// depends on the position and the window, not on how far the workers happen to be.
    pub fn drain(&self) -> Vec<(usize, Outcome)> {
        let mut state = self.lock();
        let first = state.consumed;
        let wanted = self.window.min(self.order.len() - first);
        while state.results.len() < wanted || state.results.iter().any(Option::is_none) {
            state = self.arrived.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        state.closed = true;
        self.moved.notify_all();
        let results = std::mem::take(&mut state.results);
        state.consumed += results.len();
        let indexed = results.into_iter().flatten().enumerate();
        indexed.map(|(i, outcome)| (self.order[first + i], outcome)).collect()
    }

    /// For the consumer: a buffer that is no longer needed.
    pub fn give_back(&self, buffer: Vec<f32>) {
        let mut state = self.lock();
        if state.spare.len() < self.window {
            state.spare.push(buffer);
        }
    }

    /// Lets the workers finish.
    pub fn close(&self) {
        self.lock().closed = true;
        self.moved.notify_all();
    }
}
