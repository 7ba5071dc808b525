"""Writes the images of an archive, which come class by class, as two lists in random order: all of them, and the first ones, for a calibration.

    python3 bench/serve/shuffled_list.py cifar100_test.tar cifar100_classes.txt 5000 FOLDER

FOLDER gets the images, `all.csv` and `known.csv` (the first 5,000 of `all.csv`), as `stream_alarms` wants them.
"""

import csv
import os
import random
import sys
import tarfile


def main():
    archive, classes, known, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    number = {name: str(index) for index, name in enumerate(open(classes).read().split())}
    with tarfile.open(archive) as images:
        images.extractall(folder, filter="data")
        paths = sorted(member.name for member in images if member.isfile() and member.name.split("/")[0] in number)
    random.Random(0).shuffle(paths)
    for name, count in [("all", len(paths)), ("known", known)]:
        with open(os.path.join(folder, f"{name}.csv"), "w", newline="") as text:
            csv.writer(text).writerows([path, number[path.split("/")[0]]] for path in paths[:count])
    print(f"{len(paths)} images, {known} of them known, {len(number)} classes")


if __name__ == "__main__":
    main()
