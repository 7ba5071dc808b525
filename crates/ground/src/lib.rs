//! Ground: small things that every stage needs and none owns.
//!
//! Errors in one line ([`with_causes`]) and the advice that comes with them ([`Hint`]), names that resemble an unknown one ([`nearest_names`]), a seeded generator
//! ([`SplitMix64`]), files that appear whole or not at all ([`write_whole`]), arithmetic on one row of logits ([`argmax`],
//! [`log_softmax`]), parts of a piece of work ([`Shard`]) and numbers as text ([`percent`], [`grouped`]). It depends on no other crate here. Guarantees: the same results on every
//! machine, and no file is ever seen half-written.
#![forbid(unsafe_code)]

mod files;
mod hint;
mod nearest;
mod numbers;
mod row;
mod shard;
mod shell;
mod split_mix;

pub use files::{is_special, write_hint, write_whole, write_whole_with};
pub use hint::{Hint, with_causes};
pub use nearest::{nearest_names, nearest_quoted};
pub use numbers::{grouped, percent};
pub use row::{argmax, log_softmax};
pub use shard::{Shard, ShardError};
pub use shell::shell_word;
pub use split_mix::SplitMix64;
