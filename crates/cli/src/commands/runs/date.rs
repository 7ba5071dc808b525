/// Seconds since 1970 as `2024-02-29 13:45`, in UTC.
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", rest / 3600, rest / 60 % 60)
}

/// Year, month and day of the day that lies `days` after 1970-01-01, in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years begin in March, so that the day of a leap year comes last; 719,468 days lie between 0000-03-01 and 1970.
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, over and over.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // `date -u -d @SECONDS '+%F %R'`.
        for (seconds, expected) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (1_709_214_300, "2024-02-29 13:45"),
            (1_735_689_599, "2024-12-31 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
    }
}
