//! Tables, and the forms they are written in.

use crate::html::escape;
use flipcast_ground::grouped;

/// Whether a number is among the best of its column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rank {
    /// Neither best nor second best.
    #[default]
    Other,
    /// The best: bold.
    Best,
    /// The second best: underlined.
    Second,
}

/// One entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableCell {
    /// What the reader sees.
    pub text: String,
    /// What it is sorted by.
    pub value: Option<f64>,
    /// Whether it is marked.
    pub rank: Rank,
}

impl TableCell {
    /// Words.
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// A number with so many digits; nothing where there is none.
    pub fn number(value: Option<f64>, digits: usize) -> Self {
        let value = value.filter(|value| value.is_finite());
        let text = value.map(|value| format!("{value:.digits$}"));
        Self { text: text.unwrap_or_else(|| "\u{2013}".to_owned()), value, rank: Rank::Other }
    }

    /// A fraction as a percentage without its sign.
    pub fn percent(value: Option<f64>, digits: usize) -> Self {
        Self::number(value.map(|value| 100.0 * value), digits)
    }

    /// A count, with its digits in groups.
    pub fn count(value: usize) -> Self {
        Self { text: grouped(value), value: Some(value as f64), rank: Rank::Other }
    }
}

/// A table. A column whose first letter is `>` holds numbers and leans right.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it is called in files and options.
    pub name: String,
    /// What it shows, in a sentence.
    pub caption: String,
    /// Headings.
    pub columns: Vec<String>,
    /// Entries.
    pub rows: Vec<Vec<TableCell>>,
}

impl Table {
    /// An empty table.
    pub fn new(name: &str, caption: &str, columns: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            caption: caption.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// A table with a row for every entry; a column has a heading and what it shows of an entry.
    pub fn of<T: Copy>(
        name: &str,
        caption: &str,
        entries: impl IntoIterator<Item = T>,
        columns: &[(&str, &dyn Fn(T) -> TableCell)],
    ) -> Self {
        let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
        let row = |entry: T| columns.iter().map(|(_, cell)| cell(entry)).collect();
        Self { rows: entries.into_iter().map(row).collect(), ..Self::new(name, caption, &headings) }
    }

    /// Marks the smallest and second smallest number of a column. Numbers that read the same share their mark, so that
    /// the marks agree with what the reader sees.
    pub fn mark_least(&mut self, column: usize) {
        let mut shown: Vec<(f64, String)> = self
            .rows
            .iter()
            .filter_map(|row| row.get(column))
            .filter_map(|cell| Some((cell.value?, cell.text.clone())))
            .collect();
        shown.sort_by(|a, b| a.0.total_cmp(&b.0));
        shown.dedup_by(|a, b| a.1 == b.1);
        let texts: Vec<String> = shown.into_iter().map(|(_, text)| text).collect();
        for cell in self.rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            cell.rank = match texts.iter().position(|text| *text == cell.text) {
                Some(0) => Rank::Best,
                Some(1) => Rank::Second,
                _ => Rank::Other,
            };
        }
    }

    /// Headings without the sign of numbers, and whether they have it.
    fn headings(&self) -> impl Iterator<Item = (&str, bool)> {
        self.columns.iter().map(|column| {
            let number = column.strip_prefix('>');
            (number.unwrap_or(column), number.is_some())
        })
    }

    /// As HTML, with buttons that sort.
    pub fn to_html(&self) -> String {
        let mut html = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table data-name=\"{1}\"><caption>{0}</caption><thead><tr>",
            escape(&self.caption),
            escape(&self.name)
        );
        for (heading, number) in self.headings() {
            let class = if number { " class=\"n\"" } else { "" };
            html += &format!(
                "<th scope=\"col\"{class}><button type=\"button\" class=\"sort\">{}</button></th>",
                escape(heading)
            );
        }
        html += "</tr></thead><tbody>";
        for row in &self.rows {
            html += "<tr>";
            for (place, (cell, (_, number))) in row.iter().zip(self.headings()).enumerate() {
                let value = cell.value.map(|v| format!(" data-v=\"{v}\""));
                let value = value.unwrap_or_default();
                let class = if number { " class=\"n\"" } else { "" };
                let text = escape(&cell.text);
                let text = match cell.rank {
                    Rank::Best => format!("<strong>{text}</strong>"),
                    Rank::Second => format!("<u>{text}</u>"),
                    Rank::Other => text,
                };
                html += &if place == 0 {
                    format!("<th scope=\"row\"{class}{value}>{text}</th>")
                } else {
                    format!("<td{class}{value}>{text}</td>")
                };
            }
            html += "</tr>";
        }
        html + "</tbody></table></div>"
    }

    /// As a Markdown table under its caption.
    pub fn to_markdown(&self) -> String {
        let plain = |text: &str| {
            // Quotes mean nothing outside of attributes.
            let text = escape(text).replace("&#39;", "'").replace("&quot;", "\"").replace('\n', " ");
            let mut written = String::new();
            for character in text.chars() {
                if matches!(character, '|' | '*' | '_' | '`' | '\\' | '[' | ']') {
                    written.push('\\');
                }
                written.push(character);
            }
            written
        };
        let mut text = format!("**{}**\n\n|", plain(&self.caption));
        for (heading, _) in self.headings() {
            text += &format!(" {} |", plain(heading));
        }
        text += "\n|";
        for (_, number) in self.headings() {
            text += if number { "---:|" } else { "---|" };
        }
        text += "\n";
        for row in &self.rows {
            text += "|";
            for cell in row {
                let entry = plain(&cell.text);
                text += &match cell.rank {
                    Rank::Best => format!(" **{entry}** |"),
                    Rank::Second => format!(" <u>{entry}</u> |"),
                    Rank::Other => format!(" {entry} |"),
                };
            }
            text += "\n";
        }
        text
    }

    /// As a LaTeX table with the rules of `booktabs`.
    pub fn to_latex(&self) -> String {
        let columns: String = self.headings().map(|(_, number)| if number { 'r' } else { 'l' }).collect();
        let joined = |entries: Vec<String>| entries.join(" & ") + " \\\\\n";
        let mut text = format!(
            "% needs \\usepackage{{booktabs}}\n\\begin{{table}}\n\\centering\n\\caption{{{}}}\n\\label{{tab:{}}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n",
            latex(&self.caption),
            self.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
        );
        text += &joined(self.headings().map(|(heading, _)| latex(heading)).collect());
        text += "\\midrule\n";
        for row in &self.rows {
            let entry = |cell: &TableCell| {
                let text = latex(&cell.text);
                match cell.rank {
                    Rank::Best => format!("\\textbf{{{text}}}"),
                    Rank::Second => format!("\\underline{{{text}}}"),
                    Rank::Other => text,
                }
            };
            text += &joined(row.iter().map(entry).collect());
        }
        text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    }

    /// As comma-separated values; numbers in full.
    pub fn to_csv(&self) -> String {
        let mut text = self.headings().map(|(heading, _)| quoted(heading)).collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            let entry = |cell: &TableCell| match cell.value {
                Some(value) => value.to_string(),
                None if cell.text == "\u{2013}" => String::new(),
                None => quoted(&cell.text),
            };
            text += &(row.iter().map(entry).collect::<Vec<_>>().join(",") + "\n");
        }
        text
    }
}

/// A field of a CSV file. Spreadsheets run what starts like a formula, so such a name gets an apostrophe in front.
fn quoted(text: &str) -> String {
    let guarded = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() };
    if guarded.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", guarded.replace('"', "\"\""));
    }
    guarded
}

fn latex(text: &str) -> String {
    let mut written = String::new();
    for character in text.chars() {
        match character {
            '\\' => written.push_str("\\textbackslash{}"),
            '{' | '}' | '$' | '&' | '#' | '%' | '_' => {
                written.push('\\');
                written.push(character);
            }
            '~' => written.push_str("\\textasciitilde{}"),
            '^' => written.push_str("\\textasciicircum{}"),
            '\u{2013}' => written.push_str("--"),
            '\u{2212}' => written.push_str("$-$"),
            '\u{394}' => written.push_str("$\\Delta$"),
            '\u{3c1}' => written.push_str("$\\rho$"),
            c if c.is_control() => written.push(' '),
            c => written.push(c),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("mae", "Errors & more", &["estimator", ">C_bar"]);
        for (name, error) in [("wf", 2.0), ("ac", 13.3), ("cot|x", 1.204), ("=sum", 1.196)] {
            table.rows.push(vec![TableCell::text(name), TableCell::number(Some(error), 2)]);
        }
        table.rows.push(vec![TableCell::text("none"), TableCell::number(None, 2)]);
        table.mark_least(1);
        table
    }

    #[test]
    fn what_reads_the_same_shares_its_mark() {
        let ranks: Vec<Rank> = table().rows.iter().map(|row| row[1].rank).collect();
        let expected = [Rank::Second, Rank::Other, Rank::Best, Rank::Best, Rank::Other];
        assert_eq!(ranks, expected);
    }

    #[test]
    fn every_form_marks_best_and_second() {
        let table = table();
        assert!(table.to_html().contains("<td class=\"n\" data-v=\"2\"><u>2.00</u></td>"));
        assert!(table.to_markdown().contains("| cot\\|x | **1.20** |\n"));
        assert!(table.to_latex().contains("wf & \\underline{2.00} \\\\\n"));
        assert!(table.to_latex().contains("C\\_bar") && table.to_latex().contains("Errors \\& more"));
    }

    #[test]
    fn csv_holds_whole_numbers_and_no_formulas() {
        assert_eq!(table().to_csv(), "estimator,C_bar\nwf,2\nac,13.3\ncot|x,1.204\n'=sum,1.196\nnone,\n");
        assert_eq!(quoted("a \"b\", c"), "\"a \"\"b\"\", c\"");
    }
}
