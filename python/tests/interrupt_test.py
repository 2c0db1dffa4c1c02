"""Ctrl-C ends a run of the main thread with KeyboardInterrupt, and nothing else."""
import subprocess
import sys
import textwrap

import pytest

PREPARE = """
    import os, signal, sys, threading, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts the tests may have it ignored
    sys.path.insert(0, TESTS)
    import numpy as np
    from onnx import TensorProto, helper
    from small_models import model
    import forethought as ft
    body = helper.make_graph(
        [helper.make_node("Neg", ["v"], ["next"]), helper.make_node("Identity", ["go"], ["on"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("next", TensorProto.FLOAT, [2])])
    session = ft.InferenceSession(model(
        [helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)],
        [("m", TensorProto.INT64, []), ("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])]))
    def run(trips, options=None):
        return session.run(None, {"m": np.array(trips), "x": np.ones(2, np.float32)}, options)[0]
    def interrupt_later(seconds=0.3):
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    FOREVER = 2**62
"""
CASES = {
    "plain": """
        for _ in range(3):
            try:
                interrupt_later()
                run(FOREVER)
            except KeyboardInterrupt:
                print("interrupted", run(3)[0])
    """,
    "run options": """
        options = ft.RunOptions()
        try:
            interrupt_later()
            run(FOREVER, options)
        except KeyboardInterrupt:
            print("interrupted", options.terminate, run(3, options)[0])
    """,
    "handler put back": """
        run(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        time.sleep(0.05)
        try:
            interrupt_later()
            run(FOREVER)
        except KeyboardInterrupt:
            print("interrupted")
    """,
    "handler of the program": """
        heard = []
        run(1)
        signal.signal(signal.SIGINT, lambda *_: heard.append(1))
        time.sleep(0.05)
        options = ft.RunOptions()
        def interrupt_and_cancel():
            os.kill(os.getpid(), signal.SIGINT)
            options.terminate = True
        threading.Timer(0.3, interrupt_and_cancel).start()
        try:
            run(FOREVER, options)
        except ft.Fail as e:
            print("cancelled" in str(e), heard, options.terminate)
    """,
    "other threads go on": """
        options, ends = ft.RunOptions(), []
        def work():
            try:
                run(FOREVER, options)
            except ft.Fail:
                ends.append("by its flag")
        thread = threading.Thread(target=work)
        thread.start()
        try:
            interrupt_later()
            run(FOREVER)
        except KeyboardInterrupt:
            print("interrupted", thread.is_alive())
        options.terminate = True
        thread.join()
        print(ends)
    """,
    "between runs": """
        run(1)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            print("interrupted", run(2)[0])
    """,
}
SAID = {
    "plain": "interrupted -1.0\n" * 3,
    "run options": "interrupted False -1.0\n",
    "handler put back": "interrupted\n",
    "handler of the program": "True [1] True\n",
    "other threads go on": "interrupted True\n['by its flag']\n",
    "between runs": "interrupted 1.0\n",
}


@pytest.mark.parametrize("case", CASES)
def test_interrupt(case):
    tests = __file__.rsplit("/", 1)[0]
    program = f"TESTS = {tests!r}\n" + textwrap.dedent(PREPARE) + textwrap.dedent(CASES[case])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == (SAID[case], 0), done.stderr
