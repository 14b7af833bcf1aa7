#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lessons.py --tessera PROGRAM [--only PATTERN]: the lessons of `tessera learn`. For each lesson
the page can be shown and is short enough, the program to begin with is not accepted, the solution
is, and each program of its folder wrong/ is refused with the words of its first line,
`# says: …`. Prints `N passed, N failed, N skipped`."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import suite  # noqa: E402

LESSONS = sorted(path.parent for path in ROOT.glob("lessons/*/lesson.txt"))
MOST_LINES = 80   # of a page, as its source has them
LEAST_WRONG = 2   # intended wrong answers of a lesson
NO_PTXAS = "cannot be predicted here: it needs ptxas"


def learn(options, folder, *words):
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run([options.tessera, "learn", *words, "--timeout", "300"], cwd=folder,
                          capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


def words_of(text):
    return " ".join(text.split())


def check(options, lesson, program):
    """What `learn check` says of a program in place of the lesson's."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "progress.txt").write_text("# Progress of `tessera learn`\n"
                                             f"current {lesson.name}\n")
        (folder / lesson.name).mkdir()
        (folder / lesson.name / "lesson.tile").write_text(program)
        code, output = learn(options, folder, "check")
        solved = f"{lesson.name} solved" in (folder / "progress.txt").read_text()
        return code, output, solved


def try_page(options, lesson):
    page = (lesson / "page.md").read_text()
    if page.count("\n") > MOST_LINES:
        return f"the page has {page.count(chr(10))} lines, more than {MOST_LINES}"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "progress.txt").write_text("# Progress of `tessera learn`\n")
        code, output = learn(options, folder, "show", lesson.name)
    if code or "{{" in output or len(output) < 400:
        return f"show: status {code}: {output[-400:]}"
    return None


def try_formatted(options, lesson):
    sources = [str(path) for path in sorted(lesson.glob("*.tile"))]
    done = subprocess.run([options.tessera, "fmt", "--check", *sources], capture_output=True,
                          text=True)
    return f"not formatted: {done.stdout}{done.stderr}" if done.returncode else None


def try_start(options, lesson):
    code, output, solved = check(options, lesson, (lesson / "start.tile").read_text())
    if NO_PTXAS in output:
        return suite.LEFT_OUT
    return f"accepted: {output}" if code == 0 or solved else None


def try_solution(options, lesson):
    code, output, solved = check(options, lesson, (lesson / "solution.tile").read_text())
    return None if code == 0 and solved else f"refused with status {code}: {output}"


def try_wrong(options, lesson, path):
    program = path.read_text()
    says = re.match(r"# says: (.*)\n", program)
    if not says:
        return "its first line is not `# says: …`"
    code, output, solved = check(options, lesson, program)
    if NO_PTXAS in output:
        return suite.LEFT_OUT
    if code == 0 or solved:
        return f"accepted: {output}"
    return None if says[1] in words_of(output) else f"does not say `{says[1]}`: {output}"


def try_number_of_wrong(_options, lesson):
    found = len(list(lesson.glob("wrong/*.tile")))
    return None if found >= LEAST_WRONG else f"{found} wrong answers, fewer than {LEAST_WRONG}"


def jobs_of(options):
    for lesson in LESSONS:
        if not re.search(options.only, lesson.name):
            continue
        for attempt in (try_page, try_formatted, try_start, try_solution, try_number_of_wrong):
            yield lesson, attempt.__name__[4:], lambda a=attempt, n=lesson: a(options, n)
        for path in sorted(lesson.glob("wrong/*.tile")):
            yield lesson, f"wrong/{path.stem}", lambda p=path, n=lesson: try_wrong(options, n, p)


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--only", default="")
    options = suite.options_of(parser)
    return suite.run(options, list(jobs_of(options)), lambda job: job[2](),
                     lambda job: f"{job[0].name}: {job[1]}")


if __name__ == "__main__":
    sys.exit(main())
