# SPDX-License-Identifier: Apache-2.0
"""shells.py PROGRAM: what bash completes, and what the manual pages and the scripts of the other
shells have, compared with what `tessera help` lists; zsh, fish and groff read theirs if they are
here. Prints `N passed, N failed`."""

import pathlib
import re
import shutil
import subprocess
import sys

TESSERA = sys.argv[1]
INPUTS = pathlib.Path(__file__).resolve().parent / "inputs"
COMPLETE = """source /dev/stdin <<<"$SCRIPT"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tessera; printf '%s\\n' "${COMPREPLY[@]}" """


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


def other_scripts():
    for shell in ("zsh", "fish"):
        script = ours("completion", shell)
        for command in COMMANDS:
            if command not in script:
                return False
            for option in options_of(command):
                name = option.lstrip("-") if shell == "fish" else option
                if name not in script:
                    return False
        if shutil.which(shell) and run(shell, "-n", text=script)[0] is None:
            return False
    return True


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
    tests = [bash_commands, bash_options, bash_values, bash_operands, other_scripts, manual_pages,
             manual_warnings, usage]
    failed = [test.__name__ for test in tests if not test()]
    print("\n".join([*failed, f"{len(tests) - len(failed)} passed, {len(failed)} failed"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
