/// `word` as a shell reads it.
///
/// ```
/// assert_eq!(flipcast_ground::shell_word("it's here"), r"'it'\''s here'");
/// ```
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
