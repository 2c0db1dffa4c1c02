"""Lays out a pack of real models for the conformance program: FOLDER/NAME/model.onnx, unpacked where it is .xz."""
import argparse
import lzma
import pathlib
import shutil


def unpack(pack: pathlib.Path, folder: pathlib.Path) -> int:
    """Makes folder/NAME for each pack/NAME that holds a model; what is up to date stays. Returns their number."""
    count = 0
    for source in sorted(pack.iterdir()):
        plain, packed = source / "model.onnx", source / "model.onnx.xz"
        if not plain.exists() and not packed.exists():
            continue
        count += 1
        target = folder / source.name
        target.mkdir(parents=True, exist_ok=True)
        origin = plain if plain.exists() else packed
        model = target / "model.onnx"
        if not model.exists() or model.stat().st_mtime < origin.stat().st_mtime:
            fresh = target / "model.onnx.tmp"
            if origin is packed:
                with lzma.open(packed) as data, open(fresh, "wb") as out:
                    shutil.copyfileobj(data, out)
            else:
                shutil.copyfile(plain, fresh)
            fresh.rename(model)
        for entry in source.iterdir():
            link = target / entry.name
            if entry not in (plain, packed) and not link.exists():
                link.symlink_to(entry.resolve())
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    print(f"{unpack(args.pack, args.folder)} models in {args.folder}")


if __name__ == "__main__":
    main()
