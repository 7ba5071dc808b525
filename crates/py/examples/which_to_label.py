# %% [markdown]
# # Which images to label
#
# A hundred labels, well chosen, and the confidences of all images say more than a hundred labels drawn at random; with a calibration they say more still.
# Logits are drawn at random here; yours come from `np.load`.

# %%
import flipcast
import numpy as np

rng = np.random.default_rng(0)


def logits_and_labels(images: int, sharpness: float):
    """Logits of a classifier of ten classes that tells them apart with this sharpness."""
    labels = rng.integers(0, 10, images)
    return (2 * (sharpness * np.eye(10)[labels] + rng.normal(size=(images, 10)))).astype(np.float32), labels


cells = {
    f"{kind}:{severity}": logits_and_labels(1000, 3.2 - 0.15 * number - 0.7 * severity)
    for number, kind in enumerate(["fog", "night", "blur", "rain"])
    for severity in (1, 2)
}
calibration = flipcast.Calibration.fit(*logits_and_labels(1000, 3.5), cells=cells)

# %% Images nobody labelled. Choose a hundred, and ask somebody.
logits, truth = logits_and_labels(2000, 2.1)
chosen = flipcast.choose_images(logits, 100, calibration=calibration)
answers = truth[chosen]

# %% What the answers say: valid whatever the shift, and joined with the calibration where the two agree.
found = flipcast.estimate_with_labels(logits, chosen, answers, calibration=calibration)
print("labels alone:", found.labels_alone)
print("with confidences:", found.estimate)
print("with the calibration:", found.joined)
print(f"as good as {found.effective_labels:.0f} random labels; truth {np.mean(logits.argmax(1) == truth):.3f}")

# %% A stream of such images, watched: windows with accuracies, and alarms when it changes.
monitor = flipcast.Monitor(calibration, window_images=512)
for hour in range(4):
    monitor.update(logits_and_labels(512, 3.4 - 0.6 * hour)[0], time=1_700_000_000 + 3600 * hour)
report = monitor.report()
print(f"{report['images']} images, {len(report['windows'])} windows, {len(report['alarms'])} alarms")
