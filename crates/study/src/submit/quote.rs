//! Words as other languages write them.

use flipcast_ground::shell_word;

/// A command as a shell reads it.
pub(super) fn command<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    words.into_iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// `text` in double quotes, as JSON, YAML and Python read it.
pub(super) fn double(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `words` as a list in JSON, YAML and Python.
pub(super) fn list<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| double(word)).collect();
    format!("[{}]", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_words_as_they_were() {
        let words: Vec<String> =
            ["plain-1.2", "", "it's", "a b", "$HOME", "x;rm", "new\nline"].map(str::to_owned).to_vec();
        let script = format!("printf '%s\\0' {}", command(&words));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
        let read: Vec<String> =
            String::from_utf8(output.stdout).unwrap().split_terminator('\0').map(str::to_owned).collect();
        assert_eq!(read, words);
        assert_eq!(shell_word("a.b=c"), "a.b=c");
    }
}
