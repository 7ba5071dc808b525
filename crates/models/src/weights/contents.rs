use super::errors::ImportError;
use super::stored_tensor::StoredTensor;
use std::collections::{BTreeMap, HashMap};

/// Wrappers that prefix every name of the model they hold: data parallelism, trainers, `torch.compile`.
const PREFIXES: [&str; 3] = ["module.", "model.", "_orig_mod."];

/// Batches a norm layer has seen; training state, not a weight.
const BATCH_COUNTER: &str = "num_batches_tracked";

/// The total size of all tensors over the size of the file; tied weights need little more than one.
const MAX_SHARING: u64 = 8;

/// What a reader found in a file, before names are tidied.
#[derive(Default)]
pub(super) struct Contents {
    /// The tensors, in file order, names distinct.
    pub(super) tensors: Vec<StoredTensor>,
    /// Free text the file carries.
    pub(super) metadata: BTreeMap<String, String>,
    /// Keys that lead to the state dict; empty when it is the top level.
    pub(super) nesting: Vec<String>,
    /// Prefix taken off every name.
    pub(super) prefix: String,
    /// Entries that are no weights, by their full name.
    pub(super) skipped: Vec<String>,
}

impl Contents {
    /// Leaves out batch counters, then takes off the wrapper prefixes all remaining names share.
    pub(super) fn tidy(&mut self) {
        let is_counter =
            |name: &str| name.strip_suffix(BATCH_COUNTER).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let skipped = &mut self.skipped;
        self.tensors.retain(|tensor| {
            let counter = is_counter(&tensor.info.name);
            if counter {
                skipped.push(tensor.info.name.clone());
            }
            !counter
        });
        while let Some(prefix) = self.shared_prefix() {
            for tensor in &mut self.tensors {
                tensor.info.name.drain(..prefix.len());
            }
            self.prefix.push_str(prefix);
        }
    }

    /// A wrapper prefix of every name that leaves no name empty.
    fn shared_prefix(&self) -> Option<&'static str> {
        if self.tensors.is_empty() {
            return None;
        }
        PREFIXES.into_iter().find(|prefix| {
            self.tensors.iter().all(|tensor| {
                let rest = tensor.info.name.strip_prefix(prefix);
                rest.is_some_and(|rest| !rest.is_empty())
            })
        })
    }

    /// Refuses files whose views share storages so often that loading them all would dwarf the file.
    pub(super) fn check_sharing(&self, file_len: usize) -> Result<(), ImportError> {
        let file = file_len as u64;
        let limit = file.saturating_mul(MAX_SHARING);
        let declared = self.tensors.iter().fold(0u64, |sum, tensor| sum.saturating_add(tensor.byte_len()));
        if declared > limit {
            return Err(ImportError::TooMuchSharing { declared, limit, file });
        }
        Ok(())
    }

    /// Where each name is in `tensors`.
    pub(super) fn index(&self) -> HashMap<String, usize> {
        let names = self.tensors.iter().enumerate();
        names.map(|(i, tensor)| (tensor.info.name.clone(), i)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::stored_tensor::TensorInfo;
    use super::*;
    use flipcast_tensor::{DType, Shape};

    fn contents(names: &[&str]) -> Contents {
        let tensors = names.iter().map(|name| {
            let info = TensorInfo { name: (*name).to_owned(), dtype: DType::F32, shape: Shape::new([1]) };
            StoredTensor::contiguous(info, 0..4).expect("one value in four bytes")
        });
        Contents { tensors: tensors.collect(), ..Contents::default() }
    }

    fn tidied(names: &[&str]) -> (Vec<String>, String) {
        let mut contents = contents(names);
        contents.tidy();
        let names = contents.tensors.into_iter().map(|tensor| tensor.info.name);
        (names.collect(), contents.prefix)
    }

    #[test]
    fn a_prefix_goes_only_when_all_names_share_it() {
        let (names, prefix) = tidied(&["module.model.a", "module.model.b"]);
        assert_eq!(names, ["a", "b"]);
        assert_eq!(prefix, "module.model.");
        let (names, prefix) = tidied(&["model.a", "fc.b"]);
        assert_eq!(names, ["model.a", "fc.b"]);
        assert_eq!(prefix, "");
    }

    #[test]
    fn a_name_is_never_emptied() {
        let (names, _) = tidied(&["module.", "module.a"]);
        assert_eq!(names, ["module.", "module.a"]);
    }

    #[test]
    fn batch_counters_are_left_out_and_listed() {
        let mut contents = contents(&["bn.weight", "bn.num_batches_tracked", "my_num_batches_tracked"]);
        contents.tidy();
        assert_eq!(contents.skipped, ["bn.num_batches_tracked"]);
        assert_eq!(contents.tensors.len(), 2);
    }

    #[test]
    fn many_views_of_one_storage_are_refused() {
        assert!(contents(&["a", "b"]).check_sharing(4).is_ok());
        let error = contents(&["a", "b"]).check_sharing(0).expect_err("8 bytes out of none");
        assert!(matches!(error, ImportError::TooMuchSharing { .. }), "{error}");
    }
}
