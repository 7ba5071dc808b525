"""Estimates from outputs alone."""

import doctest

import flipcast
import numpy as np
import pytest
from conftest import ASSETS, CLASSES, draw, printed, program


def fit(clean, cells, second=False, **more):
    keep = slice(None) if second else slice(2)
    extra = {"second": clean[2]} if second else {}
    shifted = {name: cell[keep] for name, cell in cells.items()}
    return flipcast.Calibration.fit(*clean[:2], cells=shifted, **extra, **more)


@pytest.mark.parametrize("second", [False, True])
def test_numbers_equal_the_command_line_s_to_the_last_bit(tmp_path, clean, cells, second):
    new, truth, look = draw(50, 500, 1.9)
    calibration = fit(clean, cells, second, seed=7)
    looks = {"second": look} if second else {}
    found = flipcast.estimate(new, calibration, labels=truth, **looks)

    def store(name, cell):
        paths = [tmp_path / f"{name}.{part}.npy" for part in ("logits", "labels", "second")]
        for path, array in zip(paths, cell):
            np.save(path, array)
        return paths if second else paths[:2]

    def joined(paths):
        return ",".join(map(str, paths))

    also = [f"--also-logits={name}={joined(store(name.replace(':', '-'), cell))}" for name, cell in cells.items()]
    logits, labels, *rest = store("clean", clean)
    more = [f"--second-logits={path}" for path in rest]
    out = tmp_path / "program.json"
    done = program("calibrate", "--logits", logits, "--truth", labels, *more, *also, "--seed", 7, "--out", out)
    assert done.returncode == 0, done.stderr
    calibration.save(tmp_path / "package.json")
    assert out.read_bytes() == (tmp_path / "package.json").read_bytes()

    logits, labels, *rest = store("new", (new, truth, look))
    more = [f"--second-logits={path}" for path in rest]
    told = printed("estimate", "--logits", logits, "--truth", labels, *more, "--calibration", out)
    assert (told["best"], told["truth"], told["images"]) == (found.best.name, found.truth, found.images)
    assert list(found) == sorted(told["estimates"])
    for name, expected in told["estimates"].items():
        one = found[name]
        assert (one.accuracy, one.low, one.high, one.flags) == tuple(expected[key] for key in ("accuracy", "low", "high", "flags"))
    again = flipcast.estimate(new, flipcast.Calibration.load(out), labels=truth, **looks)
    assert again.to_dict() == found.to_dict()


def test_an_estimate_shows_itself(clean, cells):
    calibration = fit(clean, cells)
    assert calibration.has_intervals and calibration.cells[0] == "clean" and calibration.classes == 4
    new, truth, _ = draw(50, 500, 1.9)
    found = flipcast.estimate(new, calibration)
    low, high = found.interval
    assert low <= (new.argmax(1) == truth).mean() <= high and found.best.name == "combined" and found.truth is None
    assert found["ac"].accuracy == pytest.approx(np.mean(np.exp(new.max(1)) / np.exp(new).sum(1)), abs=1e-6)
    assert "combined" in repr(found) and "<svg" in found._repr_html_() and "atc_mc" in found
    columns = found.to_dict()
    assert columns["estimator"] == list(found) and len(columns["accuracy"]) == len(found)
    assert len(found.to_frame()) in (len(found), len(columns))
    assert "3 kinds of shift" in repr(calibration)
    with pytest.raises(KeyError, match="there are ac"):
        found["acc"]
    # One row for one estimate; the truth is drawn where it is known.
    assert found.best._repr_html_().count("<svg") == 1 and "#c33" not in found._repr_html_()
    assert "#c33" in flipcast.estimate(new, calibration, labels=truth)._repr_html_()


def test_without_shifts_no_interval_is_invented(clean):
    calibration = flipcast.Calibration.fit(*clean[:2])
    found = flipcast.estimate(draw(50, 500, 1.9)[0], calibration)
    assert not calibration.has_intervals and found.interval == (0.0, 1.0)
    assert found.flags == ["no_known_shifts"] and "clean images alone" in found.best.explain()["no_known_shifts"]


def test_arrays_of_any_layout_and_type_mean_the_same(clean, cells):
    calibration = fit(clean, cells)
    new = draw(50, 300, 1.9)[0]
    expected = flipcast.estimate(new, calibration).to_dict()
    for same in (np.asfortranarray(new), new.astype(np.float64), new.tolist(), np.repeat(new, 2, axis=0)[::2]):
        assert flipcast.estimate(same, calibration).to_dict() == expected
    shares = flipcast.estimate(new, calibration, class_shares=[1, 1, 0, 0])
    assert shares["cot"].accuracy != expected["accuracy"][expected["estimator"].index("cot")]
    # Half precision is exact in single precision.
    half = new.astype(np.float16)
    assert flipcast.estimate(half, calibration).to_dict() == flipcast.estimate(half.astype(np.float32), calibration).to_dict()


def test_mistakes_are_told_with_what_would_help(tmp_path, clean, cells):
    logits, labels, second = clean
    calibration = fit(clean, cells)
    estimate = flipcast.estimate
    for wrong in (
        lambda: flipcast.Calibration.fit(logits, labels[:-1]),
        lambda: flipcast.Calibration.fit(logits, labels + 4),
        lambda: flipcast.Calibration.fit(logits, labels - 1),
        lambda: flipcast.Calibration.fit(logits, labels.astype(float)),
        lambda: flipcast.Calibration.fit(logits.ravel(), labels),
        lambda: flipcast.Calibration.fit(logits, labels, cells={"clean:1": (logits, labels)}),
        lambda: flipcast.Calibration.fit(logits, labels, cells={"fog": logits}),
        lambda: flipcast.Calibration.fit(logits, labels, class_shares="unifrom"),
        lambda: flipcast.Calibration.load(tmp_path / "absent.json"),
        lambda: estimate(logits[:, :3], calibration),
        lambda: estimate(logits, calibration, second=second),
        lambda: estimate(logits, calibration, level=1.5),
        lambda: estimate(np.full_like(logits, np.nan), calibration),
        lambda: estimate([["a", "b"]], calibration),
        lambda: estimate(logits[:0], calibration),
    ):
        with pytest.raises(flipcast.FlipcastError) as caught:
            wrong()
        assert isinstance(caught.value, ValueError) and str(caught.value)
    with pytest.raises(flipcast.FlipcastError, match="hint:") as caught:
        estimate(logits, calibration, second=second)
    assert "second outputs" in caught.value.hints[0]


def test_progress_is_told_and_an_exception_in_it_ends_the_work(clean, cells):
    told = []
    fit(clean, cells, progress=lambda *now: told.append(now))
    assert told == [(name, n, 5) for n, name in enumerate(["clean", *cells])]

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(clean, cells, progress=stop)


class Bar:
    """What tqdm's bars have."""

    def __init__(self):
        self.n, self.total, self.told, self.closed = 0, None, [], False

    def reset(self, total=None):
        self.n, self.total = 0, total

    def set_description(self, text):
        self.told.append(text)

    def update(self, more=1):
        self.n += more

    def close(self):
        self.closed = True


def test_progress_may_be_a_bar_its_class_or_just_wanted(clean, cells, capfd):
    bar = Bar()
    fit(clean, cells, progress=bar)
    assert bar.told == ["clean", *cells] and (bar.n, bar.total, bar.closed) == (4, 5, False)
    made = []

    class Kept(Bar):
        def __init__(self):
            super().__init__()
            made.append(self)

    fit(clean, cells, progress=Kept)
    assert len(made) == 1 and made[0].closed and made[0].total == 5
    fit(clean, cells, progress=True)
    assert "blur:2" in capfd.readouterr().err
    fit(clean, cells, progress=False)
    assert capfd.readouterr().err == ""
    with pytest.raises(TypeError, match="a bar of tqdm"):
        fit(clean, cells, progress=3)


def test_docstrings_run(clean, cells, pictures):
    images, image_labels = pictures
    names = dict(
        flipcast=flipcast, logits=clean[0], labels=clean[1], foggy=cells["fog:3"][0], dark=cells["night"][0], new=draw(50, 400, 1.9)[0],
        truth=draw(50, 400, 1.9)[1], weights=ASSETS / "resnet20.fashion_mnist.safetensors",
        images=np.repeat(images[:24, :, :, None], 3, axis=3), image_labels=image_labels[:24],
    )
    names["foggy"], names["dark"] = (2 * np.eye(CLASSES)[clean[1]] * sharp + clean[0] / 2 for sharp in (0.4, 0.8))
    # Classes name the package as theirs, functions the extension.
    for module, least in ((flipcast, 18), (flipcast._native, 8), (flipcast._transforms, 4), (flipcast._progress, 3)):
        found = doctest.testmod(module, extraglobs=names)
        assert found.failed == 0 and found.attempted >= least, (module, found)
    for thing in flipcast.__all__:
        assert getattr(flipcast, thing).__doc__, thing


def test_a_few_labels_speak_for_all_images(clean, cells):
    calibration = flipcast.Calibration.fit(*clean[:2], cells={name: cell[:2] for name, cell in cells.items()})
    logits, truth, _ = cells["fog:3"]
    chosen = flipcast.choose_images(logits, 100, calibration=calibration, seed=3)
    assert len(set(chosen.tolist())) == 100 and np.array_equal(
        chosen, flipcast.choose_images(logits, 100, calibration=calibration, seed=3)
    )
    found = flipcast.estimate_with_labels(logits, chosen, truth[chosen], calibration=calibration)
    accuracy = np.mean(logits.argmax(1) == truth)
    assert abs(found.estimate.accuracy - accuracy) < 0.15 and found.effective_labels >= 99
    random = np.random.default_rng(0).permutation(len(truth))[:40]
    plain = flipcast.estimate_with_labels(logits, random, truth[random], chosen=False)
    assert plain.joined is None and plain.labels_alone.low < accuracy < plain.labels_alone.high
    assert found._repr_html_().count("<svg") == 2 + (found.joined is not None)
    beside = flipcast.estimate(logits, calibration, labelled=(chosen, truth[chosen]))
    assert beside.labelled.estimate.interval == found.estimate.interval and beside["ac"].accuracy
    assert flipcast.estimate(logits, calibration).labelled is None
    with pytest.raises(flipcast.FlipcastError, match="outside"):
        flipcast.estimate_with_labels(logits, [10**6] * 10, [0] * 10, chosen=False)


def test_a_stream_is_watched_saved_and_merged(tmp_path, clean, cells):
    calibration = flipcast.Calibration.fit(*clean[:2], cells={name: cell[:2] for name, cell in cells.items()})
    monitor = flipcast.Monitor(calibration, window_images=128)
    assert monitor.update(clean[0], time=1e9) == (0, 600)
    report = monitor.report()
    assert report["images"] == 600 and len(report["windows"]) >= 4 and monitor.alarms == []
    monitor.save(tmp_path / "state.json")
    other = flipcast.Monitor(calibration, window_images=128)
    other.load(tmp_path / "state.json")
    assert other.report() == report
    other.merge(monitor)
    assert other.images == 1200
    with pytest.raises(flipcast.FlipcastError, match="expected 4"):
        monitor.update(np.zeros((4, 7), np.float32))
    with pytest.raises(flipcast.FlipcastError, match="multiple of 64"):
        flipcast.Monitor(calibration, window_images=100)


def test_classes_are_told_apart(clean, cells):
    calibration = flipcast.Calibration.fit(*clean[:2], cells={name: cell[:2] for name, cell in cells.items()})
    logits, labels, _ = draw(77, 800, 1.8)
    assert flipcast.estimate(logits, calibration).by_class is None
    found = flipcast.estimate(logits, calibration, by_class=True)
    classes = found.by_class["by_class"]["classes"]
    assert found.by_class["accuracy"] == found["combined"].accuracy and len(classes) == CLASSES
    assert np.isclose(sum(row["share"] for row in classes), 1.0)
    predicted = logits.argmax(1)
    for row in classes:
        assert row["answered"] == np.sum(predicted == row["class"])
        right = np.mean(labels[predicted == row["class"]] == row["class"])
        assert row["precision"]["low"] <= right <= row["precision"]["high"]
    alone = flipcast.Calibration.fit(*clean[:2])
    with pytest.raises(flipcast.FlipcastError, match="combined"):
        flipcast.estimate(logits, alone, by_class=True)
