# SPDX-License-Identifier: Apache-2.0
"""The structures that the package says to ctypes, beside those of tessera.h: what a C compiler says
of their sizes and of where each member is."""

import ctypes
import pathlib
import subprocess
import tempfile

from tessera import _abi

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"


def structures():
    for cls in vars(_abi).values():
        if isinstance(cls, type) and issubclass(cls, ctypes.Structure) and \
                cls is not ctypes.Structure:
            yield getattr(cls, "_c_name_", "Tessera" + cls.__name__), cls


def expected(cls, name):
    found = {f"sizeof {name}": ctypes.sizeof(cls)}
    for field, *_ in cls._fields_:
        found[f"{name}.{field}"] = getattr(cls, field).offset
    return found


def main():
    ours, lines = {}, []
    for name, cls in structures():
        ours.update(expected(cls, name))
        lines.append(f'    printf("sizeof {name} %zu\\n", sizeof({name}));')
        lines += [f'    printf("{name}.{f} %zu\\n", offsetof({name}, {f}));'
                  for f, *_ in cls._fields_]
    for i, name in enumerate(_abi.TYPES):
        lines.append(f'    printf("type {i} %zu\\n", (size_t)TESSERA_{name.upper()});')
        ours[f"type {i}"] = i
    lines.append('    printf("ABI %d\\n", TESSERA_ABI);')
    ours["ABI"] = _abi.ABI
    source = "#include <stdio.h>\n#include <tessera/tessera.h>\nint main(void)\n{\n" \
        + "\n".join(lines) + "\n    return 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "structures.c"
        path.write_text(source)
        subprocess.run(["cc", path, f"-I{INCLUDE}", "-o", path.with_suffix("")], check=True)
        said = subprocess.run([path.with_suffix("")], check=True, capture_output=True, text=True)
    theirs = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1])
              for line in said.stdout.splitlines()}
    wrong = [k for k in theirs if theirs[k] != ours.get(k)]
    for key in wrong:
        print(f"{key}: {theirs[key]} in C, {ours.get(key)} in Python")
    print(f"{len(theirs) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
