//! The image stage from outside: goldens, readers, malformed files, batches, datasets by name.

mod loader;
mod made;
mod malformed_data;
mod mutated_files;
mod parts;
mod preprocess_goldens;
mod published_data;
mod readers;
mod registry;
