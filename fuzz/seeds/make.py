"""Writes the small tables of logits and labels that `fuzz/mutate` damages. Needs numpy and pyarrow."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

logits = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
labels = np.array([0, 2, 1, 1])
np.save("logits.npy", logits)
np.save("fortran.npy", np.asfortranarray(logits.astype(np.float64)))
np.save("half.npy", logits.astype(np.float16))
np.save("labels.npy", labels.astype(np.int32))
np.savez("stored.npz", logits=logits, labels=labels)
np.savez_compressed("deflated.npz", logits=logits, labels=labels.astype(np.uint8))
open("table.csv", "w").write("id,a,b,c,label\n" + "".join(f"{i}.png,{a},{b},{c:e},{l}\n" for i, ((a, b, c), l) in enumerate(zip(logits, labels))))
columns = {name: logits[:, i] for i, name in enumerate("abc")}
lists = pa.array(list(logits), type=pa.list_(pa.float32()))
for codec in ["none", "snappy", "zstd", "gzip", "lz4"]:
    table = pa.table({**columns, "label": labels} if codec in ("none", "zstd", "lz4") else {"logits": lists, "label": labels})
    pq.write_table(table, f"{codec}.parquet", compression=codec, use_dictionary=codec == "zstd", data_page_version="2.0" if codec == "gzip" else "1.0", store_schema=False)
