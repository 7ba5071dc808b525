"""Independent clients against a monitor: tritonclient (HTTP and gRPC) and kserve, unchanged.

    python3 -m venv clients && clients/bin/pip install 'tritonclient[http,grpc]' kserve numpy
    clients/bin/python bench/serve/clients.py --program target/release/flipcast --model M --calibration C
"""

import argparse
import asyncio
import multiprocessing
import tempfile
from importlib.metadata import version

import numpy as np

from server import Server


def triton(address, images):
    import tritonclient.http as triton

    client = triton.InferenceServerClient(address)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("m")
    assert client.get_server_metadata()["name"] == "flipcast"
    assert [output["name"] for output in client.get_model_metadata("m")["outputs"]] == ["logits", "class"]
    results = []
    for binary in [True, False]:
        tensor = triton.InferInput("pixels", list(images.shape), "UINT8")
        tensor.set_data_from_numpy(images, binary_data=binary)
        outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in ["logits", "class"]]
        answer = client.infer("m", [tensor], outputs=outputs, request_id="", parameters={"stream": "triton"})
        logits = answer.as_numpy("logits")
        assert logits.shape == (len(images), 10) and (logits.argmax(1) == answer.as_numpy("class")).all()
        results.append(logits)
    # Without asking for anything, as most programs do.
    tensor = triton.InferInput("pixels", list(images.shape), "UINT8")
    tensor.set_data_from_numpy(images)
    results.append(client.infer("m", [tensor], model_version="1").as_numpy("logits"))
    try:
        client.infer("other", [tensor])
        raise SystemExit("a model that is not there was found")
    except triton.InferenceServerException as error:
        assert "there is no model `other`" in str(error), error
    print(f"tritonclient {version('tritonclient')}: live, ready, metadata, infer in JSON and binary, an unknown model")
    return results


def triton_grpc(address, images):
    import tritonclient.grpc as triton

    client = triton.InferenceServerClient(address)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("m", "1")
    assert client.get_server_metadata().name == "flipcast"
    assert [output.name for output in client.get_model_metadata("m").outputs] == ["logits", "class"]
    tensor = triton.InferInput("pixels", list(images.shape), "UINT8")
    tensor.set_data_from_numpy(images)
    answer = client.infer("m", [tensor], parameters={"stream": "grpc"})
    logits = answer.as_numpy("logits")
    assert (logits.argmax(1) == answer.as_numpy("class")).all()
    try:
        client.infer("other", [tensor])
        raise SystemExit("a model that is not there was found")
    except triton.InferenceServerException as error:
        assert "there is no model `other`" in str(error), error
    print(f"tritonclient {version('tritonclient')} over gRPC: live, ready, metadata, infer, an unknown model")
    return [logits]


def kserve(address, images):
    import kserve
    from kserve import InferInput, InferRequest, InferenceRESTClient, RESTConfig

    async def run():
        client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=60))
        base = f"http://{address}"
        assert await client.is_server_live(base) and await client.is_server_ready(base)
        assert await client.is_model_ready(base, "m")
        results = []
        for binary in [False, True]:
            tensor = InferInput("pixels", list(images.shape), "UINT8")
            tensor.set_data_from_numpy(images, binary_data=binary)
            request = InferRequest(model_name="m", infer_inputs=[tensor], parameters={"stream": "kserve"})
            answer = await client.infer(base, request, model_name="m")
            results.append(next(o for o in answer.outputs if o.name == "logits").as_numpy().reshape(-1, 10))
        return results

    results = asyncio.run(run())
    print(f"kserve {version('kserve')}: live, ready, infer in JSON and binary")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["program", "model", "calibration"]:
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    state = tempfile.mkdtemp(prefix="flipcast-clients-")
    server = Server(args.program, ["--model", args.model, "--calibration", args.calibration, "--name", "m", "--state", state], f"{state}/log")
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28, 3), dtype=np.uint8)
    results = []
    for client in [triton, triton_grpc, kserve]:
        # A process for each: two of them define the same messages and cannot live in one.
        with multiprocessing.get_context("fork").Pool(1) as process:
            results += process.apply(client, [server.address, images])
    for logits in results[1:]:
        assert np.abs(logits - results[0]).max() < 1e-5
    counts = {row["stream"]: row["images"] for row in server.get("/streams")["streams"]}
    assert counts == {"triton": 10, "default": 5, "grpc": 5, "kserve": 10}, counts
    server.stop()
    print(f"{len(results)} answers agree; images by stream: {counts}")


if __name__ == "__main__":
    main()
