"""The command-line program inside the package."""

import shutil
import signal
import subprocess
import sys
import sysconfig
import time

import flipcast
from conftest import ASSETS, program


def test_the_program_is_in_the_package():
    done = program("--version")
    assert done.returncode == 0 and done.stdout.strip() == f"flipcast {flipcast.__version__}"
    script = shutil.which("flipcast", path=sysconfig.get_path("scripts"))
    assert script and subprocess.run([script, "env"], capture_output=True, check=False).returncode == 0
    wrong = program("estimate", "--logits", "absent.npy", "--calibration", "absent.json")
    assert wrong.returncode == 2 and "hint:" in wrong.stderr


def test_ctrl_c_ends_a_long_call():
    # A process that was started in the background may ignore the signal until it says otherwise.
    long = f"""
import signal
import flipcast
signal.signal(signal.SIGINT, signal.default_int_handler)
model = flipcast.Model.load({str(ASSETS / "resnet20.fashion_mnist.safetensors")!r})
print("ready", flush=True)
try:
    model.calibrate({str(ASSETS)!r})
except KeyboardInterrupt:
    print("interrupted")
"""
    child = subprocess.Popen([sys.executable, "-c", long], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out == "interrupted\n" and child.returncode == 0
