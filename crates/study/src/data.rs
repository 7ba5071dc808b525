use crate::variables::record_name;
use flipcast_corrupt::Storage;
use flipcast_run::open::{DataRequest, DecisionRule, LabelRule};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// Images that a plan asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataRef {
    /// Where they lie, variables and parts included: `${CIFAR}/cifar100_test.tar#second-half:0`.
    pub template: String,
    /// What is done to them: `gaussian_noise:3`.
    pub corruption: Option<String>,
    /// The published dataset whose root the template is.
    pub dataset: Option<String>,
    /// Its split.
    pub split: Option<String>,
    /// How labels are understood.
    pub labels: LabelRule,
    /// Which outputs count.
    pub decision: DecisionRule,
    /// Use at most this many images, from all over the dataset; of a stream, the first.
    #[serde(serialize_with = "write_limit")]
    pub limit: Option<usize>,
    /// The storage step of the corruption; `None` for that of the published set. Units have it in their keys on their own.
    #[serde(skip)]
    pub storage: Option<Storage>,
}

/// Keys tell a limit from one that took the first images, as limits once did.
pub(crate) fn write_limit<S: Serializer>(limit: &Option<usize>, serializer: S) -> Result<S::Ok, S::Error> {
    limit_value(*limit).serialize(serializer)
}

/// What keys hold of a limit.
pub(crate) fn limit_value(limit: Option<usize>) -> Value {
    limit.map_or(Value::Null, |images| json!({"evenly": images}))
}

impl DataRef {
    /// Where the images are, and what is done to them, once the template's variables have become `path`:
    /// `cifar100_test.tar@gaussian_noise:3,storage=none`.
    pub(crate) fn spec(&self, path: &str) -> String {
        match (&self.corruption, self.storage) {
            (None, _) => path.to_owned(),
            (Some(corruption), None) => format!("{path}@{corruption}"),
            (Some(corruption), Some(storage)) => format!("{path}@{corruption},storage={storage}"),
        }
    }

    /// What records call it: `cifar100_test.tar#second-half:0@gaussian_noise:3`, or `imagenet-c/gaussian_noise/3`.
    pub fn name(&self) -> String {
        self.name_of("")
    }

    /// What records call `images` images from all over it.
    pub fn sample_name(&self, images: usize, seed: u64) -> String {
        self.name_of(&format!("#sample:{images}:{seed}"))
    }

    /// What is asked of the images at `spec`.
    pub(crate) fn request<'a>(&'a self, spec: &'a str, seed: u64) -> DataRequest<'a> {
        DataRequest {
            dataset: self.dataset.as_deref(),
            split: self.split.as_deref(),
            labels: self.labels,
            decision: self.decision,
            limit: self.limit,
            seed,
            ..DataRequest::new(spec)
        }
    }

    fn name_of(&self, part: &str) -> String {
        let mut name = match (&self.dataset, &self.split) {
            (None, None) => record_name(&self.template),
            (None, Some(split)) => format!("{}/{split}", record_name(&self.template)),
            (Some(dataset), Some(split)) if !split.is_empty() => format!("{dataset}/{split}"),
            (Some(dataset), _) => dataset.clone(),
        };
        name += part;
        if let Some(corruption) = &self.corruption {
            name += &format!("@{corruption}");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(limit: Option<usize>) -> DataRef {
        DataRef {
            template: "${X}/a.tar#first-half:0".to_owned(),
            corruption: Some("fog:3".to_owned()),
            dataset: None,
            split: None,
            labels: LabelRule::Auto,
            decision: DecisionRule::Published,
            limit,
            storage: None,
        }
    }

    #[test]
    fn a_sample_is_named_before_what_is_done_to_it() {
        let data = limited(Some(50));
        assert_eq!(data.name(), "a.tar#first-half:0@fog:3");
        assert_eq!(data.sample_name(50, 7), "a.tar#first-half:0#sample:50:7@fog:3");
    }

    #[test]
    fn keys_tell_limits_from_those_that_took_the_first_images() {
        let limit = |limit| serde_json::to_value(limited(limit)).unwrap()["limit"].clone();
        assert_eq!(limit(None), Value::Null);
        assert_eq!(limit(Some(50)), json!({"evenly": 50}));
    }
}
