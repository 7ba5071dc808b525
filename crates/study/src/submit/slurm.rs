use super::quote::command;
use super::{Files, NEVER, RETRIES, SOME_FAILED, Submission};
use flipcast_ground::shell_word;

/// Where Slurm puts a study.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// The partition; Slurm's default without one.
    pub partition: Option<String>,
    /// The longest time of a shard as Slurm writes it, such as `12:00:00`.
    pub time: Option<String>,
}

/// An array of shards, `shards.sbatch`, and what joins them, `finish.sbatch`.
///
/// A shard that a node's failure, preemption or `scontrol requeue` ends is started again by Slurm (`--requeue`); one whose program was killed starts itself
/// again. The shell hands SIGTERM on, so that the program says what it kept.
pub fn slurm(submission: &Submission, queue: &Queue) -> Files {
    let Submission { run, shards, resources, .. } = submission;
    let label = submission.label();
    let head = |name: &str, log: &str| {
        let mut head = format!("#!/bin/bash\n#SBATCH --job-name={name}\n#SBATCH --open-mode=append\n");
        head += &format!("#SBATCH --output={}\n", shell_word(&format!("{}/{log}", submission.files.display())));
        head += &format!("#SBATCH --chdir={}\n", shell_word(&submission.work.display().to_string()));
        if let Some(partition) = &queue.partition {
            head += &format!("#SBATCH --partition={}\n", shell_word(partition));
        }
        head
    };
    let mut array = head(&label, "shard-%a.log");
    array += &format!("#SBATCH --array=1-{shards}\n#SBATCH --requeue\n#SBATCH --cpus-per-task={}\n", resources.cpus);
    if resources.gpus > 0 {
        array += &format!("#SBATCH --gpus-per-task={}\n", resources.gpus);
    }
    if let Some(memory) = resources.memory {
        array += &format!("#SBATCH --mem={memory}M\n");
    }
    if let Some(time) = &queue.time {
        array += &format!("#SBATCH --time={}\n", shell_word(time));
    }
    let program = shell_word(&submission.program);
    array += &format!(
        r#"
{program} {} --shard "$SLURM_ARRAY_TASK_ID/{shards}" &
shard=$!
trap 'kill -TERM "$shard"' TERM
wait "$shard"
code=$?
# A trap ends the first wait, not the program.
while kill -0 "$shard" 2>/dev/null; do
    wait "$shard"
    code=$?
done
# Code {SOME_FAILED}: single cells could not be made, which are listed. Code {NEVER}: it would be wrong again. Above 128: it was killed.
if [ "$code" -gt 128 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {RETRIES} ]; then
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}" && sleep 60
fi
[ "$code" -eq {SOME_FAILED} ] && code=0
exit "$code"
"#,
        command(run)
    );
    let finish = head(&format!("{label}-finish"), "finish.log") + &format!("\n{}\n", submission.finish_script());
    vec![("shards.sbatch", array), ("finish.sbatch", finish)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::submission;
    use super::*;

    #[test]
    fn scripts_are_what_a_shell_reads() {
        let queue = Queue { partition: Some("gpu".to_owned()), time: Some("1:00:00".to_owned()) };
        let files = slurm(&submission(), &queue);
        for line in
            ["#SBATCH --array=1-4", "#SBATCH --gpus-per-task=1", "#SBATCH --mem=16384M", "#SBATCH --time=1:00:00"]
        {
            assert!(files[0].1.contains(line), "{}", files[0].1);
        }
        assert!(
            files[0].1.contains(r#"--set 'DATA=/data/it'\''s mine' --shard "$SLURM_ARRAY_TASK_ID/4""#),
            "{}",
            files[0].1
        );
        assert!(
            files[1].1.contains("--shard 1/4 && /opt/flipcast study merge records --out merged.jsonl"),
            "{}",
            files[1].1
        );
        for (name, text) in files {
            let check = std::process::Command::new("bash").args(["-n", "-c", &text]).status().expect("bash");
            assert!(check.success(), "{name}");
        }
    }
}
