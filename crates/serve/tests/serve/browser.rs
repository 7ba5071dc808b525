//! The page in a real browser, used as a person would.
//!
//! Needs Chromium (`/usr/bin/chromium`, or what `FLIPCAST_CHROMIUM` names); without it the tests say so and pass. With
//! `FLIPCAST_SCREENSHOTS=FOLDER`, pictures of the views, with the demo's network, are left there; those of `docs/` are made so.

use crate::fixture::{CLASSES, advised, config, network, picture, server};
use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::{Html, Response};
use axum::routing::{get, post};
use flipcast_adapt::MethodConfig;
use flipcast_ground::SplitMix64;
use flipcast_images::Image;
use flipcast_run::monitor::MonitorConfig;
use flipcast_run::open::{DataRequest, ModelRequest};
use flipcast_run::{Calibration, Device};
use flipcast_serve::{Log, ServeConfig, Server, Subject};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// What a user does, in real time (a browser's virtual time runs ahead of a busy server); the findings are posted.
const DRIVER: &str = r#"<!doctype html><title>driver</title><iframe id="page" src="/" width="WIDTH" height="900"></iframe><script>
(async () => {
  const found = {};
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const frame = document.getElementById('page');
  const until = async (what, test) => {
    for (let i = 0; i < 1200; i++) {
      try { const value = test(); if (value) return value; } catch (error) { found.last = String(error); }
      await wait(50);
    }
    throw new Error('never: ' + what);
  };
  const all = (selector) => Array.from(frame.contentDocument.querySelectorAll(selector));
  const text = (selector) => all(selector).map((element) => element.textContent).join(' | ');
  try {
    await until('cards', () => all('.card').length === 2);
    found.lead = text('.lead');
    found.alarmed = text('.card.alarmed h2');
    all('.card').find((card) => card.textContent.includes('north/door')).click();
    await until('history', () => all('svg.chart circle').length > 0);
    found.heading = text('h1');
    found.dots = all('svg.chart circle').length;
    found.marks = all('svg.chart .mark').length > 0;
    found.flat = all('svg.chart').filter((svg) => svg.getBoundingClientRect().height < 15).length;
    all('svg.chart circle')[0].dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
    found.readout = text('.readout').startsWith('Window 0, 64 images until');
    found.alarm = text('.alarm strong').length > 0;
    found.bars = all('.bar').length > 0;
    found.wide = frame.contentDocument.documentElement.scrollWidth > frame.clientWidth;
    all('nav a').find((link) => link.textContent === 'Label images').click();
    await until('question', () => text('h1').startsWith('Which class'));
    const first = text('h1');
    found.picture = await until('picture', () => all('img').length === 1 && all('img')[0].naturalWidth);
    found.buttons = text('.answers button');
    for (let i = 0; i < 6; i++) {
      const before = text('h1');
      frame.contentDocument.dispatchEvent(new KeyboardEvent('keydown', { key: '1', bubbles: true }));
      await until('next question', () => text('h1').startsWith('Which class') && text('h1') !== before);
    }
    found.moved = text('h1') !== first;
    all('main a').find((link) => link.textContent === 'Back to the stream').click();
    await until('labels', () => text('h2').includes('Labels'));
    found.labels = /6 labels: [\d.]+%/.test(text('main p'));
    all('#reset')[0].click();
    await until('no alarm', () => text('.badge.calm') === 'no alarm');
    found.reset = true;
    frame.contentWindow.location.hash = '#settings';
    await until('settings', () => text('th').includes('images of a window'));
    found.settings = true;
    const theme = all('#theme')[0];
    theme.click();
    theme.click();
    await wait(50);
    found.dark = frame.contentWindow.getComputedStyle(frame.contentDocument.body).backgroundColor;
  } catch (error) {
    found.error = String(error);
  }
  await fetch('/found', { method: 'POST', body: Object.entries(found).map(([name, value]) => `${name}=${value}`).join('\n') });
})();
</script>"#;

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("FLIPCAST_CHROMIUM").map_or_else(|| "/usr/bin/chromium".into(), PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: there is no browser at `{}`", path.display());
    None
}

/// A server with two streams, one of which was shifted; with `found` it also has a page that uses the other and tells
/// there what it found, without it the network adapts.
fn start(state: &Path, found: Option<Sender<String>>) -> SocketAddr {
    let config = ServeConfig { keep_images: Some(3600), ..config(state) };
    let made = if found.is_some() {
        server(config)
    } else {
        let (model, calibration) = network();
        let config = ServeConfig { adapt: MethodConfig::default_for("tent", CLASSES).ok(), ..config };
        let subject = Subject::Network { model, calibration: &advised(calibration), device: Device::cpu(1) };
        Server::new(subject, config, Log::new(std::io::sink())).unwrap()
    };
    fill(&made);
    listen(made, found)
}

/// Serves on a port of its own until the process ends.
fn listen(made: Server, found: Option<Sender<String>>) -> SocketAddr {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let router: Router = if let Some(found) = found {
                let driver = |width: &'static str| get(move || async move { Html(DRIVER.replace("WIDTH", width)) });
                // The policy lets nobody look into the page from outside; the other test keeps it.
                let open = axum::middleware::map_response(|mut response: Response| async move {
                    let headers: &mut HeaderMap = response.headers_mut();
                    headers.remove(header::CONTENT_SECURITY_POLICY);
                    response
                });
                let tell = post(move |text: String| async move { found.send(text).expect("the test waits") });
                let page = made.router().layer(open).route("/found", tell);
                page.route("/driver-1100", driver("1100")).route("/driver-400", driver("400"))
            } else {
                made.router()
            };
            axum::serve(listener, router).await.unwrap();
        });
    });
    told.recv().unwrap()
}

fn fill(server: &Server) {
    let feeder = server.feeder();
    network();
    // The last window stays open: one that closed while a person labels would change what is asked about.
    for batch in 0..=20usize {
        let images: Vec<_> = (64 * batch..(64 * (batch + 1)).min(1288)).map(picture).collect();
        assert_eq!(feeder.send("south", images.clone()), Ok(true));
        let darker = |image: Image| {
            let (width, height) = (image.width(), image.height());
            let rgb = image.rgb().iter().map(|byte| if batch > 9 { byte / 8 } else { *byte }).collect();
            Image::new(width, height, rgb).unwrap()
        };
        assert_eq!(feeder.send("north/door", images.into_iter().map(darker).collect()), Ok(true));
    }
}

fn command(browser: &Path, profile: &Path) -> Command {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", profile.display()));
    command
}

/// Opens an address; gives the document after its scripts have run, and what the browser said.
fn open(browser: &Path, profile: &Path, url: &str, more: &[String]) -> (String, String) {
    let output = command(browser, profile).args(more).arg(url).output().expect("the browser starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

/// Opens a page that drives itself and waits for what it posts to `told`; gives that, and what the browser said.
fn drive(browser: &Path, profile: &Path, url: &str, told: &Receiver<String>) -> (String, String) {
    let log = profile.with_extension("log");
    let mut child = command(browser, profile)
        .args(["--remote-debugging-port=0", url])
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .expect("the browser starts");
    let found = told.recv_timeout(Duration::from_secs(120));
    child.kill().unwrap();
    child.wait().unwrap();
    let said = std::fs::read_to_string(log).unwrap();
    (found.unwrap_or_else(|_| panic!("the page never told what it found:\n{said}")), said)
}

fn console(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.contains("CONSOLE")).collect()
}

#[test]
fn a_person_finds_the_alarm_labels_images_and_takes_it_back() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    for width in ["1100", "400"] {
        let (tell, told) = channel();
        let address = start(&folder.path().join(width), Some(tell));
        let url = format!("http://{address}/driver-{width}");
        let (found, stderr) = drive(&browser, &folder.path().join("profile"), &url, &told);
        assert_eq!(console(&stderr), [""; 0]);
        for line in [
            "lead=1 of 2 streams has an alarm.",
            "alarmed=north/door",
            "heading=north/door",
            "marks=true",
            "flat=0",
            "readout=true",
            "alarm=true",
            "bars=true",
            "wide=false",
            "picture=32",
            "buttons=1left | 2up | 3right",
            "moved=true",
            "labels=true",
            "reset=true",
            "settings=true",
            "dark=rgb(20, 24, 29)",
        ] {
            assert!(found.lines().any(|found| found == line), "`{line}` is not in:\n{found}");
        }
    }
}

/// Views of the page: file, address behind `#`, size of the window, and whether it is dark.
const VIEWS: [(&str, &str, &str, bool); 7] = [
    ("streams", "", "1000,560", false),
    ("stream", "stream/berlin", "1000,1640", false),
    ("label", "label/berlin", "1000,640", false),
    ("settings", "settings", "1000,900", false),
    ("phone", "stream/berlin", "500,1200", true),
    ("dark", "stream/oslo", "1000,1560", true),
    ("phone-streams", "", "500,900", false),
];

/// A server of the demo's network with three streams, two of which change; twenty images of one are labelled.
fn demo(state: &Path) -> Server {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/assets/demo");
    let model = ModelRequest::new(&assets.join("resnet20.fashion_mnist.safetensors")).open().unwrap();
    let calibration = Calibration::load(&assets.join("calibration.json")).unwrap();
    let data = DataRequest::new(assets.to_str().unwrap()).open(&model).unwrap().dataset;
    let mut of_class: Vec<Vec<Image>> = vec![Vec::new(); model.num_classes()];
    for index in 0..data.len() {
        let sample = data.sample(index).unwrap();
        let class = sample.label.class().unwrap() as usize;
        of_class[class].push(sample.payload.into_image(&Default::default()).unwrap());
    }
    let subject = Subject::Network { model: &model, calibration: &calibration, device: Device::cpu(1) };
    let settings = ServeConfig {
        model_name: model.name().to_owned(),
        class_names: model.class_names().unwrap().to_vec(),
        keep_images: Some(3600),
        monitor: MonitorConfig { window_images: 256, accuracy_line: Some(0.85), ..Default::default() },
        ..config(state)
    };
    let server = Server::new(subject, settings, Log::new(std::io::sink())).unwrap();
    let (feeder, mut random) = (server.feeder(), SplitMix64::new(5));
    let mut berlin = Vec::new();
    for batch in 0..80 {
        let has_changed = batch >= 48;
        for stream in ["berlin", "lisbon", "oslo"] {
            let mut sent = Vec::new();
            while sent.len() < 64 {
                // As many of every class as in the calibration, as the demo has it.
                let class = random.below(of_class.len());
                let image = &of_class[class][random.below(of_class[class].len())];
                if stream == "oslo" && has_changed && [1, 8].contains(&class) {
                    continue;
                }
                let mut noisy = |byte: &u8| (f64::from(*byte) + 28.0 * random.normal()).clamp(0.0, 255.0) as u8;
                sent.push(if stream == "berlin" && has_changed {
                    Image::new(image.width(), image.height(), image.rgb().iter().map(&mut noisy).collect()).unwrap()
                } else {
                    image.clone()
                });
                if stream == "berlin" {
                    berlin.push(class);
                }
            }
            assert_eq!(feeder.send(stream, sent), Ok(true));
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let router = server.router();
        let asked = crate::fixture::get(&router, "/streams/berlin/ask?n=20").await.json();
        let image = |question: &serde_json::Value| question["image"].as_u64().unwrap() as usize;
        let label = |image: usize| serde_json::json!({"image": image, "class": berlin[image]});
        let labels = asked["questions"].as_array().unwrap().iter().map(|question| label(image(question)));
        let body = serde_json::json!({"stream": "berlin", "labels": labels.collect::<Vec<_>>()}).to_string();
        assert_eq!(crate::fixture::post(&router, "/labels", body).await.status, axum::http::StatusCode::OK);
    });
    server
}

/// Leaves a picture of every view in `folder`.
fn take_screenshots(browser: &Path, folder: &Path) {
    let state = tempfile::tempdir().unwrap();
    let address = listen(demo(&state.path().join("state")), None);
    for (name, hash, size, is_dark) in VIEWS {
        let mut more = vec![format!("--window-size={size}"), "--virtual-time-budget=5000".to_owned()];
        more.push(format!("--screenshot={}", folder.join(format!("serve-{name}.png")).display()));
        more.extend(is_dark.then(|| "--force-dark-mode".to_owned()));
        let profile = state.path().join(format!("profile-{name}"));
        let (_, stderr) = open(browser, &profile, &format!("http://{address}/#{hash}"), &more);
        assert_eq!(console(&stderr), [""; 0], "{name}");
    }
}

#[test]
fn the_page_opens_under_its_own_policy_without_a_word_on_the_console() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let address = start(&folder.path().join("state"), None);
    for (name, hash) in [
        ("streams", ""),
        ("stream", "stream/north%2Fdoor"),
        ("label", "label/north%2Fdoor"),
        ("settings", "settings"),
        ("nothing", "stream/nowhere"),
    ] {
        let url = format!("http://{address}/#{hash}");
        let more = ["--window-size=1000,800", "--virtual-time-budget=3000", "--dump-dom"].map(str::to_owned);
        let (document, stderr) = open(&browser, &folder.path().join("profile"), &url, &more);
        // What a browser itself says of an answer of 404 is no word of the page.
        let said: Vec<&str> =
            console(&stderr).into_iter().filter(|line| name != "nothing" || !line.contains("404")).collect();
        assert_eq!(said, [""; 0], "{name}");
        let expected = match name {
            "streams" => "north/door",
            "stream" => "points over the source model",
            "label" => "Which class is image",
            "settings" => "images of a window",
            _ => "There is no stream called `nowhere`.",
        };
        assert!(document.contains(expected), "{name}: {document}");
    }
    if let Some(folder) = std::env::var_os("FLIPCAST_SCREENSHOTS") {
        take_screenshots(&browser, &PathBuf::from(folder));
    }
}
