"""Tests that the pages hold what they point to: links, files, ./dev commands; and runs the blocks marked `sh run`."""
import functools
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def ids(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def dev_commands() -> set[str]:
    text = subprocess.run([str(ROOT / "dev"), "help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  ([a-z]+) ", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_to_files(page):
    prose = re.sub(r"^```.*?^```|^    .*?$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)  # a lambda is no link
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_named_files_exist(page):
    """Words in backticks that look like a file of the tree; capitals stand for a name of the reader's choice."""
    named = re.findall(r"`((?:src|tools|tests|docs|demo|cmake|fuzz|python|include)/[\w./-]+\.\w+)`", page.read_text())
    assert [path for path in named if not re.search("[A-Z]{3}", path) and not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_commands_of_the_door_exist(page):
    used = set(re.findall(r"\./dev ([a-z]+)", page.read_text()))
    assert used <= dev_commands()


def test_the_map_names_every_room_and_folder():
    text = (ROOT / "docs" / "map.md").read_text()
    rooms = re.findall(r"^(\w+):", (ROOT / "cmake" / "rooms.txt").read_text(), re.MULTILINE)
    listing = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    folders = {line.split("/")[0] for line in listing.stdout.splitlines() if "/" in line and line[0] != "."}
    assert [r for r in rooms if f"`src/{r}/`" not in text] == []
    assert [f for f in folders - {"src", "include"} if f"`{f}/`" not in text] == []


def runnable_blocks() -> list:
    """Code blocks that start with ```sh run: the pages promise that they work as they stand, from the root."""
    found = []
    for page in PAGES:
        for i, block in enumerate(re.findall(r"^```sh run\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)):
            found.append(pytest.param(block, id=f"{ids(page)}-{i}"))
    return found


@pytest.mark.parametrize("block", runnable_blocks())
def test_blocks_run(block):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_door_refuses_what_it_does_not_know():
    done = subprocess.run([str(ROOT / "dev"), "nonsense"], capture_output=True, text=True)
    assert done.returncode == 2 and "nonsense" in done.stderr


def test_every_command_of_the_help_is_there():
    text = (ROOT / "dev").read_text()
    assert {c for c in dev_commands() if c != "help" and f"cmd_{c}()" not in text} == set()
