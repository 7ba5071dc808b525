//! Plain text tables: a header, rows, columns as wide as their widest cell.

/// Which side a column's cells lean on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Renders `rows` under `header`; each column is aligned as `align` says.
pub fn render(header: &[&str], align: &[Align], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for ((cell, width), align) in cells.zip(&widths).zip(align) {
            let padding = " ".repeat(width - cell.chars().count());
            match align {
                Align::Left => text.push_str(&format!("{cell}{padding}  ")),
                Align::Right => text.push_str(&format!("{padding}{cell}  ")),
            }
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut header.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// `1234567` as `1,234,567`.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 image`, `2,000 images`.
pub fn counted(n: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// `12.3%`.
pub fn percent(share: f64) -> String {
    flipcast_ground::percent(share, 1) + "%"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["bcd".into(), "22".into()]];
        let text = render(&["x", "n"], &[Align::Left, Align::Right], &rows);
        assert_eq!(text, "x     n\na     1\nbcd  22\n");
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
