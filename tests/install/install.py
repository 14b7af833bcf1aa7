#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""install.py BUILD: the build is installed into empty folders, used from there by name alone, and
uninstalled: by CMake, as an archive, as a package of Debian. Nothing of it may be left, and nothing
of others may go. Prints `N passed, N failed, N skipped`: skipped for want of dpkg or Vim."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(ROOT / "tests"))
import patience  # noqa: E402
import suite  # noqa: E402

RECORD = BUILD / "installed.txt"
VERSION = re.search(r'TESSERA_VERSION "(.+)"', (ROOT / "include/tessera/launch.h").read_text())[1]
SHARE = ["man/man1/tessera.1", "man/man1/tessera-learn.1", "zsh/site-functions/_tessera",
         "bash-completion/completions/tessera", "fish/vendor_completions.d/tessera.fish",
         "vim/vimfiles/syntax/tile.vim", "nvim/site/lsp/tessera.lua", "nvim/site/syntax/tile.vim",
         "tessera/editors/tessera-tile.vsix", "tessera/editors/tree-sitter-tile/grammar.js",
         "doc/tessera/copyright", "doc/tessera/docs/language.md", "doc/tessera/examples/add.tile",
         "doc/tessera/licences/llvm-22"]
SESSION = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}},
           {"jsonrpc": "2.0", "id": 2, "method": "shutdown"},
           {"jsonrpc": "2.0", "method": "exit"}]
VIM = """function! LspAddServer(list) abort
  call writefile([a:list[0].path], $ASKED)
endfunction
runtime plugin/tessera.vim
doautocmd User LspSetup
quitall!
"""


def run(*command, want=0, cwd=None, text=None, **environment):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, cwd=cwd,
                          input=text, env={**os.environ, "TESSERA_CACHE": "off", **environment},
                          timeout=patience.seconds(300))
    assert done.returncode == want, \
        f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def tree(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def server_of_vim(prefix, folder):
    """The program that Vim starts with the files of this installation."""
    script = folder / "script.vim"
    script.write_text(VIM)
    asked = folder / "asked"
    run("vim", "-Nu", "NONE", "-i", "NONE", "-es", "--cmd",
        f"set runtimepath^={str(prefix / 'share/vim/vimfiles').replace(' ', chr(92) + ' ')}",
        "-S", script, ASKED=str(asked), HOME=str(folder))
    return asked.read_text().strip()


def check_used(prefix, folder):
    """What a user does first, without the sources and without a home."""
    program = prefix / "bin/tessera"
    home = {"HOME": str(folder / "nowhere"), "PATH": "/usr/bin:/bin"}
    for name in SHARE:
        assert (prefix / "share" / name).stat().st_size, name
    said = run(program, "--version", **home)
    commit = re.fullmatch(
        rf"tessera {re.escape(VERSION)}(?: \(commit ([0-9a-f]+)(\+changes)?\))?\n", said)
    assert commit, said
    if (ROOT / ".git").exists() and shutil.which("git"):
        assert commit[1], said
        run("git", "-C", ROOT, "cat-file", "-e", f"{commit[1]}^{{commit}}")
    work = folder / "work"
    work.mkdir()
    run(program, "learn", "start", cwd=work, **home)
    lesson = sorted((work / "tessera-lessons").glob("[0-9]*"))
    assert lesson and list(lesson[0].glob("*.tile")), tree(work)
    run(program, "learn", "check", want=5, cwd=work / "tessera-lessons", **home)
    said = run(program, "run", prefix / "share/doc/tessera/examples/add.tile", "--size", "N=50",
               "--device", "cpu", "--check", **home)
    assert "check  out: the interpreter's bits" in said, said
    messages = "".join(f"Content-Length: {len(json.dumps(m))}\r\n\r\n{json.dumps(m)}"
                       for m in SESSION)
    if shutil.which("vim"):
        server = server_of_vim(prefix, folder)
        assert os.path.samefile(server, program), server
        answer = run(server, "lsp", text=messages, **home)
        assert '"serverInfo"' in answer, answer
    if shutil.which("man"):
        page = prefix / "share/man/man1/tessera-learn.1"
        assert "tessera learn" in run("man", "-l", page, **home)


def check_cmake(folder):
    """Into a folder that is not there, with a blank in its name."""
    prefix = folder / "else where" / "tessera"
    run("cmake", "--install", BUILD, "--prefix", prefix)
    check_used(prefix, folder)
    run("cmake", "--install", BUILD, "--prefix", prefix)  # again, over it
    run("cmake", "--build", BUILD, "--target", "uninstall")
    assert not prefix.exists(), tree(prefix)
    run("cmake", "--build", BUILD, "--target", "uninstall", want=1)


def check_beside_others(folder):
    """Below DESTDIR, in which others have files and empty folders."""
    usr = folder / "usr"
    for name in ("bin", "share/man/man1", "share/doc", "lib/cmake", "share/zsh/site-functions"):
        (usr / name).mkdir(parents=True)
    (usr / "bin/other").write_text("#!/bin/sh\n")
    (usr / "share/zsh/site-functions/_other").write_text("#compdef other\n")
    before = tree(folder)
    run("cmake", "--install", BUILD, "--prefix", "/usr", DESTDIR=str(folder))
    assert (usr / "bin/tessera").exists() and not pathlib.Path("/usr/bin/tessera").exists()
    (usr / "share/vim/vimfiles/plugin/mine.vim").write_text('" mine\n')
    run("cmake", "--build", BUILD, "--target", "uninstall")
    for name in ("share/vim", "share/vim/vimfiles", "share/vim/vimfiles/plugin",
                 "share/vim/vimfiles/plugin/mine.vim"):
        before.append(f"usr/{name}")
    assert tree(folder) == sorted(before), set(tree(folder)) ^ set(before)


def check_archive(folder):
    said = run(ROOT / "scripts/package.sh", BUILD, VERSION, folder, TESSERA_XZ="-1")
    run("tar", "-C", folder, "-xf", said.split()[0])
    prefix = folder / f"tessera-{VERSION}-x86_64-linux"
    check_used(prefix, folder)
    for name in ("README.md", "LICENSE", "docs/language.md", "licences/libstdc++", "course.html",
                 "playground.html",
                 "bench/gpu.py", "python/tessera", "examples/add.tile"):
        assert (prefix / name).exists(), name
    broken = [str(p) for p in prefix.rglob("*") if p.is_symlink() and not p.exists()]
    assert not broken, broken


def check_deb(folder):
    """Unpacked, configured and purged by dpkg in a root of its own."""
    if not all(shutil.which(tool) for tool in ("cpack", "dpkg", "dpkg-shlibdeps")):
        return suite.SKIPPED
    run("cpack", "--config", BUILD / "deb.cmake", "-B", folder / "made",
        "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", TESSERA_PACKAGING="deb")
    package, = (folder / "made").glob("*.deb")
    needs = run("dpkg-deb", "--field", package, "Depends")
    assert re.fullmatch(r"libc6 \(>= [0-9.]+\)\n", needs), needs
    root, admin = folder / "root", folder / "dpkg"
    for part in ("info", "updates", "triggers"):
        (admin / part).mkdir(parents=True)
    (admin / "status").touch()
    root.mkdir()
    dpkg = ["dpkg", f"--instdir={root}", f"--admindir={admin}", f"--log={admin}/log",
            "--force-script-chrootless", "--force-depends", "--force-not-root", "--force-bad-path"]
    run(*dpkg, "--install", package)
    check_used(root / "usr", folder)
    run(*dpkg, "--purge", "tessera")
    assert not tree(root), tree(root)
    return None


def check_commit(folder):
    """What cmake/commit.cmake writes of a repository, of changes in it, and of an archive."""
    def commit_of(source):
        run("cmake", "-D", f"SOURCE={source}", "-D", f"OUTPUT={folder}/commit.c", "-P",
            ROOT / "cmake/commit.cmake")
        return re.search(r'program_commit\[\] = "(.*)";', (folder / "commit.c").read_text())[1]
    source = folder / "source"
    (source / "cmake").mkdir(parents=True)
    (source / "cmake/commit.txt").write_text((ROOT / "cmake/commit.txt").read_text())
    shutil.copy(ROOT / ".gitattributes", source)
    assert commit_of(source) == "", "an archive that is not of git has no commit"
    git = ["git", "-C", source, "-c", "user.name=t", "-c", "user.email=t@localhost"]
    run("git", "init", "-q", source)
    run(*git, "add", ".")
    run(*git, "commit", "-qm", "first")
    head = run(*git, "rev-parse", "HEAD").strip()
    assert commit_of(source) == head[:12], commit_of(source)
    (source / "cmake/commit.txt").write_text("other\n")
    assert commit_of(source) == f"{head[:12]}+changes"
    (folder / "archive").mkdir()
    run(*git, "archive", "-o", folder / "a.tar", "HEAD")
    run("tar", "-C", folder / "archive", "-xf", folder / "a.tar")
    archived = commit_of(folder / "archive")
    assert archived and head.startswith(archived), archived


def attempt(check):
    with tempfile.TemporaryDirectory() as name:
        try:
            return check(pathlib.Path(name))
        except (AssertionError, OSError) as problem:
            return str(problem)[-2000:] or repr(problem)


def main():
    # What the build's user has installed is still what `uninstall` removes afterwards.
    record = RECORD.read_bytes() if RECORD.exists() else None
    options = suite.argparse.Namespace(jobs=1)
    run("cmake", "--build", BUILD, "--target", "course", "playground")
    try:
        return suite.run(options, [check_cmake, check_beside_others, check_archive, check_deb,
                                   check_commit], attempt, lambda check: check.__name__)
    finally:
        RECORD.unlink(missing_ok=True)
        if record is not None:
            RECORD.write_bytes(record)


if __name__ == "__main__":
    sys.exit(main())
