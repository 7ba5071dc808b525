//! Calibrating and estimating end to end, as production data need it: samples with other class shares, few images, any order.

use flipcast_estimate::{ClassShares, Flag};
use flipcast_images::dataset::InMemory;
use flipcast_images::preprocess::{Normalise, Preprocess};
use flipcast_images::{Image, Label};
use flipcast_models::Model;
use flipcast_run::open::OpenedData;
use flipcast_run::{
    Calibration, CalibrationJob, CalibrationShift, Cell, CleanImages, Device, FlipProtocol, Ledger, Setting, Unwatched,
    calibrate,
};

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

#[test]
fn a_calibration_holds_samples_of_every_cell_and_is_the_same_after_it_was_stored() {
    let model = model();
    let (made, _) = calibrated(&model);
    assert_eq!(made.cells.len(), 5);
    for cell in &made.cells {
        assert_eq!(cell.cell.signals.expect("measured").images, 160);
        let kinds: Vec<ClassShares> = cell.cell.samples.iter().map(|sample| sample.shares).collect();
        assert!(kinds.len() >= 5, "{}: {kinds:?}", cell.name);
    }
    assert!(made.accuracy.is_some());
    let again = Calibration::parse(&made.to_json().expect("writes")).expect("reads");
    assert_eq!(again, made);
}

#[test]
fn cells_in_flight_are_those_made_one_by_one() {
    let model = model();
    let (made, protocol) = calibrated(&model);
    let labelled = OpenedData::new("labelled", pictures(160, |i| i % CLASSES), &model).expect("opens");
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(2) };
    let job = CalibrationJob { shifts: shifts(), ..CalibrationJob::new(setting, labelled.request()) };
    for (shift, in_flight) in job.shifts.iter().zip(&made.cells[1..]) {
        let request = job.shifted(shift).expect("a known shift");
        let alone =
            job.cell(request, &made.basis).make(&CleanImages::default(), &mut Ledger::default(), &mut Unwatched);
        let alone = Cell { seconds: in_flight.cell.seconds, ..alone.expect("looks") };
        assert_eq!(alone, in_flight.cell, "{}", shift.name);
    }
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
