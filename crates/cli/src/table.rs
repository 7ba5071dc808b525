//! Plain text tables: a header, rows, columns as wide as their widest cell.

pub use flipcast_ground::grouped;

/// Renders `rows` under `header`. A column whose first letter is `>` holds numbers and leans right, as in tables of reports.
pub fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let headings = || header.iter().map(|heading| heading.strip_prefix('>').unwrap_or(heading));
    let mut widths: Vec<usize> = headings().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for ((cell, width), heading) in cells.zip(&widths).zip(header) {
            let padding = " ".repeat(width - cell.chars().count());
            text += &if heading.starts_with('>') { format!("{padding}{cell}  ") } else { format!("{cell}{padding}  ") };
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut headings());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
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
        let text = render(&["x", ">n"], &rows);
        assert_eq!(text, "x     n\na     1\nbcd  22\n");
    }
}
