//! Pages and tables of whole record files.

use flipcast_record::{Protocol, RunRecord, Timing};
use flipcast_report::{
    FIGURES, PageOptions, Paper, Rank, Study, Table, TableCell, TableFormat, build_figure, chart, render_page,
    render_paper, render_paper_tables, render_tables,
};
use std::path::PathBuf;

fn study(name: &str) -> Study {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("tests/fixtures").join(name);
    Study::load(&[path]).expect("records")
}

fn page(name: &str) -> String {
    render_page(&study(name), &PageOptions::default()).expect("something to show")
}

#[test]
fn the_same_records_make_the_same_page() {
    assert_eq!(page("synthetic.jsonl"), page("synthetic.jsonl"));
}

#[test]
fn the_answer_comes_before_everything_else() {
    let page = page("synthetic.jsonl");
    let answer = page.find("The combined estimate is <strong>").expect("an answer");
    assert!(answer < page.find("<nav").expect("a list of sections"));
    assert!(page[answer..].contains("over 22 datasets where the truth is known"));
}

#[test]
fn every_section_is_there_and_absent_ones_are_named() {
    let all = page("synthetic.jsonl");
    for id in [
        "estimates",
        "errors",
        "calibration",
        "refits",
        "adaptations",
        "phases",
        "omission",
        "flips",
        "map",
        "toy",
        "flags",
        "protocols",
        "provenance",
    ] {
        assert!(all.contains(&format!("<section id=\"{id}\"")), "{id}");
    }
    assert!(!all.contains("These records hold nothing about"));
    let some = page("unlabelled.jsonl");
    assert!(!some.contains("<section id=\"map\""));
    assert!(some.contains("the map of embeddings (<code>flipcast analyse map</code>)"));
}

#[test]
fn a_page_asks_nothing_of_a_network() {
    let page = page("synthetic.jsonl");
    assert!(page.contains("default-src 'none'"));
    let without_names = page.replace("http://www.w3.org/2000/svg", "");
    for scheme in ["http:", "https:", "//cdn", "@import", "src=\"", "<link"] {
        assert!(!without_names.contains(scheme), "{scheme}");
    }
}

#[test]
fn names_from_records_are_text() {
    let page = page("synthetic.jsonl");
    assert!(!page.contains("<img"));
    assert!(page.contains("cat &lt;img src=x onerror=alert(1)&gt;"));
    assert!(!self::page("unlabelled.jsonl").contains("<b>harbour<i>"));
}

#[test]
fn without_labels_there_is_an_estimate_and_no_error() {
    let page = page("unlabelled.jsonl");
    assert!(page.contains("On 2 datasets without labels"));
    assert!(!page.contains("<section id=\"errors\""));
    assert!(page.contains("1 of kind <code>tomorrow</code>"));
}

#[test]
fn every_figure_has_marks_in_every_form() {
    let study = study("synthetic.jsonl");
    for info in FIGURES {
        let scene = build_figure(&study, info.name, None).expect("a figure");
        let scene = scene.draw(chart::Size::default());
        assert!(scene.marks() > 4, "{}", info.name);
        let svg = chart::to_svg(&scene, chart::Theme::Light);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>") && !svg.contains("NaN"));
        let png = chart::to_png(&scene, chart::Theme::Dark, 0.5).expect("a picture");
        assert!(png.starts_with(b"\x89PNG"));
    }
}

#[test]
fn refits_stand_beside_the_paper_s_numbers() {
    let study = study("synthetic.jsonl");
    let table = |name| render_tables(&study, TableFormat::Csv, Some(name)).expect("a table");
    let transfers = table("transfers");
    let row = transfers.lines().find(|line| line.contains("quadratic"));
    assert!(row.is_some_and(|row| row.ends_with(",6.61,4.15")), "{transfers}");
    // The model's own curve of that kind was fitted anew as well.
    assert!(transfers.contains("monotone,22,6.4,20,1.55,,"), "{transfers}");
    assert!(table("curves").starts_with("model,score,linear,quadratic,monotone\n"));
    let subsets = table("fitting-subsets");
    assert!(subsets.contains(",corruption,3,8,"), "{subsets}");
}

#[test]
fn every_choice_of_groups_is_summed_up() {
    let table = |name| render_tables(&study("synthetic.jsonl"), TableFormat::Markdown, Some(name)).expect("a table");
    let (every, groups) = (table("every-subset"), table("groups-that-fit"));
    assert!(every.contains("| WF | quadratic | 5 | 2 | 10 | 2.30 | 1.50 |"), "{every}");
    assert!(groups.contains("\n| contrast | 2.30 |"), "{groups}");
}

fn paper(name: &str) -> Paper {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    Paper::load(&path).expect("items")
}

#[test]
fn a_paper_s_numbers_stand_beside_those_of_records() {
    let paper = paper("paper.toml");
    let table = |name| render_paper_tables(&paper, TableFormat::Markdown, Some(name)).expect("a table");
    let (first, fourth) = (table("table-1"), table("figure-4"));
    assert!(first.contains("| WF, error in points | 5.75 | 1.44 | 21 cells | less |"), "{first}");
    assert!(first.contains("| WF, linear | \u{2013} | 2.10 | 22 cells |"), "{first}");
    assert!(first.contains("network's f | 6.61 | 7.10 | 1 other network |"), "{first}");
    assert!(first.contains("| 1.00 | \u{2013} | not run |"), "{first}");
    assert_eq!((first.matches("not run").count(), fourth.matches("not run").count()), (2, 0), "{first}{fourth}");
    let items = table("items");
    for row in ["| Table 1 | partly |", "| Figure 4 | yes |", "| Appendix Z | no |"] {
        assert!(items.contains(row), "{items}");
    }
}

#[test]
fn a_paper_s_page_says_what_was_not_run() {
    let page = render_paper(&paper("paper.toml"), None);
    assert_eq!(page, render_paper(&paper("paper.toml"), None));
    assert!(page.contains("<h1>A paper &lt;b&gt;item by item&lt;/b&gt;</h1>") && !page.contains("<b>item"));
    assert!(page.contains("Records that are not there yet: <code>tomorrow/records.jsonl</code>."));
    assert!(page.contains("Not run: natural rows") && page.contains("--out &lt;folder&gt;</pre>"));
    for part in ["id=\"table-1\"", "data-figure=\"paper-", "data-figure=\"subsets-", "data-name=\"transfers\""] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn items_that_make_no_sense_are_refused() {
    let folder = std::env::temp_dir().join(format!("flipcast-items-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("writable");
    let path = folder.join("items.toml");
    let item = "[[items]]\nid = 'a'\ntitle = 'A'\nasks = '?'\nverdict = '!'\n";
    for (text, expected) in [
        ("title = 1", "line 1"),
        (&format!("title = 'x'\n{item}figures = ['eror']"), "`errors`"),
        (&format!("title = 'x'\n{item}colour = 'red'"), "colour"),
    ] {
        std::fs::write(&path, text).expect("writable");
        let error = Paper::load(&path).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::remove_dir_all(&folder).expect("there");
}

#[test]
fn the_same_file_twice_counts_once() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/synthetic.jsonl");
    let folder = file.parent().expect("a folder").join("../fixtures");
    let once = Study::load(std::slice::from_ref(&file)).expect("records");
    let twice = Study::load(&[file, folder.join("synthetic.jsonl")]).expect("records");
    assert_eq!(once.len(), twice.len());
    let page = |study| render_page(study, &PageOptions::default()).expect("a page");
    assert!(page(&once) == page(&twice));
}

#[test]
fn many_runs_are_small_charts_of_one_drawing() {
    let page = page("synthetic.jsonl");
    let start = page.find("data-figure=\"splits").expect("small charts");
    let figure = &page[start..start + page[start..].find("</figure>").expect("its end")];
    assert_eq!(figure.matches("<svg ").count(), 1);
    assert!(figure.contains(">worst: ") && figure.contains(">best: "));
    assert!(page.contains("(the paper&#39;s: 0.70)"));
    assert!(page.contains("(paper \u{2212}0.79)"));
}

#[test]
fn a_page_says_of_its_marks_everything_once() {
    let page = page("synthetic.jsonl");
    // The script adds what marks say, and makes the tables behind figures, from the figures' data.
    assert_eq!(page.matches("<title>").count(), 1);
    assert!(!page.contains("<table data-name=\"figure-"));
    let first = page.find("class=\"figure-data\">").expect("data");
    assert!(page[first..].starts_with("class=\"figure-data\">{\"panels\":[{\"marks\":[[0,\"on this line"));
}

#[test]
fn sizes_are_kept() {
    let figure = build_figure(&study("synthetic.jsonl"), "phases", None).expect("a figure");
    let size = |width, height| {
        let scene = figure.draw(chart::Size { width, height });
        (scene.width, scene.height)
    };
    assert_eq!(size(Some(800.0), Some(300.0)), (800.0, 300.0));
    let (width, height) = size(Some(1840.0), None);
    let natural = size(None, None);
    assert!((width / height - natural.0 / natural.1).abs() < 1e-9);
}

#[test]
fn tables_hold_what_the_page_holds() {
    let study = study("synthetic.jsonl");
    let markdown = render_tables(&study, TableFormat::Markdown, Some("mae-1")).expect("a table");
    assert!(
        markdown.starts_with("**resnet26.synthetic, source model: mean absolute error in points**\n\n| estimator |")
    );
    assert!(markdown.contains("| combined | **"));
    let csv = render_tables(&study, TableFormat::Csv, None).expect("tables");
    assert!(csv.contains("# mae-1\n") && csv.contains("\n\n# "));
    assert!(render_tables(&study, TableFormat::Latex, Some("none")).is_err());
}

#[test]
fn a_small_page_is_what_it_was() {
    let mut table = Table::new("t", "A caption", &["name", ">value"]);
    table.rows.push(vec![TableCell::text("<a>"), TableCell::number(Some(1.5), 1)]);
    table.mark_least(1);
    assert_eq!(table.rows[0][1].rank, Rank::Best);
    let page = page("unlabelled.jsonl");
    let body = &page[page.find("<h1>").expect("a heading")..page.find("<nav").expect("a list")];
    assert_eq!(body, include_str!("fixtures/unlabelled.answer.html"));
}

/// The fixture with every number that stands behind `field` replaced.
fn with_numbers(field: &str, number: &str) -> Vec<RunRecord> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/synthetic.jsonl");
    let text = std::fs::read_to_string(path).expect("records");
    let start = format!("\"{field}\":");
    let records = text.lines().map(|line| {
        let mut parts = line.split(start.as_str());
        let mut changed = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find([',', '}']).unwrap_or(part.len());
            changed += &format!("{start}{number}{}", &part[end..]);
        }
        serde_json::from_str(&changed).expect("still a record")
    });
    records.collect()
}

#[test]
fn absurd_numbers_break_neither_charts_nor_tables() {
    for field in ["accuracy", "low", "silhouette", "step", "round", "value", "dropped"] {
        for number in ["0", "123456789"] {
            let study = Study::new(with_numbers(field, number));
            render_page(&study, &PageOptions::default()).expect("a page");
        }
    }
    for number in ["1e308", "-1e308", "5e-324"] {
        for field in ["accuracy", "shift_distance", "weighted_flips", "phase_1_end"] {
            let study = Study::new(with_numbers(field, number));
            let page = render_page(&study, &PageOptions::default()).expect("a page");
            assert!(!page.contains("translate(NaN") && !page.contains("translate(inf"));
        }
    }
}

#[test]
fn labels_classes_and_words_have_their_places() {
    let record = |kind: &str, result: serde_json::Value| {
        let protocol = Protocol::new(kind).with("data", &"camera").expect("plain values");
        RunRecord::new(protocol, result, Timing { created: 1, seconds: 1.0 })
    };
    let estimate = serde_json::json!({"accuracy": 0.62, "low": 0.55, "high": 0.69, "flags": []});
    let records = vec![
        record(
            "estimates",
            serde_json::json!({
                "cell": "c", "images": 300, "accuracy": null, "adapted_accuracy": null, "source": {"combined": estimate},
                "adapted": {}, "explanation": ["Mean confidence is 70.0%."],
                "seconds": {"source": 1.0, "flips": 1.0, "estimators": 1.0},
            }),
        ),
        record(
            "few_labels",
            serde_json::json!({
                "images": 300, "labels": 50, "right": 31, "strata": 1, "accuracy": null,
                "powered": {"estimate": estimate, "labels_alone": estimate, "power": 0.9, "effective_labels": 63.0},
            }),
        ),
        record(
            "by_class",
            serde_json::json!({
                "images": 300, "accuracy": 0.62, "temperature": 1.1, "calibration_error": 0.02,
                "by_class": {
                    "classes": [{"class": 0, "share": 0.5, "share_low": 0.4, "share_high": 0.6, "answered": 150, "precision": estimate}],
                    "confusions": [{"answered": 0, "class": 1, "probability": 0.2, "images": 30.0}],
                },
            }),
        ),
    ];
    let study = Study::new(records);
    assert_eq!(study.notes(), Vec::<String>::new());
    let page = render_page(&study, &PageOptions::default()).expect("something to show");
    for part in ["Mean confidence is 70.0%.", "<section id=\"few-labels\"", "<section id=\"by-class\"", "55.0 to 69.0"]
    {
        assert!(page.contains(part), "{part}");
    }
}
