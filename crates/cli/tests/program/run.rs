use std::process::Command;

/// What one call of the program left behind.
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// Fails unless the exit code is `code` and stderr holds all of `parts`.
    pub fn expect(self, code: i32, parts: &[&str]) -> Self {
        let all = format!("{}\n{}", self.stdout, self.stderr);
        assert_eq!(self.code, code, "{all}");
        for part in parts {
            assert!(self.stderr.contains(part), "`{part}` is not in:\n{all}");
        }
        self
    }

    /// Fails unless stdout holds all of `parts`.
    pub fn prints(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stdout.contains(part), "`{part}` is not in:\n{}\n{}", self.stdout, self.stderr);
        }
        self
    }
}

/// Runs the program.
pub fn flipcast(args: &[&str]) -> Outcome {
    flipcast_with(args, &[])
}

/// The same with environment variables.
pub fn flipcast_with(args: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_flipcast"))
        .args(args)
        .env_remove("FLIPCAST_ISA")
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Outcome {
        code: output.status.code().expect("no signal ended it"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}
