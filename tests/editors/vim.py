#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Vim with editors/vim, where there is Vim: files of the language get their type, colours and
comments, and the server is registered with either plugin for language servers, which are plain
functions here. Prints `N passed, N failed`."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import patience  # noqa: E402

AUTOLOAD = """function! lsp#register_server(info) abort
  let info = copy(a:info)
  let info.cmd = info.cmd({})
  let g:found.vim_lsp = info
endfunction
"""
SCRIPT = """let g:found = {}
let g:tessera_path = '/opt/tessera'
let g:tessera_sizes = 'M=64'
function! LspAddServer(list) abort
  let g:found.lsp = a:list[0]
endfunction
runtime plugin/tessera.vim
runtime plugin/tessera.vim
doautocmd User lsp_setup
doautocmd User LspSetup
filetype plugin on
syntax on
runtime ftdetect/tile.vim
execute 'edit' g:example
let g:found.filetype = &filetype
let g:found.comment = &commentstring
let g:found.colour = synIDattr(synID(search('kernel'), 1, 1), 'name')
call writefile([json_encode(g:found)], g:out)
quitall!
"""


def run_vim():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "autoload").mkdir()
        (path / "autoload/lsp.vim").write_text(AUTOLOAD)
        (path / "script.vim").write_text(SCRIPT)
        command = ["vim", "-Nu", "NONE", "-i", "NONE", "-es",
                   "--cmd", f"set runtimepath^={ROOT}/editors/vim,{folder}",
                   "--cmd", f"let g:out = '{folder}/out.json'",
                   "--cmd", f"let g:example = '{ROOT}/examples/softmax.tile'",
                   "-S", str(path / "script.vim")]
        subprocess.run(command, timeout=patience.seconds(60), stdin=subprocess.DEVNULL,
                       capture_output=True)
        out = path / "out.json"
        return json.loads(out.read_text()) if out.exists() else {}


def main():
    if not shutil.which("vim"):
        print("0 passed, 0 failed, 1 skipped")
        return 0
    found = run_vim()
    wanted = {
        "filetype": "tile", "comment": "# %s", "colour": "tileDeclaration",
        "vim_lsp": {"name": "tessera", "cmd": ["/opt/tessera", "lsp"], "allowlist": ["tile"],
                    "initialization_options": {"sizes": "M=64"}},
        "lsp": {"name": "tessera", "filetype": ["tile"], "path": "/opt/tessera",
                "args": ["lsp"], "initializationOptions": {"sizes": "M=64"}}}
    failures = [f"{key}: {found.get(key)}, not {value}" for key, value in wanted.items()
                if found.get(key) != value]
    print("\n".join([*failures, f"{len(wanted) - len(failures)} passed, {len(failures)} failed"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
