use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What was made of a model once, at most one value of a type: this crate keeps it without knowing what it is.
#[derive(Default)]
pub(crate) struct Derived(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Derived {
    /// The value of type `T`, made by `make` unless it is there.
    pub fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(make()));
        Arc::downcast(Arc::clone(value)).expect("values are kept by their type")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_for_its_type() {
        let derived = Derived::default();
        let first = derived.get_or_make(|| String::from("packed"));
        let second = derived.get_or_make(|| -> String { unreachable!("it is there") });
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(*derived.get_or_make(|| 3_u8), 3);
    }
}
