"""Packed weights in a folder that processes share, some of them killed as they write; what a load leaves in its files."""
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper
from small_models import model

import forethought as ft

SIZE, LAYERS = 512, 6
LOAD = """
import sys
import numpy as np
import forethought as ft
options = ft.SessionOptions()
options.add_session_config_entry("session.packed_weights_path", sys.argv[2])
session = ft.InferenceSession(sys.argv[1], options)
np.save(sys.argv[3], session.run(None, {"x0": np.load(sys.argv[4])})[0])
print(session.summary()["packs_read"] + session.summary()["packs_written"])
"""


def start(folder, name):
    return subprocess.Popen([sys.executable, "-c", LOAD, str(folder / "m.onnx"), str(folder / "packs"), str(folder / name),
                             str(folder / "x.npy")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_b2_many_processes_and_a_killed_one_share_a_folder(tmp_path):
    rng = np.random.default_rng(5)
    weights = [rng.standard_normal((SIZE, SIZE)).astype(np.float32) / 16 for _ in range(LAYERS)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(LAYERS)]
    (tmp_path / "m.onnx").write_bytes(model(
        nodes, [("x0", TensorProto.FLOAT, [2, SIZE])], [(f"x{LAYERS}", TensorProto.FLOAT, [2, SIZE])],
        [helper.make_tensor(f"w{i}", TensorProto.FLOAT, [SIZE, SIZE], w.tobytes(), raw=True) for i, w in enumerate(weights)]))
    x = rng.standard_normal((2, SIZE)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    wanted = ft.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x0": x})[0]
    packs, pause = tmp_path / "packs", random.Random(9)
    for _ in range(4):  # killed at whatever it does then
        killed = start(tmp_path, "none.npy")
        until = time.monotonic() + 60
        while not packs.exists() and killed.poll() is None and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(pause.uniform(0, 0.01))
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    started = [start(tmp_path, f"{i}.npy") for i in range(4)]
    for i, process in enumerate(started):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 and int(out) == LAYERS, out + err
        assert np.array_equal(np.load(tmp_path / f"{i}.npy"), wanted)
    whole = [name for name in os.listdir(packs) if name.endswith(".pack")]
    assert len(whole) == LAYERS and all((packs / name).stat().st_size == 4096 + SIZE * SIZE * 4 for name in whole)


PEAK = """
import sys
import forethought as ft
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10
before = peak()
options = ft.SessionOptions()
options.memory_limit = 6 << 20
session = ft.InferenceSession(sys.argv[1], options)
assert session.summary()["weights_streamed"] == 96 << 20
print(peak() - before)
"""


def test_b1_a_load_that_looks_for_a_way_leaves_weights_in_their_file(tmp_path):
    data = np.random.default_rng(1).standard_normal((96, SIZE, SIZE)).astype(np.float32)
    data.tofile(tmp_path / "w.bin")
    tensors = []
    for i in range(96):
        t = onnx.TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[SIZE, SIZE],
                             data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "w.bin"), ("offset", str(i << 20)), ("length", str(1 << 20))):
            t.external_data.add(key=key, value=value)
        tensors.append(t)
    (tmp_path / "m.onnx").write_bytes(model(
        [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(96)],
        [("x0", TensorProto.FLOAT, ["n", SIZE])], [("x96", TensorProto.FLOAT, ["n", SIZE])], tensors))
    done = subprocess.run([sys.executable, "-c", PEAK, str(tmp_path / "m.onnx")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 40 << 20
