#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""directory.py --tessera PROGRAM --mock FOLDER: the commands of `tessera learn` in a learner's
directory, also in damaged and read-only ones, without HOME and on a narrow terminal, and with the
driver of FOLDER as a GPU; and the book. Prints `N passed, N failed, N skipped`."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import suite  # noqa: E402

LESSONS = sorted(path.parent.name for path in ROOT.glob("lessons/*/lesson.txt"))
FIRST, SECOND = LESSONS[:2]
NOBODY = 65534  # a user without rights, for directories that cannot be written
OPTIONS = None


class Wrong(Exception):
    """What a test found."""


def expect(condition, *found):
    if not condition:
        raise Wrong(" ".join(str(one) for one in found))


class Directory:
    """A folder with a course, and `tessera learn` in it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def run(self, *words, code=0, user=None, **environment):
        full = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80", **environment}
        full = {name: value for name, value in full.items() if value is not None}
        done = subprocess.run([OPTIONS.tessera, *words], cwd=self.folder, capture_output=True,
                              text=True, env=full, user=user)
        expect(done.returncode == code, words, "status", done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def learn(self, *words, **how):
        return self.run("learn", *words, **how)

    def course(self):
        self.learn("start", ".")
        return self.folder

    def solve(self, lesson=FIRST):
        solution = (ROOT / "lessons" / lesson / "solution.tile").read_text()
        (self.folder / lesson / "lesson.tile").write_text(solution)

    def progress(self):
        return (self.folder / "progress.txt").read_text()


def first_steps(d):
    expect("learn start" in d.learn(), "the list does not say how to begin")
    expect("there is no course here" in d.learn("check", code=3))
    d.learn("start")
    expect((d.folder / "tessera-lessons" / FIRST / "lesson.tile").exists())
    expect("now at lesson 1" in d.learn(), "not found from the directory above")
    below = Directory(d.folder / "tessera-lessons" / FIRST)
    expect("now at lesson 1" in below.learn(), "not found from a lesson's directory")


def whole_lesson(d):
    d.course()
    expect("answers" in d.learn("check", code=5))
    expect("stays open" not in d.learn("next", FIRST))
    expect("1 of 2" in d.learn("hint"))
    expect("hints were read" in d.learn("solution", code=2))
    expect("2 of 2" in d.learn("hint"))
    expect("kernel" in d.learn("solution"))
    d.solve()
    expect("solved" in d.learn("check"))
    expect(f"{FIRST} solved hints 2" in d.progress(), d.progress())
    expect(SECOND in d.learn("next"))
    expect(f"current {SECOND}" in d.progress(), d.progress())
    expect("Lesson 2 stays open" in d.learn("next"))
    expect(f"1 of {len(LESSONS)} solved" in d.learn())


def reset_keeps(d):
    d.course()
    program = d.folder / FIRST / "lesson.tile"
    program.write_text("# mine\n")
    d.learn("reset")
    expect("# mine\n" == (d.folder / FIRST / "lesson.tile.1").read_text())
    expect("kernel" in program.read_text())
    program.write_text("# mine, too\n")
    d.learn("reset")
    expect("# mine, too\n" == (d.folder / FIRST / "lesson.tile.2").read_text())
    d.learn("start", ".")
    d.learn("next", FIRST)
    expect("kernel" in program.read_text())


def pages_keep_programs(d):
    d.course()
    d.solve()
    before = (d.folder / FIRST / "lesson.tile").read_text()
    d.learn("start", ".")
    d.learn("next", FIRST)
    expect((d.folder / FIRST / "lesson.tile").read_text() == before)


def all_solved(d):
    d.course()
    lines = [d.progress().splitlines()[0], *(f"{name} solved" for name in LESSONS)]
    (d.folder / "progress.txt").write_text("\n".join(lines))
    expect("All lessons are solved" in d.learn("next"))
    expect(f"{len(LESSONS)} of {len(LESSONS)} solved" in d.learn())


def damaged(d):
    d.course()
    head = d.progress().splitlines()[0]
    file = d.folder / "progress.txt"
    for line, says in [("99-nothing solved", "progress.txt:2: there is no such lesson"),
                       (f"{FIRST} solve", "expected `solved` or `hints NUMBER`"),
                       (f"{FIRST} hints many", "expected `solved` or `hints NUMBER`"),
                       ("current", "there is no such lesson"),
                       ("\x01\x02", "there is no such lesson")]:
        file.write_text(f"{head}\n{line}\n")
        expect(says in d.learn(code=3), line)
    file.write_text("something else\n")
    expect("another program's, or damaged" in d.learn("check", code=3))
    file.write_text("")
    expect("another program's, or damaged" in d.learn(code=3))
    file.write_text(f"\n{head}\n")
    expect("another program's, or damaged" in d.learn(code=3))
    file.write_text(f"{head}\r\n\n# mine\n  {FIRST}   solved\t hints 1 \r\n")
    expect("1 of" in d.learn())
    file.write_bytes(head.encode() + b"\n\0\xff" + b"x" * 100000)
    d.learn()


def missing_files(d):
    d.course()
    (d.folder / FIRST / "lesson.tile").unlink()
    expect("lesson.tile" in d.learn("check", code=3))
    (d.folder / FIRST / "page.md").unlink()
    (d.folder / FIRST).rmdir()
    d.learn("reset")
    expect((d.folder / FIRST / "lesson.tile").exists())
    (d.folder / FIRST / "lesson.tile").write_text("")
    expect("no kernel" in d.learn("check", code=2))
    (d.folder / FIRST / "lesson.tile").unlink()
    (d.folder / FIRST / "lesson.tile").mkdir()
    d.learn("check", code=3)


def read_only(d):
    d.course()
    d.solve()
    user = NOBODY if os.getuid() == 0 else None
    os.chmod(d.folder, 0o755 if user else 0o555)
    expect("1." in d.learn("show", user=user))
    said = d.learn("check", user=user, code=3)
    expect("solved" in said and "cannot write" in said, said)
    expect("cannot make the directory" in d.learn("start", "new", user=user, code=3))
    expect("solved" not in d.progress())
    os.chmod(d.folder, 0o755)


def bad_places(d):
    (d.folder / "file").write_text("mine")
    expect("cannot make the directory file" in d.learn("start", "file", code=3))
    expect((d.folder / "file").read_text() == "mine")
    expect("cannot make the directory" in d.learn("start", "a/b/c", code=3))


def no_home(d):
    for home in (None, "", "/nonexistent"):
        there = Directory(tempfile.mkdtemp(dir=d.folder))
        there.learn("start", ".", HOME=home, XDG_CACHE_HOME=None, XDG_DATA_HOME=None)
        there.solve()
        expect("solved" in there.learn("check", HOME=home, XDG_CACHE_HOME=None))


def narrow(d):
    d.course()
    for words, code in [((), 0), (("check",), 5), (("hint",), 0), (("show",), 0)]:
        output = d.learn(*words, code=code, COLUMNS="40")
        long = [line for line in output.splitlines() if len(line) > 40
                and not line.startswith("    ") and " " in line[9:].strip()]
        expect(not long, "wider than 40 columns:", long)


def colour(d):
    d.course()
    expect("\033[" not in d.learn("check", code=5, NO_COLOR=None, TERM="xterm"))
    expect("\033[31m" in d.learn("check", "--color", "always", code=5))
    expect("\033[31m" in d.learn("--color=always", "check", code=5))
    expect("\033[" not in d.learn("check", "--color=never", code=5))
    expect("expected auto, always or never" in d.learn("--color", "red", code=2))


def usage(d):
    d.course()
    expect("did you mean 'check'" in d.learn("chekc", code=2))
    expect("it has list, start" in d.learn("zzzzzz", code=2))
    expect("takes nothing more" in d.learn("show", FIRST, SECOND, code=2))
    expect("no lesson '99'" in d.learn("show", "99", code=2))
    for name in ("1", "01", FIRST, FIRST[3:]):
        expect("1. " in d.learn("show", name))


def measured(d):
    """Where the GPU of the targets is present, times are measured; of another one they are said."""
    lesson = next(name for name in LESSONS if name.endswith("-latency"))
    d.course()
    d.learn("next", lesson)
    d.solve(lesson)
    mock = {"LD_LIBRARY_PATH": f"{OPTIONS.mock}/lib"}
    said = d.learn("check", **mock)
    expect("Mock 0 takes" in said and "the targets are those of NVIDIA H200" in said, said)
    said = d.learn("check", code=5, TESSERA_MOCK_NAME="NVIDIA H200", **mock)
    expect("NVIDIA H200 is here: times are measured" in said and "measured " in said, said)


class Page(HTMLParser):
    """The ids, links and unclosed elements of the book."""

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.open, self.loads = set(), [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.add(values.get("id"))
        self.links += [values["href"]] if "href" in values else []
        self.loads += [values["src"]] if "src" in values else []
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        expect(self.open and self.open.pop() == tag, "elements cross:", tag, self.open)


def book(d):
    d.learn("book", "-o", "book.html")
    text = (d.folder / "book.html").read_text()
    page = Page()
    page.feed(text)
    expect(not page.open, "elements are open:", page.open)
    expect(set(LESSONS) <= page.ids, "lessons are missing")
    expect(all(link.startswith("#") and link[1:] in page.ids for link in page.links), page.links)
    expect(not page.loads and not re.search(r"@import|url\(|https?://", text), "it loads something")
    expect("{{" not in text)
    expect("cannot write" in d.learn("book", "-o", "none/book.html", code=3))


TESTS = [first_steps, measured, whole_lesson, reset_keeps, pages_keep_programs, all_solved, damaged,
         missing_files, read_only, bad_places, no_home, narrow, colour, usage, book]


def attempt(test):
    with tempfile.TemporaryDirectory() as folder:
        try:
            return test(Directory(folder))
        except Wrong as wrong:
            return str(wrong)


def main():
    global OPTIONS
    parser = suite.parser(__doc__)
    parser.add_argument("--mock", required=True, type=os.path.abspath,
                        help="folder with a driver that only counts")
    OPTIONS = suite.options_of(parser)
    return suite.run(OPTIONS, TESTS, attempt, lambda test: test.__name__)


if __name__ == "__main__":
    sys.exit(main())
