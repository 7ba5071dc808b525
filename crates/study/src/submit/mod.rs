//! Studies on other people's machines: the files that an engine takes, and the commands that hand them over.
//!
//! An engine runs `flipcast study run ... --shard I/N` once per shard, again where a shard was killed or moved, and what joins them at the end. Nothing
//! else is asked of it: cells that are known are kept in the folder whatever ran them, so a shard that starts again makes at most the cells anew that were in flight.
//! The functions here write text and run nothing.

mod kubernetes;
mod quote;
mod ray;
mod slurm;

pub use kubernetes::{Cluster, kubernetes};
pub use ray::ray;
pub use slurm::{Queue, slurm};

use std::path::PathBuf;

/// The exit code that means that a shard will never work: its arguments or its plan are wrong.
const NEVER: i32 = 2;
/// The exit code of a shard that ended although single cells could not be made; they are listed in the folder.
const SOME_FAILED: i32 = 1;
/// How often a shard is started again.
const RETRIES: u32 = 10;

/// A study in parts.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The study's name.
    pub name: String,
    /// The program, as the engine's machines find it.
    pub program: String,
    /// Its arguments for a shard, `--shard` aside.
    pub run: Vec<String>,
    /// Its arguments, one command after the other, when all shards have ended.
    pub finish: Vec<Vec<String>>,
    /// The folder in which relative paths of the arguments begin.
    pub work: PathBuf,
    /// Where the files, and the engine's logs, are put.
    pub files: PathBuf,
    /// Number of shards.
    pub shards: u64,
    /// What each shard is given.
    pub resources: Resources,
}

/// What a shard is given.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    /// Cores.
    pub cpus: usize,
    /// GPUs.
    pub gpus: usize,
    /// Memory in MiB, where it is limited.
    pub memory: Option<usize>,
}

/// What an engine takes: names of files and their texts.
pub type Files = Vec<(&'static str, String)>;

impl Submission {
    /// The commands at the end, as a shell reads them.
    fn finish_script(&self) -> String {
        let line = |arguments: &Vec<String>| quote::command(std::iter::once(&self.program).chain(arguments));
        self.finish.iter().map(line).collect::<Vec<_>>().join(" && ")
    }

    /// The study's name in letters that every engine allows: at most 50 of a to z, digits and hyphens.
    fn label(&self) -> String {
        let lower = self.name.to_lowercase();
        let allowed = lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
        let label: String = allowed.take(50).collect();
        match label.trim_matches('-') {
            "" => "study".to_owned(),
            label => label.to_owned(),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A submission with names that need quotes.
    pub fn submission() -> Submission {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
        let mut run = words("study run plan.toml --out records --set");
        run.push("DATA=/data/it's mine".to_owned());
        Submission {
            name: "Paper: Table 1".to_owned(),
            program: "/opt/flipcast".to_owned(),
            run,
            finish: vec![
                words("study run plan.toml --out records --shard 1/4"),
                words("study merge records --out merged.jsonl"),
            ],
            work: PathBuf::from("/home/a b"),
            files: PathBuf::from("/home/a b/records/submit"),
            shards: 4,
            resources: Resources { cpus: 8, gpus: 1, memory: Some(16_384) },
        }
    }

    #[test]
    fn labels_have_letters_that_every_engine_allows() {
        assert_eq!(submission().label(), "paper--table-1");
        assert_eq!(Submission { name: "???".to_owned(), ..submission() }.label(), "study");
    }
}
