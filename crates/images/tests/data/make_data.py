#!/usr/bin/env python3
"""Makes hub.parquet, hard.parquet, zstd.parquet, lz4.parquet and arrays.npz beside this file. Needs: numpy, Pillow, pyarrow."""
import io
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))


def picture(i):
    """5 x 4 pixels; red is the row number of the table, green counts columns, blue counts rows."""
    y, x = np.mgrid[0:4, 0:5]
    return np.stack([np.full_like(x, i), x, y], axis=2).astype(np.uint8)


def png(i):
    buffer = io.BytesIO()
    Image.fromarray(picture(i)).save(buffer, "PNG")
    return buffer.getvalue()


def main():
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": png(i), "path": "%d.png" % i} for i in range(40)]
    feature = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog", "eel"], "_type": "ClassLabel"}}
    meta = {"huggingface": json.dumps({"info": {"features": feature}})}
    table = pa.table({"image": pa.array(rows, image), "label": pa.array([i % 3 for i in range(40)], pa.int64())})
    pq.write_table(table.replace_schema_metadata(meta), os.path.join(HERE, "hub.parquet"), row_group_size=18)

    labels = [[7], [3, 9], None, [1, 2, 3]]
    table = pa.table({"image": pa.array([png(i) for i in range(4)], pa.binary()),
                      "label": pa.array(labels, pa.list_(pa.int32()))})
    pq.write_table(table, os.path.join(HERE, "hard.parquet"), compression="gzip")
    for packing in ["zstd", "lz4"]:
        pq.write_table(table, os.path.join(HERE, packing + ".parquet"), compression=packing)

    images = np.stack([picture(i) for i in range(6)])
    np.savez_compressed(os.path.join(HERE, "arrays.npz"), images=images, labels=np.arange(6)[:, None].astype(np.int16))


main()
