//! What happened to a stream, as it is stored: a stream's state is what its events make of an empty one.

use crate::adaptation::AdaptedCounts;
use flipcast_run::monitor::Verdict;
use serde::{Deserialize, Serialize};

/// Something that happened to a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Images came.
    Images {
        /// What tells the request apart from others, where its sender gave it an id.
        request: Option<u64>,
        /// Seconds since 1970.
        time: f64,
        /// The source model's logits, row after row.
        logits: Vec<f32>,
    },
    /// A batch was looked at again.
    SecondLook {
        /// Its first image; the others follow.
        first: u64,
        /// Logits under the statistics of the batch.
        logits: Vec<f32>,
    },
    /// An early look at a batch, beside the second look.
    EarlyLook {
        /// Its first image; the others follow.
        first: u64,
        /// Logits under the statistics of the batch in the first norms alone.
        logits: Vec<f32>,
    },
    /// The adapted network saw a batch.
    Adapted {
        /// What is counted of it.
        counted: AdaptedCounts,
    },
    /// What the adapted network predicts for a batch, where that tells its accuracy.
    AdaptedLook {
        /// Its first image; the others follow.
        first: u64,
        /// Its logits.
        logits: Vec<f32>,
    },
    /// Embeddings of the last images, where they stand in for the second look.
    Embedded {
        /// How many.
        images: u64,
        /// Their sum.
        sum: Vec<f32>,
    },
    /// Somebody asked which images to label.
    Asked {
        /// How many.
        questions: usize,
    },
    /// Somebody labelled an image.
    Label {
        /// The image.
        image: u64,
        /// What was said.
        verdict: Verdict,
    },
    /// Somebody took back the alarms.
    Reset,
}

/// Everything of an event but its logits or embeddings.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Head {
    Images { request: Option<u64>, time: f64 },
    SecondLook { first: u64 },
    EarlyLook { first: u64 },
    Adapted { counted: AdaptedCounts },
    AdaptedLook { first: u64 },
    Embedded { images: u64 },
    Asked { questions: usize },
    Label { image: u64, verdict: Verdict },
    Reset,
}

impl Event {
    /// The length of the head, the head as JSON, the logits as they lie in memory.
    pub fn encode(&self) -> Vec<u8> {
        let (head, logits): (Head, &[f32]) = match self {
            Self::Images { request, time, logits } => (Head::Images { request: *request, time: *time }, logits),
            Self::SecondLook { first, logits } => (Head::SecondLook { first: *first }, logits),
            Self::EarlyLook { first, logits } => (Head::EarlyLook { first: *first }, logits),
            Self::Adapted { counted } => (Head::Adapted { counted: counted.clone() }, &[]),
            Self::AdaptedLook { first, logits } => (Head::AdaptedLook { first: *first }, logits),
            Self::Embedded { images, sum } => (Head::Embedded { images: *images }, sum),
            Self::Asked { questions } => (Head::Asked { questions: *questions }, &[]),
            Self::Label { image, verdict } => (Head::Label { image: *image, verdict: *verdict }, &[]),
            Self::Reset => (Head::Reset, &[]),
        };
        let head = serde_json::to_vec(&head).expect("a head has no key that JSON refuses");
        let mut bytes = Vec::with_capacity(4 + head.len() + 4 * logits.len());
        bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend(logits.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    /// The event that these bytes stand for, or what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or("it has no head")?;
        let length = u32::from_le_bytes(*length) as usize;
        let (head, rest) = rest.split_at_checked(length).ok_or("its head is cut off")?;
        let head: Head = serde_json::from_slice(head).map_err(|error| error.to_string())?;
        let (values, left) = rest.as_chunks::<4>();
        if !left.is_empty() {
            return Err("it ends within a number".to_owned());
        }
        let logits: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Ok(match head {
            Head::Images { request, time } => Self::Images { request, time, logits },
            Head::SecondLook { first } => Self::SecondLook { first, logits },
            Head::EarlyLook { first } => Self::EarlyLook { first, logits },
            Head::Adapted { counted } => Self::Adapted { counted },
            Head::AdaptedLook { first } => Self::AdaptedLook { first, logits },
            Head::Embedded { images } => Self::Embedded { images, sum: logits },
            Head::Asked { questions } => Self::Asked { questions },
            Head::Label { image, verdict } => Self::Label { image, verdict },
            Head::Reset => Self::Reset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_storage_and_damage_is_noticed() {
        let events = [
            Event::Images { request: Some(u64::MAX), time: 1.5, logits: vec![0.25, -3.0] },
            Event::SecondLook { first: 64, logits: vec![1.0] },
            Event::EarlyLook { first: 64, logits: vec![2.0] },
            Event::Adapted { counted: AdaptedCounts { images: 64, resets: 1, ..AdaptedCounts::default() } },
            Event::AdaptedLook { first: 64, logits: vec![0.5, 1.0] },
            Event::Embedded { images: 3, sum: vec![0.5, 1.0] },
            Event::Asked { questions: 20 },
            Event::Label { image: 7, verdict: Verdict::Class(3) },
            Event::Reset,
        ];
        for event in events {
            let bytes = event.encode();
            assert_eq!(Event::decode(&bytes).unwrap(), event);
            for cut in [0, 3, 5, bytes.len() - 1] {
                assert!(Event::decode(&bytes[..cut]).is_err(), "{event:?} cut to {cut}");
            }
        }
    }
}
