use super::figure;
use super::hash::{base64, content_hash};
use crate::chart::{FONT, Theme, chart_rules, theme_variables};
use crate::html::{escape, prose};
use crate::paper::Paper;
use crate::sections::{Block, Section, all_sections, answer, missing};
use crate::{ReportError, Study};

const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");

/// The question every page answers.
const QUESTION: &str = "How accurate is this model on images nobody labelled?";

/// What a page says beside its records.
#[derive(Clone, Debug, Default)]
pub struct PageOptions {
    /// The title of the window; `flipcast report` if there is none.
    pub title: Option<String>,
    /// A paragraph of plain text behind the answer.
    pub about: Option<String>,
}

/// The whole page. It needs nothing but itself.
///
/// ```
/// use flipcast_record::{Protocol, RunRecord, Timing};
/// use flipcast_report::{PageOptions, Study, render_page};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let protocol = Protocol::new("estimates").with("data", &"photos/winter")?.with("level", &0.9)?;
/// let result = json!({
///     "cell": "0123456789abcdef", "images": 1200, "accuracy": null, "adapted_accuracy": null, "adapted": {},
///     "source": {"combined": {"accuracy": 0.71, "low": 0.66, "high": 0.76, "flags": []}},
///     "seconds": {"source": 1.0, "flips": 1.0, "estimators": 1.0},
/// });
/// let record = RunRecord::new(protocol, result, Timing { created: 1_700_000_000, seconds: 3.0 });
/// let page = render_page(&Study::new(vec![record]), &PageOptions::default())?;
/// assert!(page.contains("<strong>71.0%</strong> of 1,200 images (90% interval 66.0% to 76.0%)"));
/// # Ok(())
/// # }
/// ```
pub fn render_page(study: &Study, options: &PageOptions) -> Result<String, ReportError> {
    if study.is_empty() {
        return Err(ReportError::NothingToShow { found: study.len() });
    }
    let about = options.about.as_deref().map(|text| format!("<p>{}</p>", escape(text)));
    let missing = missing(study).map(|text| format!("<p class=\"missing\">{text}</p>"));
    let document = Document {
        title: options.title.as_deref().unwrap_or("flipcast report"),
        heading: QUESTION,
        answer: &answer(study),
        about: &about.unwrap_or_default(),
        end: &missing.unwrap_or_default(),
    };
    Ok(document.render(&all_sections(study)))
}

/// A page that goes through the items of a paper, with its numbers beside those of records.
pub fn render_paper(paper: &Paper, title: Option<&str>) -> String {
    let answer: String = paper.about.iter().map(|text| format!("<p>{}</p>", prose(text))).collect();
    let document =
        Document { title: title.unwrap_or(&paper.title), heading: &paper.title, answer: &answer, about: "", end: "" };
    document.render(&paper.sections())
}

/// What stands around the sections of a page; everything but the two titles is markup that is already safe.
struct Document<'a> {
    /// The title of the window.
    title: &'a str,
    heading: &'a str,
    answer: &'a str,
    about: &'a str,
    /// What follows the sections.
    end: &'a str,
}

impl Document<'_> {
    fn render(&self, sections: &[Section]) -> String {
        let style = style();
        let mut navigation = String::new();
        let mut body = String::new();
        let mut figures = 0;
        for section in sections {
            let (id, title) = (escape(&section.id), escape(&section.title));
            navigation += &format!("<a href=\"#{id}\">{title}</a>");
            body += &format!("<section id=\"{id}\" aria-labelledby=\"h-{id}\"><h2 id=\"h-{id}\">{title}</h2>");
            for block in &section.blocks {
                body += &match block {
                    Block::Html(html) => html.clone(),
                    Block::Table(table) => figure::table(table),
                    Block::Folded(summary, table) => figure::folded(summary, table),
                    Block::Figure(name, shown) => {
                        figures += 1;
                        figure::render(name, figures, shown)
                    }
                };
            }
            body += "</section>\n";
        }
        let Self { answer, about, end, .. } = self;
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {style_hash}; font-src data:; script-src {script_hash}; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the results</a>\n\
         <header><div class=\"top\"><span class=\"brand\">flipcast</span><button type=\"button\" id=\"theme\">Theme: automatic</button></div>\n\
         <h1>{heading}</h1>\n<div class=\"answer\">{answer}</div>{about}\n<nav aria-label=\"Sections\">{navigation}</nav></header>\n\
         <main id=\"main\">\n{body}{end}</main>\n\
         <footer><p>In a chart, the arrow keys move from mark to mark. Headings of tables sort.</p></footer>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
            style_hash = content_hash(&style),
            script_hash = content_hash(SCRIPT),
            title = escape(self.title),
            heading = escape(self.heading),
        )
    }
}

/// Colours of both themes, the page's rules, the charts' rules.
fn style() -> String {
    let (light, dark) = (theme_variables(Theme::Light), theme_variables(Theme::Dark));
    format!(
        ":root{{color-scheme:light;{light}}}\n\
         @media (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n\
         :root[data-theme=light]{{color-scheme:light;{light}}}\n:root[data-theme=dark]{{color-scheme:dark;{dark}}}\n\
         {STYLE}\n@font-face{{font-family:Roboto;src:url(data:font/ttf;base64,{})}}\n/* charts */\n{}",
        base64(FONT),
        chart_rules()
    )
}
