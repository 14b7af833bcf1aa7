# SPDX-License-Identifier: Apache-2.0
"""shells.py PROGRAM: what bash, zsh and fish complete, and what the manual pages have, compared
with what `tessera help` lists. Bash and fish are asked; zsh completes on a terminal of its own.
groff reads the pages if it is here. Prints `N passed, N failed, N skipped`: skipped for want of a
shell."""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import patience  # noqa: E402
import suite  # noqa: E402

TESSERA = sys.argv[1]
INPUTS = pathlib.Path(__file__).resolve().parent / "inputs"
COMPLETE = """source /dev/stdin <<<"$SCRIPT"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tessera; printf '%s\\n' "${COMPREPLY[@]}" """


# An interactive zsh whose completion writes what it offers to a file; ^_ completes, marks its end.
ZSHRC = r"""
PS1=; fpath=("$ZDOTDIR" $fpath); unsetopt auto_menu
autoload -Uz compinit && compinit -u -D
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    local -a offered; builtin compadd -A offered "$@"
    print -rl -- $offered >>"$OFFERED"; builtin compadd "$@"
}
complete_and_mark() { zle complete-word; print END >>"$OFFERED"; zle kill-buffer }
zle -N complete_and_mark; bindkey '^_' complete_and_mark
print END >>"$OFFERED"
"""


def run(*command, text=None, **environment):
    done = subprocess.run(command, input=text, capture_output=True, text=True,
                          env=environment or None)
    return done.stdout if done.returncode == 0 and not done.stderr else None, done.stderr


def ours(*words):
    return run(TESSERA, *words)[0]


HELP = ours("help")
COMMANDS = re.findall(r"^  ([a-z]+) ", HELP, re.M)
BASH = ours("completion", "bash")


def options_of(command):
    return set(re.findall(r"^  (-\S+)", ours("help", command), re.M))


def complete(*words):
    reply, _ = run("bash", "-c", COMPLETE, "bash", "tessera", *words, SCRIPT=BASH,
                   PATH="/usr/bin:/bin")
    return set((reply or "").split())


def bash_commands():
    return complete("") == set(COMMANDS) and complete("comp") == {"compile", "completion"}


def bash_options():
    return all(complete(command, "-") == options_of(command) for command in COMMANDS)


def bash_values():
    return (complete("run", "--device", "") == {"auto", "cpu", "cuda", "hip", "interp"}
            and complete("run", "--device", "=", "h") == {"hip"}
            and complete("run", "--color", "=") == {"auto", "always", "never"}
            and complete("run", "--trap", "") == {"nan"}
            and "sm_90a" in complete("compile", "--target", "sm_"))


def bash_operands():
    return ({"check", "hint", "next", "book"} <= complete("learn", "")
            and {"pin", "merge"} <= complete("tune", "")
            and "doctor" in complete("help", "doc")
            and f"{INPUTS}/untidy.raw" not in complete("run", f"{INPUTS}/")
            and any(word.endswith(".tile") for word in complete("run", f"{INPUTS}/")))


def zsh_complete(lines):
    """What zsh offers at the end of each line."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        offered = folder / "offered"
        offered.touch()
        (folder / "_tessera").write_text(ours("completion", "zsh"))
        (folder / ".zshrc").write_text(ZSHRC)
        (folder / "one.tile").touch()
        terminal, child = pty.openpty()
        zsh = subprocess.Popen(["zsh", "-d", "-i"], stdin=child, stdout=child, stderr=child,
                               start_new_session=True, cwd=folder, env={
                                   "PATH": "/usr/bin:/bin", "TERM": "dumb", "HOME": name,
                                   "ZDOTDIR": name, "OFFERED": str(offered)})
        os.close(child)

        def wait(ends):
            limit = time.monotonic() + patience.seconds(30)
            while offered.read_text().split().count("END") < ends and time.monotonic() < limit:
                if select.select([terminal], [], [], 0.02)[0]:
                    os.read(terminal, 1 << 16)
        for i, line in enumerate(["", *lines]):
            os.write(terminal, f"{line}\x1f".encode() if i else b"")
            wait(i + 1)
        zsh.kill()
        zsh.wait()
        os.close(terminal)
        return [set(one.split()) for one in offered.read_text().split("END\n")[1:-1]]


def fish_complete(lines):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tessera.fish").write_text(ours("completion", "fish"))
        (folder / "one.tile").touch()
        script = "source tessera.fish; for line in $argv; complete -C $line; echo END; end"
        done = subprocess.run(["fish", "--no-config", "-c", script, *lines], cwd=folder, text=True,
                              capture_output=True, timeout=patience.seconds(60),
                              env={"PATH": "/usr/bin:/bin", "HOME": name})
        return [{row.split("\t")[0] for row in one.splitlines()}
                for one in done.stdout.split("END\n")[:-1]]


def check_shell(shell, complete_lines):
    """Each command's options, then words that options and commands take."""
    if not shutil.which(shell):
        return suite.SKIPPED
    cases = [("tessera ", set(COMMANDS).issubset),
             ("tessera comp", {"compile", "completion"}.__eq__),
             ("tessera run --device ", {"auto", "cpu", "cuda", "hip", "interp"}.__eq__),
             ("tessera run --device=h", lambda found: {w.split("=")[-1] for w in found} == {"hip"}),
             ("tessera compile --target sm_", {"sm_80", "sm_90a"}.issubset),
             ("tessera learn ", {"check", "hint", "next", "book"}.issubset),
             ("tessera help doc", {"doctor"}.__eq__),
             ("tessera run ", {"one.tile"}.issubset)]
    found = complete_lines([line for line, _ in cases] + [f"tessera {c} -" for c in COMMANDS])
    options = found[len(cases):]
    return (len(options) == len(COMMANDS)
            and all(good(one) for (_, good), one in zip(cases, found))
            and all({o for o in options_of(c) if len(o) > 2} <= {o.rstrip("=") for o in one}
                    for c, one in zip(COMMANDS, options)))


def zsh_completes():
    return check_shell("zsh", zsh_complete)


def fish_completes():
    return check_shell("fish", fish_complete)


def manual_pages():
    for command in COMMANDS:
        page = ours("manual", command).replace("\\-", "-")
        if not all(f".B {option}" in page for option in options_of(command)):
            return False
    page = ours("manual")
    return all(f"tessera\\-{command} (1)" in page for command in COMMANDS)


def manual_warnings():
    pages = [ours("manual"), *(ours("manual", command) for command in COMMANDS)]
    groff = shutil.which("groff")
    return not groff or not any(run(groff, "-ww", "-man", "-Tutf8", text=page)[1] for page in pages)


def usage():
    done = [subprocess.run([TESSERA, *words], capture_output=True, text=True)
            for words in (["completion"], ["completion", "tcsh"], ["manual", "runn"])]
    return all(one.returncode == 2 for one in done) and "did you mean 'run'" in done[2].stderr


def main():
    tests = [bash_commands, bash_options, bash_values, bash_operands, zsh_completes, fish_completes,
             manual_pages, manual_warnings, usage]
    found = [(test.__name__, test()) for test in tests]
    skipped = [name for name, good in found if good is suite.SKIPPED]
    failed = [name for name, good in found if not good]
    passed = len(found) - len(failed) - len(skipped)
    print("\n".join([*failed, f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
