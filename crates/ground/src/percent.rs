/// A share as a percentage with this many decimals and no sign behind it.
///
/// ```
/// assert_eq!(flipcast_ground::percent(0.1234, 1), "12.3");
/// ```
pub fn percent(share: f64, decimals: usize) -> String {
    format!("{:.decimals$}", 100.0 * share)
}
