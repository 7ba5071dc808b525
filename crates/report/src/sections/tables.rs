use super::{Block, Section, all_sections};
use crate::table::Table;
use crate::{ReportError, Study};

/// How tables are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Tables of Markdown.
    Markdown,
    /// Tables of LaTeX with the rules of `booktabs`.
    Latex,
    /// Comma-separated values; more than one table have their names in front.
    Csv,
}

/// All tables of a study, or the one called `only`.
pub fn render_tables(study: &Study, format: TableFormat, only: Option<&str>) -> Result<String, ReportError> {
    write_tables(all_sections(study), format, only)
}

/// All tables of some sections, or the one called `only`.
pub(crate) fn write_tables(
    sections: Vec<Section>,
    format: TableFormat,
    only: Option<&str>,
) -> Result<String, ReportError> {
    let mut tables: Vec<Table> = Vec::new();
    for section in sections {
        for block in section.blocks {
            if let Block::Table(table) | Block::Folded(_, table) = block {
                tables.push(table);
            }
        }
    }
    if let Some(name) = only {
        let known: Vec<String> = tables.iter().map(|t| format!("`{}`", t.name)).collect();
        tables.retain(|table| table.name == name);
        if tables.is_empty() {
            return Err(ReportError::UnknownTable { name: name.to_owned(), known: known.join(", ") });
        }
    }
    let several = tables.len() > 1;
    let written = tables.iter().map(|table| match format {
        TableFormat::Markdown => table.to_markdown(),
        TableFormat::Latex => table.to_latex(),
        TableFormat::Csv if several => format!("# {}\n{}", table.name, table.to_csv()),
        TableFormat::Csv => table.to_csv(),
    });
    Ok(written.collect::<Vec<_>>().join("\n"))
}
