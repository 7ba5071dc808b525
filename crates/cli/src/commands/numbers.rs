//! Numbers on the command line.

/// A whole number of at least 1.
pub fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("expected a whole number of at least 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_start_at_one() {
        assert_eq!(parse_count("1"), Ok(1));
        for text in ["0", "-3", "1.5", "", "many"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }
}
