use super::quote::{command, double};
use super::{Files, NEVER, RETRIES, Submission};
use flipcast_ground::shell_word;

/// Where Kubernetes runs a study.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The image that holds the program.
    pub image: String,
    /// The namespace; the context's own without one.
    pub namespace: Option<String>,
    /// A claim of a volume that all pods can write to, which holds plan, data and records.
    pub claim: String,
    /// Where the volume is mounted.
    pub mount: String,
    /// Most shards at once; all without a number.
    pub parallel: Option<u64>,
}

/// An Indexed Job with a pod per shard, `shards.yaml`, and a Job that joins what they made, `finish.yaml`.
///
/// A pod that a node drops does not count as a failure, one that exits with "this will never work" fails its index at once, others start again.
pub fn kubernetes(submission: &Submission, cluster: &Cluster) -> Files {
    let Submission { run, shards, resources, .. } = submission;
    let label = submission.label();
    let program = shell_word(&submission.program);
    let shard = format!(r#"exec {program} {} --shard "$((JOB_COMPLETION_INDEX + 1))/{shards}""#, command(run));
    let mut limits = format!("cpu: \"{}\"", resources.cpus);
    if let Some(memory) = resources.memory {
        limits += &format!(", memory: {memory}Mi");
    }
    if resources.gpus > 0 {
        limits += &format!(", nvidia.com/gpu: \"{}\"", resources.gpus);
    }
    let head = |name: &str| {
        let namespace = cluster.namespace.as_ref().map(|n| format!("  namespace: {}\n", double(n))).unwrap_or_default();
        let labels = "  labels: {app.kubernetes.io/name: flipcast, app.kubernetes.io/component: study}\n";
        format!("apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n{namespace}{labels}spec:\n")
    };
    let pod = |script: &str, limits: &str| {
        format!(
            "  template:
    spec:
      restartPolicy: Never
      containers:
        - name: flipcast
          image: {image}
          command: [sh, -c, {script}]
          workingDir: {work}
          resources: {{requests: {{{limits}}}, limits: {{{limits}}}}}
          volumeMounts: [{{name: study, mountPath: {mount}}}]
      volumes: [{{name: study, persistentVolumeClaim: {{claimName: {claim}}}}}]
",
            image = double(&cluster.image),
            script = double(script),
            work = double(&submission.work.display().to_string()),
            mount = double(&cluster.mount),
            claim = double(&cluster.claim),
        )
    };
    let policy = format!(
        "  podFailurePolicy:
    rules:
      - action: Ignore
        onPodConditions: [{{type: DisruptionTarget, status: \"True\"}}]
      - action: FailIndex
        onExitCodes: {{containerName: flipcast, operator: In, values: [{NEVER}]}}
"
    );
    let array = head(&label)
        + &format!(
            "  completionMode: Indexed\n  completions: {shards}\n  parallelism: {}\n  backoffLimitPerIndex: {RETRIES}\n  maxFailedIndexes: {shards}\n",
            cluster.parallel.unwrap_or(*shards)
        )
        + &policy
        + &pod(&shard, &limits);
    let finish =
        head(&format!("{label}-finish")) + "  backoffLimit: 3\n" + &pod(&submission.finish_script(), "cpu: \"1\"");
    vec![("shards.yaml", array), ("finish.yaml", finish)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::submission;
    use super::*;

    #[test]
    fn every_shard_has_an_index() {
        let cluster = Cluster {
            image: "registry.example/flipcast:0.1".to_owned(),
            namespace: Some("vision".to_owned()),
            claim: "study".to_owned(),
            mount: "/study".to_owned(),
            parallel: Some(2),
        };
        let files = kubernetes(&submission(), &cluster);
        let text = &files[0].1;
        for part in [
            "completions: 4",
            "parallelism: 2",
            "nvidia.com/gpu: \"1\"",
            "$((JOB_COMPLETION_INDEX + 1))/4",
            "values: [2]",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains(r"it'\\''s mine"), "{text}");
        assert!(files[1].1.contains("&& /opt/flipcast study merge"), "{}", files[1].1);
    }
}
