use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use flipcast_ground::Hint;
use flipcast_images::dataset::{Payload, open};
use flipcast_images::{Image, Label};

use super::*;
use crate::ccc::{AccuracyTable, Difficulty, Pair, PairSequence, PlanError};

/// Made-up images; reading fails once the budget is used up.
struct Pictures {
    count: usize,
    labelled: bool,
    reads_left: AtomicUsize,
}

impl Pictures {
    fn new(count: usize) -> Self {
        Self { count, labelled: true, reads_left: AtomicUsize::new(usize::MAX) }
    }
}

impl ImageSource for Pictures {
    fn len(&self) -> usize {
        self.count
    }

    fn relative_path(&self, index: usize) -> String {
        format!("class{index}/a \"quoted\" name.png")
    }

    fn label(&self, index: usize) -> Option<i64> {
        self.labelled.then_some(100 + index as i64)
    }

    fn load(&self, index: usize) -> Result<Image, Box<dyn Error + Send + Sync>> {
        if self.reads_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err("the disk is gone".into());
        }
        let rgb = (0..3 * 40 * 30).map(|i| (i * (index + 3) % 251) as u8);
        Ok(Image::new(40, 30, rgb.collect()).expect("40 x 30"))
    }
}

/// A folder that disappears with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("flipcast-corrupt-shards-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Tables = BTreeMap<Pair, AccuracyTable>;

/// One table for all pairs of the hard level: `slope` per cent less with every step.
fn tables(slope: f64) -> Tables {
    let percent = (0..441).map(|k| 50.0 - slope * (k / 21 + k % 21) as f64);
    let table = AccuracyTable::new(percent.collect()).expect("21 x 21");
    let names = Difficulty::Hard.corruptions();
    let pairs = names.iter().flat_map(|&first| names.iter().map(move |&second| Pair { first, second }));
    pairs.map(|pair| (pair, table.clone())).collect()
}

fn plan(tables: &Tables, speed: Speed) -> StreamPlan<'_> {
    StreamPlan { difficulty: Difficulty::Hard, seed: 43, speed, tables }
}

/// The first `limit` images of a stream over three pictures: cells of three images, shards of two cells.
fn write(
    out: &Scratch,
    source: &Pictures,
    tables: &Tables,
    limit: usize,
    threads: usize,
) -> Result<Progress, WriteError> {
    let plan = plan(tables, Speed::Fast);
    let shards = plan_shards(source, &plan, Some(limit), 5)?;
    let options = WriteOptions { threads, on_progress: &|_| {} };
    write_planned(&out.0, source, &plan, &shards, &Corruptor::new(43), &options)
}

/// The name and content of every file of the stream.
fn files(out: &Scratch) -> BTreeMap<String, Vec<u8>> {
    let folder = out.0.join("baseline_0_transition+speed_1000_seed_43");
    fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| {
            let entry = entry.expect("readable");
            let name = entry.file_name().into_string().expect("a plain name");
            (name, fs::read(entry.path()).expect("readable"))
        })
        .collect()
}

#[test]
fn shards_close_at_the_published_sizes() {
    let tables = tables(1.0);
    for (speed, images) in [(Speed::Fast, 25_000), (Speed::Middle, 26_000), (Speed::Slow, 25_000)] {
        let (source, plan) = (Pictures::new(50_000), plan(&tables, speed));
        let shards = plan_shards(&source, &plan, None, speed.shard_images()).expect("complete");
        let (last, rest) = shards.split_last().expect("not empty");
        assert!(rest.iter().all(|shard| shard.images == images));
        assert!(last.images <= images);
        let mut first = 0;
        for shard in &shards {
            assert_eq!(shard.first, first);
            first += shard.images as u64;
        }
        assert_eq!(first, 7_500_000);
        assert_eq!(stream_images(&source, &plan, Some(1700)).ok(), Some(1700));
    }
}

#[test]
fn a_limit_cuts_the_last_cell_and_small_datasets_make_short_ones() {
    let tables = tables(1.0);
    for (count, limit, images, last) in [(50_000, 26_500, [25_000, 1500], 500), (300, 26_000, [25_200, 800], 200)] {
        let plan = plan(&tables, Speed::Fast);
        let shards = plan_shards(&Pictures::new(count), &plan, Some(limit), 25_000);
        let shards = shards.expect("complete");
        let found: Vec<usize> = shards.iter().map(|shard| shard.images).collect();
        assert_eq!(found, images);
        assert_eq!(shards[1].cells.last().expect("not empty").1, last);
    }
}

#[test]
fn shards_read_back_in_the_order_of_the_stream() {
    let (out, source, tables) = (Scratch::new("order"), Pictures::new(3), tables(1.0));
    let progress = write(&out, &source, &tables, 14, 2).expect("writable");
    assert_eq!((progress.done, progress.skipped, progress.total), (14, 0, 14));
    let plan = plan(&tables, Speed::Fast);
    let folder = stream_folder(&out.0, &plan);
    let dataset = open(folder.to_str().expect("a plain name")).expect("shards");
    assert!(dataset.is_stream());
    assert_eq!(dataset.len(), 14);
    let corruptor = Corruptor::new(43);
    let cells = plan.cells().map(|cell| cell.expect("complete"));
    let shown = cells.flat_map(|cell| {
        let images = cell.images(43, 3, Speed::Fast);
        images.into_iter().map(move |index| (cell, index))
    });
    for (position, (cell, index)) in shown.take(14).enumerate() {
        let sample = dataset.sample(position).expect("readable");
        let shard = position / 6;
        assert_eq!(sample.id, format!("serial_{shard:05}.tar/sample_{position}"));
        assert_eq!(sample.label.class(), Some(100 + index as u32));
        let Payload::Encoded(found) = sample.payload else { panic!("shards hold files") };
        let clean = source.load(index).expect("made up");
        let image = cell.show_unstored(&corruptor, &clean, position as u64).expect("small");
        assert_eq!(found, encode(&image, STORED_QUALITY).expect("small"));
    }
    assert_ne!(dataset.sample(0).expect("readable").label, Label::Unknown);
}

#[test]
fn samples_tell_how_they_were_made() {
    let (out, source, tables) = (Scratch::new("info"), Pictures::new(3), tables(1.0));
    write(&out, &source, &tables, 4, 1).expect("writable");
    let shard = &files(&out)["serial_00000.tar"];
    let mut archive = tar::Archive::new(shard.as_slice());
    let mut names = Vec::new();
    let mut infos = Vec::new();
    for entry in archive.entries().expect("a tar") {
        let entry = entry.expect("whole");
        let name = entry.path().expect("plain").display().to_string();
        if name.ends_with(".info") {
            let info: serde_json::Value = serde_json::from_reader(entry).expect("JSON");
            infos.push(info);
        }
        names.push(name);
    }
    assert_eq!(names[..4], ["sample_0.input.jpg", "sample_0.output.cls", "sample_0.info", "sample_1.input.jpg"]);
    let plan = plan(&tables, Speed::Fast);
    let mut cells = plan.cells().flatten();
    let (first, second) = (cells.next(), cells.next());
    for (position, cell) in [(0, first), (3, second)] {
        let cell = cell.expect("endless");
        let index = cell.images(43, 3, Speed::Fast)[0];
        let expected = serde_json::json!({
            "source": source.relative_path(index),
            "corruptions": [cell.pair.first, cell.pair.second],
            "severities": [cell.severities.0.value(), cell.severities.1.value()],
        });
        assert_eq!(infos[position], expected);
    }
}

#[test]
fn an_interrupted_stream_is_resumed_to_the_same_bytes() {
    let (whole, resumed) = (Scratch::new("whole"), Scratch::new("resumed"));
    let tables = tables(1.0);
    write(&whole, &Pictures::new(3), &tables, 14, 3).expect("writable");
    let source = Pictures::new(3);
    source.reads_left.store(8, Ordering::Relaxed);
    let failed = write(&resumed, &source, &tables, 14, 1);
    assert!(matches!(failed, Err(WriteError::Load { .. })));
    let left = files(&resumed);
    assert!(left.contains_key("serial_00000.tar") && !left.contains_key("serial_00001.tar"));
    assert!(left.contains_key(".serial_00001.tar.partial"));
    let source = Pictures::new(3);
    let progress = write(&resumed, &source, &tables, 14, 2).expect("writable");
    assert_eq!((progress.done, progress.skipped), (14, 6));
    assert_eq!(usize::MAX - source.reads_left.into_inner(), 8);
    assert_eq!(files(&resumed), files(&whole));
}

#[test]
fn a_stream_with_other_settings_is_refused() {
    let (out, source) = (Scratch::new("settings"), Pictures::new(3));
    write(&out, &source, &tables(1.0), 4, 1).expect("writable");
    let written = files(&out);
    for other in [
        write(&out, &source, &tables(1.0), 5, 1),
        write(&out, &source, &tables(-1.0), 4, 1),
        write(&out, &Pictures::new(4), &tables(1.0), 4, 1),
    ] {
        assert!(matches!(other, Err(WriteError::OtherSettings { .. })));
    }
    assert_eq!(files(&out), written);
}

#[test]
fn what_a_stream_lacks_is_named_before_anything_is_written() {
    let (out, mut tables) = (Scratch::new("lacking"), tables(1.0));
    let unlabelled = Pictures { labelled: false, ..Pictures::new(3) };
    assert!(matches!(write(&out, &unlabelled, &tables, 4, 1), Err(WriteError::NoLabel { index: 0, .. })));
    assert!(matches!(write(&out, &Pictures::new(0), &tables, 4, 1), Err(WriteError::NoImages)));
    let mut pairs = PairSequence::new(Difficulty::Hard, 43);
    let second = pairs.nth(1).expect("endless");
    tables.remove(&second);
    let error = write(&out, &Pictures::new(3), &tables, 500, 1).expect_err("a table is missing");
    assert!(error.hint().is_some());
    let WriteError::Plan { source } = error else { panic!("{error:?}") };
    let missing = PlanError::MissingTable { first: second.first, second: second.second };
    assert_eq!(source, missing);
    assert!(!out.0.exists());
    // The first cell does not need the table of the second pair.
    write(&out, &Pictures::new(3), &tables, 2, 1).expect("complete");
}
