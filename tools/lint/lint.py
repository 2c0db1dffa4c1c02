"""Checks the tree against tools/lint/rules.py: prints findings and exits with 1 if there are any."""
import argparse
import pathlib
import subprocess
import sys

import rules

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked_files(root: pathlib.Path) -> list[str]:
    """The files under version control that exist; without git (an unpacked archive), all outside build/."""
    git = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z"], cwd=root, capture_output=True, text=True)
    if git.returncode == 0:
        found = git.stdout.split("\0")
    else:
        found = [str(p.relative_to(root)) for p in root.rglob("*") if p.relative_to(root).parts[0] not in ("build", ".git")]
    return sorted(f for f in found if f and (root / f).is_file())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--summary", action="store_true", help="end with 'N passed, N failed, N skipped': rules without findings, and findings")
    args = parser.parse_args()
    tree = rules.Tree(ROOT, tracked_files(ROOT), cache=ROOT / "build" / "lint")
    good_rules = failed = 0
    for rule in rules.RULES:
        findings = list(rule(tree))
        good_rules += not findings
        failed += len(findings)
        for finding in findings:
            print(f"FAILED {finding}" if args.summary else finding)
    for rule in rules.WARNINGS:
        for finding in rule(tree):
            print(f"warning: {finding}")
    if args.summary:
        print(f"{good_rules} passed, {failed} failed, 0 skipped")
    elif not failed:
        print(f"lint: {len(tree.files)} files, {len(rules.RULES)} rules, nothing found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
