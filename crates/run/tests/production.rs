//! Calibrating and estimating end to end, as production data need it: samples with other class shares, few images, any order.

use flipcast_estimate::{ClassShares, Flag};
use flipcast_images::dataset::InMemory;
use flipcast_images::preprocess::{Normalise, Preprocess};
use flipcast_images::{Image, Label};
use flipcast_models::Model;
use flipcast_run::open::OpenedData;
use flipcast_run::{
    Basis, Calibration, CalibrationJob, CalibrationShift, Cell, CleanImages, Device, FlipProtocol, Ledger, Merged,
    Part, PartError, PartPlan, RunError, Setting, Unwatched, calibrate, make_cells, merge_parts,
};

use sha2::{Digest, Sha256};

const CLASSES: usize = 4;

fn model() -> Model {
    let model = Model::random("cifar_resnet8_w4", CLASSES, 3).expect("a known architecture");
    model.with_preprocess(Preprocess::normalise_only(Normalise::half()))
}

/// Pictures of `count` images; `order` says which class comes when.
fn pictures(count: usize, order: impl Fn(usize) -> usize) -> InMemory {
    let picture = |i: usize| {
        let class = order(i);
        let byte = |j: usize| ((j * (class + 2) / 3 + (i / CLASSES) * 31 + j / 96 * class) % 256) as u8;
        let rgb = (0..32 * 32 * 3).map(byte).collect();
        (Image::new(32, 32, rgb).expect("sizes match"), Label::Class(class as u32))
    };
    InMemory::new((0..count).map(picture))
}

fn shifts() -> Vec<CalibrationShift> {
    CalibrationShift::parse_list("desaturate:3,solarize:3,colour_cast:3,banding:3").expect("known shifts")
}

fn calibrated(model: &Model) -> (Calibration, FlipProtocol) {
    let protocol = FlipProtocol::for_network("statistics", model.graph()).expect("a known protocol");
    let labelled = OpenedData::new("labelled", pictures(160, |i| i % CLASSES), model).expect("opens");
    let setting = Setting { model, protocol: &protocol, device: Device::cpu(1) };
    let job = CalibrationJob { shifts: shifts(), ..CalibrationJob::new(setting, labelled.request()) };
    let made = calibrate(&job, &mut Ledger::default(), &mut Unwatched).expect("calibrates");
    (made, protocol)
}

/// What the cells of a calibration were made with: those of few classes have an early look, whether images to come get one or not.
fn basis_of_cells(made: &Calibration) -> Basis {
    Basis { early_look: true, ..made.basis.clone() }
}

#[test]
fn a_calibration_holds_samples_of_every_cell_and_is_the_same_after_it_was_stored() {
    let model = model();
    let (made, _) = calibrated(&model);
    assert_eq!(made.cells.len(), 5);
    for cell in &made.cells {
        assert_eq!(cell.cell.signals.expect("measured").images, 160);
        let kinds: Vec<ClassShares> = cell.cell.samples.iter().map(|sample| sample.shares).collect();
        assert!(kinds.len() >= 5, "{}: {kinds:?}", cell.name);
        let looked_early = cell.cell.samples.iter().all(|sample| sample.signals.early_cross.is_some());
        assert!(looked_early, "{}: few classes, so that an early look may be worth it", cell.name);
    }
    let fit = made.accuracy.as_ref().expect("fitted");
    assert_eq!(made.basis.early_look, fit.wants_early_look());
    let again = Calibration::parse(&made.to_json().expect("writes")).expect("reads");
    assert_eq!(again, made);
}

#[test]
fn cells_in_flight_are_those_made_one_by_one() {
    let model = model();
    let (made, protocol) = calibrated(&model);
    let basis = basis_of_cells(&made);
    let labelled = OpenedData::new("labelled", pictures(160, |i| i % CLASSES), &model).expect("opens");
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(2) };
    let job = CalibrationJob { shifts: shifts(), ..CalibrationJob::new(setting, labelled.request()) };
    for (shift, in_flight) in job.shifts.iter().zip(&made.cells[1..]) {
        let request = job.shifted(shift).expect("a known shift");
        let alone = job.cell(request, &basis).make(&CleanImages::default(), &mut Ledger::default(), &mut Unwatched);
        let alone = Cell { seconds: in_flight.cell.seconds, ..alone.expect("looks") };
        assert_eq!(alone, in_flight.cell, "{}", shift.name);
    }
}

#[test]
fn cells_of_two_devices_are_those_of_one() {
    let model = model();
    let (made, protocol) = calibrated(&model);
    let labelled = OpenedData::new("labelled", pictures(160, |i| i % CLASSES), &model).expect("opens");
    let devices = [Device::cpu(1), Device::cpu(2)];
    let setting = Setting { model: &model, protocol: &protocol, device: devices[0] };
    let job = CalibrationJob { shifts: shifts(), ..CalibrationJob::new(setting, labelled.request()) };
    let mut ledger = Ledger::in_memory();
    let basis = basis_of_cells(&made);
    let further = job.further_cells(&basis).expect("known shifts");
    let cells: Vec<_> = further.into_iter().map(|(_, _, cell)| cell).collect();
    make_cells(&devices, &cells, 1 << 20, &ledger, || Unwatched).expect("makes them");
    // Whichever device made a cell, a run on the first finds it.
    for (cell, alone) in cells.iter().zip(&made.cells[1..]) {
        let found: Cell = ledger.find(&cell.protocol().expect("describes")).expect("reads").expect("it was made");
        assert_eq!(Cell { seconds: alone.cell.seconds, ..found }, alone.cell, "{}", alone.name);
    }
    let joined = calibrate(&job, &mut ledger, &mut Unwatched).expect("calibrates");
    assert_eq!(joined.accuracy, made.accuracy);
}

#[test]
fn a_calibration_of_the_first_format_is_read_and_estimates_as_it_did() {
    let model = model();
    let (made, _) = calibrated(&model);
    let mut old: serde_json::Value = serde_json::from_str(&made.to_json().expect("writes")).expect("JSON");
    old["flipcast_calibration"] = 1.into();
    let fields = old.as_object_mut().expect("an object");
    fields.remove("accuracy");
    fields.remove("check");
    for cell in fields["cells"].as_array_mut().expect("cells") {
        let cell = cell["cell"].as_object_mut().expect("an object");
        cell.remove("signals");
        cell.remove("samples");
    }
    let old = Calibration::parse(&old.to_string()).expect("reads");
    let estimates = old.estimate(&made.cells[0].cell, 0.9);
    assert!(estimates.source.contains_key("combined") && estimates.explanation.is_empty());
}

#[test]
fn the_order_of_the_images_does_not_decide_what_is_seen() {
    let model = model();
    let (made, protocol) = calibrated(&model);
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let signals = |order: &dyn Fn(usize) -> usize| {
        let data = OpenedData::new("new", pictures(128, order), &model).expect("opens");
        let cell = setting.cell("estimate", &data.request(), &made.basis, &mut Ledger::default(), &mut Unwatched);
        cell.expect("looks").signals.expect("measured")
    };
    let (mixed, sorted) = (signals(&|i| i % CLASSES), signals(&|i| i * CLASSES / 128));
    // Sorted by class, a batch in stored order would hold two classes alone; the second look mixes them.
    assert!((mixed.cross - sorted.cross).abs() < 0.1, "{mixed:?} {sorted:?}");
    assert!((mixed.reverse - sorted.reverse).abs() < 0.1, "{mixed:?} {sorted:?}");
}

#[test]
fn few_images_are_flagged_and_have_no_narrower_intervals() {
    let model = model();
    let (made, protocol) = calibrated(&model);
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let estimate = |count: usize| {
        let data = OpenedData::new("new", pictures(count, |i| i % CLASSES), &model).expect("opens");
        let cell = setting.cell("estimate", &data.request(), &made.basis, &mut Ledger::default(), &mut Unwatched);
        made.estimate(&cell.expect("looks"), 0.9).source["combined"].clone()
    };
    let (few, many) = (estimate(20), estimate(160));
    assert!(few.flags.contains(&Flag::TooFewImages) && !many.flags.contains(&Flag::TooFewImages));
    assert!(few.high - few.low >= many.high - many.low, "{few:?} {many:?}");
}

/// The parts of `count` shards of `images` pictures, and what they are called in errors.
fn parts(
    setting: &Setting,
    made: &Calibration,
    data: &OpenedData,
    count: u64,
    sample: usize,
) -> Result<Vec<(String, Part)>, RunError> {
    let part = |index: u64| {
        let name = format!("{index}/{count}");
        let plan = PartPlan { shard: name.parse().expect("a shard"), sample };
        Ok((name, setting.make_part(made, &data.request(), plan, &mut Unwatched)?))
    };
    (1..=count).map(part).collect()
}

#[test]
fn joined_parts_see_what_one_run_sees() {
    let model = model();
    let (made, protocol) = calibrated(&model);
    // With an early look, whether this calibration gains from one or not.
    let made = Calibration { basis: basis_of_cells(&made), ..made };
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let data = OpenedData::new("new", pictures(150, |i| i % CLASSES), &model).expect("opens");
    let whole = setting.cell("estimate", &data.request(), &made.basis, &mut Ledger::default(), &mut Unwatched);
    let whole = whole.expect("looks");
    let folder = tempfile::tempdir().expect("a folder");
    for count in [1, 3] {
        let made_parts = parts(&setting, &made, &data, count, 1000).expect("looks");
        let stored = made_parts.iter().map(|(name, part)| {
            let path = folder.path().join(part.shard().file_part());
            part.save(&path).expect("writes");
            (name.clone(), Part::load(&path).expect("reads"))
        });
        let stored: Vec<(String, Part)> = stored.collect();
        assert_eq!(stored, made_parts);
        let merged = merge_parts(&stored, &made, None, 0.9).expect("joins");
        assert!(merged.is_complete());
        assert_eq!((merged.sample, merged.looked_twice, merged.skipped), (150, 150, 0));
        assert_eq!(merged.sums.answers.iter().sum::<u64>(), 150);
        assert_eq!((merged.cell.accuracy, merged.cell.images), (whole.accuracy, whole.images));
        for name in ["ac", "atc_mc", "atc_ne", "cot", "cott", "doc", "im", "mano", "mde", "nuclear_norm"] {
            assert_eq!(merged.cell.source.get(name), whole.source.get(name), "{name} of {count}");
        }
        let (joined, alone) = (merged.cell.signals.expect("measured"), whole.signals.expect("measured"));
        // The rows are summed in another order.
        assert!((joined.confidence - alone.confidence).abs() < 1e-12);
        assert!((joined.cross - alone.cross).abs() < 0.05, "{joined:?} {alone:?}");
        let early = joined.early_cross.zip(alone.early_cross).expect("looked early");
        assert!((early.0 - early.1).abs() < 0.05, "{joined:?} {alone:?}");
        assert!((joined.transport - alone.transport).abs() < 1e-12);
        assert_eq!(joined.images, alone.images);
        assert!(merged.cell.source.contains_key("statistics_flips") && !merged.estimates.adapted.is_empty());
        let mean = merged.cell.source["ac"].value;
        assert!((merged.sums.mean_confidence() - mean).abs() < 1e-12);
    }
}

#[test]
fn a_part_of_the_first_format_is_read_as_one_without_an_early_look() {
    let model = model();
    let (made, protocol) = calibrated(&model);
    let made = Calibration { basis: Basis { early_look: false, ..made.basis.clone() }, ..made };
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let data = OpenedData::new("new", pictures(40, |i| i % CLASSES), &model).expect("opens");
    let (_, part) = parts(&setting, &made, &data, 1, 1000).expect("looks").remove(0);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("part");
    part.save(&path).expect("writes");
    // A line that says what it is, the header's length and the header, arrays, a checksum.
    let bytes = std::fs::read(&path).expect("reads");
    let (before, rest) = bytes.split_at(b"flipcast part\n".len());
    let (length, rest) = rest.split_first_chunk::<8>().expect("a length");
    let (header, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header = std::str::from_utf8(header).expect("JSON");
    let old = header.replace("\"flipcast_part\":2", "\"flipcast_part\":1").replace("\"early\":false,", "");
    assert_ne!(old.len(), header.len(), "{header}");
    let mut older = [before, &(old.len() as u64).to_le_bytes(), old.as_bytes(), &rest[..rest.len() - 32]].concat();
    let checksum = Sha256::digest(&older);
    older.extend_from_slice(&checksum);
    std::fs::write(&path, older).expect("writes");
    assert_eq!(Part::load(&path).expect("reads"), part);
}

#[test]
fn the_sample_does_not_depend_on_the_number_of_shards_and_intervals_count_it() {
    let model = model();
    let (made, protocol) = calibrated(&model);
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let data = OpenedData::new("new", pictures(400, |i| i % CLASSES), &model).expect("opens");
    let merged = |count: u64, sample: usize| {
        let parts = parts(&setting, &made, &data, count, sample).expect("looks");
        merge_parts(&parts, &made, None, 0.9).expect("joins")
    };
    let (one, four) = (merged(1, 60), merged(4, 60));
    assert_eq!((one.sample, four.sample, one.is_complete()), (60, 60, false));
    assert_eq!((one.sums.images, &one.sums.answers), (400, &four.sums.answers));
    for name in ["ac", "cot", "nuclear_norm"] {
        assert_eq!(one.cell.source[name], four.cell.source[name], "{name}");
    }
    // What chance moves is told of 60 images, and not of 400.
    let error = |merged: &Merged| merged.cell.source["ac"].standard_error.expect("a mean over images");
    assert!(error(&four) > 2.0 * error(&merged(4, 1000)));
    assert_eq!(four.cell.signals.expect("measured").images, 60);
}

#[test]
fn a_network_without_batch_norms_is_recentred_by_the_mean_of_all_shards() {
    let model = Model::random("vit_tiny_p8", CLASSES, 3).expect("a known architecture");
    let model = model.with_preprocess(Preprocess::normalise_only(Normalise::half()));
    let pictures = |count: usize| {
        let picture = |i: usize| {
            let rgb = (0..64 * 64 * 3).map(|j| ((j * (i % CLASSES + 2) / 3 + i * 31) % 256) as u8).collect();
            (Image::new(64, 64, rgb).expect("sizes match"), Label::Class((i % CLASSES) as u32))
        };
        InMemory::new((0..count).map(picture))
    };
    let mut protocol = FlipProtocol::for_network("flipcast", model.graph()).expect("a known protocol");
    protocol.stops = vec![0];
    let labelled = OpenedData::new("labelled", pictures(12), &model).expect("opens");
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let shifts = CalibrationShift::parse_list("solarize:3,banding:3").expect("known shifts");
    let job = CalibrationJob { shifts, ..CalibrationJob::new(setting, labelled.request()) };
    let made = calibrate(&job, &mut Ledger::default(), &mut Unwatched).expect("calibrates");
    let data = OpenedData::new("new", pictures(15), &model).expect("opens");
    let whole = setting.cell("estimate", &data.request(), &made.basis, &mut Ledger::default(), &mut Unwatched);
    let alone = whole.expect("looks").signals.expect("measured");
    let parts = parts(&setting, &made, &data, 3, 1000).expect("looks");
    let joined = merge_parts(&parts, &made, None, 0.9).expect("joins").cell.signals.expect("measured");
    // The mean of all embeddings is the same up to the rounding of single precision.
    assert!((joined.reverse - alone.reverse).abs() < 1e-5, "{joined:?} {alone:?}");
    assert!((joined.cross - alone.cross).abs() < 1e-5, "{joined:?} {alone:?}");
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let model = model();
    let (made, protocol) = calibrated(&model);
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let open =
        |name: &str, count: usize| OpenedData::new(name, pictures(count, |i| i % CLASSES), &model).expect("opens");
    let make = |data: &OpenedData, sample: usize| parts(&setting, &made, data, 3, sample).expect("looks");
    let good = make(&open("new", 60), 1000);
    let refused = |parts: Vec<(String, Part)>, expected: &str| {
        let error = merge_parts(&parts, &made, None, 0.9).expect_err(expected);
        let RunError::Part(error) = error else { panic!("{expected}: {error:?}") };
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    };
    let [one, two, three] = [0, 1, 2].map(|at| good[at].clone());
    refused(vec![], "no part is given");
    refused(vec![one.clone(), three.clone()], "1 of 3 shards are missing: 2/3");
    refused(vec![one.clone(), two.clone(), two.clone(), three.clone()], "shard 2/3 is in");
    refused(vec![one.clone(), two.clone(), make(&open("new", 60), 500)[2].clone()], "`sample` is 1000");
    refused(vec![one.clone(), two.clone(), make(&open("new", 61), 1000)[2].clone()], "`images` is 60");
    refused(vec![one.clone(), two.clone(), make(&open("other", 60), 1000)[2].clone()], "`data` is \"new\"");
    let other = Calibration { seed: 9, ..made.clone() };
    let error = merge_parts(&good, &other, None, 0.9).expect_err("another calibration");
    assert!(matches!(error, RunError::Part(PartError::Calibration { .. })));

    // Shards that no image belongs to are empty parts.
    let few = open("few", 2);
    let few = parts(&setting, &made, &few, 8, 1000).expect("looks");
    let merged = merge_parts(&few, &made, None, 0.9).expect("joins");
    assert_eq!((merged.sums.images, merged.sample, merged.shards), (2, 2, 8));

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("part");
    one.1.save(&path).expect("writes");
    let bytes = std::fs::read(&path).expect("reads");
    for damage in [0, 20, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[damage] ^= 1;
        std::fs::write(&path, damaged).expect("writes");
        assert!(matches!(Part::load(&path), Err(PartError::Format { .. })), "{damage}");
    }
    for length in [0, 13, 30, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).expect("writes");
        assert!(matches!(Part::load(&path), Err(PartError::Format { .. })), "{length}");
    }
}
