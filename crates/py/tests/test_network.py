"""A network: the demo's, on some of its images."""

import flipcast
import numpy as np
import pytest
from conftest import ASSETS, printed, program

WEIGHTS = ASSETS / "resnet20.fashion_mnist.safetensors"


@pytest.fixture(scope="module")
def model():
    return flipcast.Model.load(WEIGHTS)


def test_a_model_tells_what_it_is(model):
    assert model.classes == 10 and "Bag" in model.class_names and repr(model).startswith("Model(")
    with pytest.raises(flipcast.FlipcastError, match="hint:"):
        flipcast.Model.load("resnet50.tv_in1k")


def test_predictions_and_estimates_equal_the_command_line_s(tmp_path, model):
    calibration = ASSETS / "calibration.json"
    out = tmp_path / "logits.npy"
    data = f"{ASSETS}@gaussian_noise:3"
    told = printed(
        "estimate", "--model", WEIGHTS, "--calibration", calibration, "--data", data, "--limit", 64, "--logits-out", out,
        "--by-class",
    )
    steps = []
    found = model.estimate(
        data, flipcast.ModelCalibration.load(calibration), limit=64, by_class=True, progress=lambda *now: steps.append(now)
    )
    assert steps and found.truth == told["truth"] and found.by_class == told["by_class"]
    for part, expected in ((found, told["estimates"]), (found.adapted, told["adapted"]["estimates"])):
        assert sorted(part) == sorted(expected)
        for name in expected:
            one = part[name]
            assert (one.accuracy, one.low, one.high) == tuple(expected[name][key] for key in ("accuracy", "low", "high"))
    logits = model.predict(data, limit=64)
    assert logits.dtype == np.float32 and np.array_equal(logits, np.load(out))


def test_arrays_are_images_too(model, pictures):
    images, labels = pictures
    logits = model.predict(images[:64])
    assert (logits.argmax(1) == labels[:64]).mean() > 0.8
    assert np.array_equal(logits, model.predict(np.repeat(images[:64, :, :, None], 3, axis=3)))
    calibration = model.calibrate(images[:60], labels[:60], protocol="statistics", shifts="fog:3,snow:3,contrast:3")
    found = model.estimate(images[100:160], calibration, labels=labels[100:160])
    assert found.images == 60 and found.truth is not None and "too_few_images" in found["cot"].flags
    # The model keeps what it was calibrated with.
    assert model.estimate(images[100:160]).to_dict() == found.to_dict()
    model.calibration = None
    with pytest.raises(flipcast.FlipcastError, match="no calibration"):
        model.estimate(images[100:160])
    model.calibration = calibration
    assert model.calibration.clean_accuracy == calibration.clean_accuracy and not calibration.has_advice
    with pytest.raises(flipcast.FlipcastError, match="advise=True"):
        model.advise(images[100:160])
    with pytest.raises(flipcast.FlipcastError, match="labels"):
        model.calibrate(images[:60], labels[:59])
    with pytest.raises(flipcast.FlipcastError, match="label"):
        model.calibrate(images[:60])
    with pytest.raises(flipcast.FlipcastError, match="shape"):
        model.predict(images[0, :, 0])


def test_an_adapter_adapts_as_the_command_line_does(tmp_path, model, pictures):
    out = tmp_path / "logits.npy"
    common = ("--model", WEIGHTS, "--data", f"{ASSETS}#sample:128:0", "--method", "tent", "--order", "stored")
    done = program("adapt", *common, "--logits-out", out, "--out", tmp_path / "rows.csv")
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "rows.csv").read_text().splitlines()[1:]
    numbers = [int("".join(filter(str.isdigit, row.split(",")[0].rsplit("/", 1)[-1]))) for row in rows]
    images = pictures[0][numbers]
    adapter = flipcast.Adapter(model, "tent")
    source = adapter.state
    found = np.concatenate([adapter(images[:64]), adapter(images[64:])])
    assert np.array_equal(found, np.load(out))
    assert adapter.steps == 2 and adapter.step_seconds > 0 and not np.array_equal(adapter.state, source)
    moved = adapter.state
    adapter.reset()
    assert adapter.steps == 0 and np.array_equal(adapter.state, source)
    assert np.array_equal(adapter(images[:64]), found[:64])
    adapter.state = moved
    assert np.array_equal(adapter.state, moved)


def test_advice_is_the_command_line_s(tmp_path, model):
    data, kept = f"{ASSETS}#sample:24:0", tmp_path / "calibration.json"
    calibration = model.calibrate(data, protocol="statistics", shifts="gaussian_noise:3,fog:3", advise=True)
    calibration.save(kept)
    told = printed("advise", "--model", WEIGHTS, "--data", data, "--calibration", kept)
    assert calibration.has_advice and model.advise(data) == told and told["advice"]["images"] == 24
    with pytest.raises(flipcast.FlipcastError, match="stored"):
        model.advise(str(ASSETS), order="sorted")


def test_floats_are_preprocessed_images(model, pictures):
    adapter = flipcast.Adapter(model, "source", batch_size=8)
    with pytest.raises(flipcast.FlipcastError, match="shape"):
        adapter(np.zeros((8, 28, 28), np.float32))
    assert adapter(np.zeros((8, 3, 28, 28), np.float32)).shape == (8, 10)
    with pytest.raises(flipcast.FlipcastError, match="batch_size"):
        adapter(np.zeros((9, 3, 28, 28), np.float32))
    with pytest.raises(flipcast.FlipcastError, match="tent"):
        flipcast.Adapter(model, "tnet")
    with pytest.raises(flipcast.FlipcastError, match="hint:"):
        flipcast.Adapter(model, device="gpu")


@pytest.mark.parametrize("source", [False, True])
def test_a_model_that_goes_astray_is_told_by_a_warning(model, pictures, source):
    adapter = flipcast.Adapter(model, "tent", lr=1000.0, source=source)
    with pytest.warns(RuntimeWarning, match="less diverse|no longer tells classes apart"):
        for start in range(0, 640, 64):
            adapter(pictures[0][start : start + 64])


def test_a_network_is_watched(tmp_path, model, pictures):
    images, calibration = pictures[0][:200], flipcast.ModelCalibration.load(ASSETS / "calibration.json")
    monitor = flipcast.Monitor(calibration, model=model, window_images=64)
    assert monitor.update(images, time=1e9) == (0, 200)
    # The windows are closed with both looks, however the images come.
    report = monitor.report()
    assert report["images"] == 200 and report["tests"]
    pieces = flipcast.Monitor(calibration, model=model, window_images=64)
    for start in range(0, 200, 24):
        pieces.update(images[start : start + 24], time=1e9)
    assert pieces.report() == report
    assert any(test["kind"] == "flips" for test in report["tests"]), report["tests"]
    pieces.save(tmp_path / "state.json")
    monitor.load(tmp_path / "state.json")
    assert monitor.update(images[:8], time=1e9) == (200, 208)
    with pytest.raises(flipcast.FlipcastError, match="model"):
        flipcast.Monitor(calibration)
    with pytest.raises(flipcast.FlipcastError, match="second"):
        monitor.update(images[:8], second=images[:8])


def test_corruptions_are_those_of_the_command_line(pictures):
    images = np.repeat(pictures[0][:3, :, :, None], 3, axis=3)
    noisy = flipcast.corrupt("gaussian_noise", images, severity=5, seed=1)
    assert noisy.shape == images.shape and noisy.dtype == np.uint8 and not np.array_equal(noisy, images)
    assert np.array_equal(noisy[:2], flipcast.corrupt("gaussian_noise", images[:2], severity=5, seed=1))
    assert not np.array_equal(noisy, flipcast.corrupt("gaussian_noise", images, severity=5, seed=2))
    assert "fog" in flipcast.corruptions() and len(flipcast.corruptions("calibration")) == 18
    with pytest.raises(flipcast.FlipcastError, match="fog"):
        flipcast.corrupt("fogg", images)
    with pytest.raises(flipcast.FlipcastError):
        flipcast.corrupt("fog", images, severity=6)


class OnlyDlpack:
    """A tensor of a library that NumPy knows nothing about."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **settings):
        return self.array.__dlpack__(**settings)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_batches_tensors_and_channels_in_front_are_images_too(model, pictures):
    images, labels = pictures
    images, labels = np.repeat(images[:64, :, :, None], 3, axis=3), labels[:64]
    expected = model.predict(images)
    batches = [images[start : start + 24] for start in range(0, 64, 24)]
    assert np.array_equal(model.predict(iter(batches)), expected)
    assert np.array_equal(model.predict(iter(batches), limit=30), expected[:30])
    assert np.array_equal(model.predict(np.moveaxis(images, 3, 1)), expected)
    assert np.array_equal(model.predict(OnlyDlpack(images)), expected)
    assert np.array_equal(model.predict(OnlyDlpack(np.ascontiguousarray(np.moveaxis(images, 3, 1)))), expected)
    pairs = zip(batches, (labels[start : start + 24] for start in range(0, 64, 24)))
    calibration = model.calibrate(pairs, protocol="statistics", shifts="fog:3,snow:3")
    assert calibration.clean_accuracy == np.mean(expected.argmax(1) == labels)
    with pytest.raises(flipcast.FlipcastError, match="labels"):
        model.calibrate(zip(batches, [labels]), labels)
    with pytest.raises(flipcast.FlipcastError, match="some have none"):
        model.predict(iter([(images[:8], labels[:8]), images[8:16]]))


def test_preprocessing_may_be_given(model, pictures):
    images, _ = pictures
    other = flipcast.Model.load(WEIGHTS, mean=0.1, std=(0.5, 0.5, 0.5))
    assert not np.array_equal(other.predict(images[:8]), model.predict(images[:8]))
    cropped = flipcast.Model.load(WEIGHTS, resize=(40, 40), crop=32, interpolation="bicubic")
    assert cropped.predict(images[:8]).shape == (8, 10)
    with pytest.raises(flipcast.FlipcastError, match="interpolation"):
        flipcast.Model.load(WEIGHTS, interpolation="cubic")


@pytest.mark.parametrize(
    "method",
    ["source", "bn", "bn_early", "tent", "rpl", "cpl", "eta", "rdumb", "sar", "cotta", "roid", "deyo", "come", "asr"],
)
def test_every_method_that_needs_no_other_data_adapts(model, pictures, method):
    images, _ = pictures
    adapter = flipcast.Adapter(model, method, batch_size=16)
    assert adapter(images[:16]).shape == (16, 10) and adapter.method == method


def test_a_corruption_is_a_transform(pictures):
    image = np.repeat(pictures[0][0, :, :, None], 3, axis=2)
    fog = flipcast.Corruption("fog", severity=3, seed=1)
    stacked = flipcast.corrupt("fog", np.stack([image] * 2), severity=3, seed=1)
    assert np.array_equal(np.stack([fog(image), fog(image)]), stacked)
    assert np.array_equal(fog(np.moveaxis(image, 2, 0), index=0), np.moveaxis(stacked[0], 2, 0))
    assert repr(fog) == "Corruption('fog', severity=3, seed=1)"
