"""ONNX backend cases passed at both ends of the optimisation levels, in each instruction tier, and by onnxruntime."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import backend_case  # noqa: E402
import catalogue  # noqa: E402
import figure_table  # noqa: E402

CASES = ROOT / "build" / "cases"


def expected(state: str) -> list[str]:
    lines = (ROOT / "tests" / "conformance" / "expected.txt").read_text().splitlines()
    return [line.split(" ", 1)[1] for line in lines if line.startswith(state + " ")]


def our_row(level: str, tier: str, total: int) -> dict:
    scope = catalogue.Scope(ROOT, "release")
    suite, = (s for s in catalogue.conformance_suites(scope) if s.name == f"conformance {level} [{tier}]")
    done = subprocess.run(suite.argv, env={**os.environ, **suite.env}, capture_output=True, text=True)
    counts = re.search(r"(\d+) passed, (\d+) failed, \d+ skipped\s*$", done.stdout)
    if not counts:
        sys.exit(f"conformance: {suite.argv[0]} gave no counts\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return {"runtime": "forethought", "level": level, "tier": tier, "passed": int(counts[1]), "failed": int(counts[2]),
            "of": total}


def passes_in_onnxruntime(name: str) -> bool:
    """Whether onnxruntime, driven from Python, gives what the case expects under ONNX's own rule."""
    import onnxruntime
    case = backend_case.load(CASES / name)
    try:
        session = onnxruntime.InferenceSession(case.model_bytes, providers=["CPUExecutionProvider"])
        outputs = session.run(None, dict(zip((i.name for i in session.get_inputs()), case.inputs)))
    except Exception:  # whatever it refuses with, the case does not pass
        return False
    return backend_case.difference(case, outputs) == ""


def main() -> None:
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    wanted = expected("pass")
    rows = [our_row(level, tier, len(wanted)) for level in ("disabled", "all") for tier in catalogue.machine_tiers()]
    passed = sum(map(passes_in_onnxruntime, wanted))
    rows.append({"runtime": f"onnxruntime {onnxruntime.__version__}", "level": "all", "tier": "", "passed": passed,
                 "failed": len(wanted) - passed, "of": len(wanted)})
    figure_table.show("conformance", rows, {"open cases": len(expected("open"))})


if __name__ == "__main__":
    main()
