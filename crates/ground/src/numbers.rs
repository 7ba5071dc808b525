/// A share as a percentage with this many decimals and no sign behind it; what rounds to zero has no minus before it.
///
/// ```
/// assert_eq!(flipcast_ground::percent(0.1234, 1), "12.3");
/// assert_eq!(flipcast_ground::percent(-0.0001, 1), "0.0");
/// ```
pub fn percent(share: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", 100.0 * share);
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|digit| matches!(digit, '0' | '.')) => zero.to_owned(),
        _ => text,
    }
}

/// A count with its digits in groups of three.
///
/// ```
/// assert_eq!([0, 999, 1000, 1234567].map(flipcast_ground::grouped), ["0", "999", "1,000", "1,234,567"]);
/// ```
pub fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
