"""Packs PACS and the networks to start from into one folder that is small enough to carry to a machine with a GPU.

    python3 studies/natural/pack.py --pacs pacs_128.tar --weights FOLDER --out FOLDER

Photos and art paintings are cut by class into images to train on (40%), to calibrate with (30%) and to test on (30%); of cartoons and sketches a sample is taken, of every class the same share. Which
image is where is decided by the hash of its path. Image files keep their bytes. Filters of the networks are rounded to 25 steps either way for each output channel (6 bits), which training then makes
good; norms are kept as they are, the head of 200 classes is left out."""

import argparse
import hashlib
import io
import pathlib
import tarfile

import tensors

SHARES = {"photo": ("train", 0.4, "calibrate", 0.3, "test", 0.3), "art_painting": ("train", 0.4, "calibrate", 0.3, "test", 0.3)}
SAMPLES = {"cartoon": 0.5, "sketch": 0.5}
LEVELS = 25


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pacs", required=True)
    parser.add_argument("--weights", required=True, help="folder with resnet18.tiny_in200.safetensors and resnet50.tiny_in200.safetensors")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    pack_images(arguments.pacs, out / "pacs.tar.xz")
    for name in ("resnet18", "resnet50"):
        data = (pathlib.Path(arguments.weights) / f"{name}.tiny_in200.safetensors").read_bytes()
        small = tensors.shrink(tensors.read_tensors(data), LEVELS)
        (out / f"{name}.xz").write_bytes(small)
        print(f"{name}: {len(small) / 2**20:.1f} MiB")


def pack_images(pacs, path):
    """Writes the images as `PART/CLASS/DOMAIN-NAME.jpg`, where `PART` is such as `photo_train` or `cartoon`."""
    with tarfile.open(pacs) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    groups = {}
    for name in files:
        domain, label, _ = name.split("/")
        groups.setdefault((domain, label), []).append(name)
    entries, counts = [], {}
    for (domain, label), names in sorted(groups.items()):
        names.sort(key=lambda name: hashlib.sha256(name.encode()).hexdigest())
        for part, chosen in cut(domain, names):
            counts[part] = counts.get(part, 0) + len(chosen)
            entries += [(f"{part}/{label}/{domain}-{name.split('/')[-1]}", files[name]) for name in sorted(chosen)]
    with tarfile.open(path, "w:xz") as archive:
        for name, data in sorted(entries):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    print(f"images: {path.stat().st_size / 2**20:.1f} MiB, {counts}")


def cut(domain, names):
    """The parts of one class of a domain."""
    if domain in SAMPLES:
        return [(domain, names[: round(SAMPLES[domain] * len(names))])]
    short = domain.split("_")[0]
    first, share, second, more, third, _ = SHARES[domain]
    begin, end = round(share * len(names)), round((share + more) * len(names))
    return [(f"{short}_{first}", names[:begin]), (f"{short}_{second}", names[begin:end]), (f"{short}_{third}", names[end:])]


if __name__ == "__main__":
    main()
