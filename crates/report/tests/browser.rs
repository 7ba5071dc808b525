//! The page in a real browser: no errors, charts drawn, keys, slider, sorting and downloads at work.
//!
//! Needs Chromium (`/usr/bin/chromium`, or what `FLIPCAST_CHROMIUM` names); without it the tests say so and pass.

use flipcast_report::{PageOptions, Study, render_page};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the driven page does, as a user would; it leaves its findings in the document.
const DRIVER: &str = r#"
(async () => {
  const found = {};
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  try {
    const charts = Array.from(document.querySelectorAll('svg.chart'));
    found.charts = charts.length;
    found.empty = charts.filter((svg) => svg.querySelectorAll('.m, .ms > *, .mi > *').length === 0).length;
    found.flat = charts.filter((svg) => svg.getBoundingClientRect().height < 50).length;
    const figure = document.querySelector('[data-figure^=map]');
    const input = figure.querySelector('input[type=range]');
    const places = () => Array.from(figure.querySelectorAll('.mv')).map((dot) => dot.getAttribute('transform').match(/-?[\d.]+/g).map(Number)).join();
    const first = places();
    input.value = 3;
    input.dispatchEvent(new Event('input', { bubbles: true }));
    found.slid = places() !== first;
    found.caption = figure.querySelector('.slider output').textContent;
    input.value = 0;
    input.dispatchEvent(new Event('input', { bubbles: true }));
    found.returned = places() === first;
    figure.querySelector('.play').click();
    await wait(12000);
    found.played = input.value;
    const svg = charts[0];
    svg.focus();
    for (const key of ['ArrowRight', 'ArrowRight']) svg.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    found.readout = svg.closest('figure').querySelector('.readout').textContent;
    found.marked = svg.querySelectorAll('.on').length;
    const table = document.querySelector('table[data-name="mae-1"]');
    const column = () => Array.from(table.tBodies[0].rows).map((row) => Number(row.cells[1].dataset.v));
    const button = table.querySelectorAll('.sort')[1];
    button.click();
    const up = column();
    button.click();
    const down = column();
    const rising = (list) => list.every((x, i) => i === 0 || list[i - 1] <= x);
    found.sorted = rising(up) && rising(down.reverse());
    const behind = charts[0].closest('.figure').querySelector('[data-table]');
    behind.open = true;
    await wait(50);
    const rows = Array.from(behind.querySelector('table').tBodies[0].rows);
    found.rows = rows.length > 22 && rows.every((row) => row.cells.length === 6);
    behind.querySelectorAll('.sort')[2].click();
    found.behind = rising(Array.from(behind.querySelectorAll('tbody tr')).map((row) => Number(row.cells[2].dataset.v)));
    const hovered = charts[0].querySelector('.mi > *');
    hovered.firstChild.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
    found.hovered = hovered.querySelector('title').textContent === charts[0].closest('figure').querySelector('.readout').textContent;
    const small = document.querySelector('[data-figure^=splits] svg');
    small.focus();
    small.dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true }));
    found.small = small.closest('figure').querySelector('.readout').textContent;
    const texts = [];
    URL.createObjectURL = (blob) => { texts.push(blob.text()); return '#'; };
    document.querySelector('[data-svg]').click();
    table.closest('.table').querySelector('[data-csv]').click();
    const [svgText, csv] = await Promise.all(texts);
    const file = new DOMParser().parseFromString(svgText, 'image/svg+xml').documentElement;
    found.svg = file.nodeName + svgText.includes('var(');
    found.titles = Array.from(file.querySelectorAll('.m, .ms > *, .mi > *')).every((mark) => mark.querySelector('title').textContent.length > 5);
    found.csv = csv.split('\n')[0];
    const theme = document.getElementById('theme');
    theme.click();
    theme.click();
    await wait(50);
    found.dark = getComputedStyle(document.body).backgroundColor;
    found.wide = document.documentElement.scrollWidth > window.innerWidth;
  } catch (error) {
    found.error = String(error);
  }
  const mark = document.createElement('pre');
  mark.id = 'found';
  mark.textContent = Object.entries(found).map(([name, value]) => `${name}=${value}`).join('\n');
  document.body.append(mark);
})();
"#;

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("FLIPCAST_CHROMIUM").map_or_else(|| "/usr/bin/chromium".into(), PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: there is no browser at `{}`", path.display());
    None
}

/// A folder of a test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("flipcast-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("writable");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let study = Study::load(&[path]).expect("records");
    render_page(&study, &PageOptions::default()).expect("something to show")
}

/// The document after the page has run, and what the browser said on stderr.
fn open(browser: &Path, folder: &Folder, name: &str, page: &str, width: u32) -> (String, String) {
    let file = folder.0.join(format!("{name}.html"));
    std::fs::write(&file, page).expect("writable");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", folder.0.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("the browser starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

/// Lines the page itself wrote to the console. Violations of its own policy are among them.
fn console(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.contains("CONSOLE")).collect()
}

#[test]
fn pages_open_without_a_word_on_the_console() {
    let Some(browser) = chromium() else {
        return;
    };
    let folder = Folder::new("report-quiet");
    for name in ["synthetic", "unlabelled"] {
        let page = page(&format!("{name}.jsonl"));
        let (document, stderr) = open(&browser, &folder, name, &page, 1200);
        assert!(document.contains("</html>"), "{stderr}");
        assert_eq!(console(&stderr), [""; 0]);
    }
}

#[test]
fn a_page_does_what_its_user_asks() {
    let Some(browser) = chromium() else {
        return;
    };
    let folder = Folder::new("report-driven");
    // The policy lets nothing run but the page's own script, so the driven copy goes without it.
    let page = page("synthetic.jsonl");
    let start = page.find("<meta http-equiv=").expect("a policy");
    let end = start + page[start..].find('>').expect("its end") + 1;
    let driven = format!("{}{}", &page[..start], &page[end..]);
    let driven = driven.replace("</body>", &format!("<script>{DRIVER}</script></body>"));
    for width in [1200, 500] {
        let (document, stderr) = open(&browser, &folder, "driven", &driven, width);
        assert_eq!(console(&stderr), [""; 0]);
        let found = document.split("<pre id=\"found\">").nth(1).expect("the driver ran");
        let found = found.split("</pre>").next().expect("its end");
        let has = |line: &str| assert!(found.lines().any(|l| l == line), "`{line}` is not in:\n{found}");
        for line in [
            "empty=0",
            "flat=0",
            "slid=true",
            "caption=step 50, accuracy 72.0%",
            "returned=true",
            "played=5",
            "marked=1",
            "sorted=true",
            "svg=svgfalse",
            "titles=true",
            "rows=true",
            "behind=true",
            "hovered=true",
            "small=snow:5: accuracy from 65.5% to 58.6%",
            "csv=estimator,C (15),C-bar (6),clean (1),all (22)",
            "dark=rgb(20, 24, 29)",
            "wide=false",
        ] {
            has(line);
        }
        assert!(found.contains("readout=contrast:1: true 86.5%"), "{found}");
    }
}
