# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled ahead of time: a C header, and an object or a shared library."""

import ctypes
import os
import pathlib
import re
from ctypes import byref, c_char_p

from . import _abi, _arrays
from ._abi import BundleOptions, Fact, Options, Pair, Size, UsageError
from ._compiled import constant_of
from ._signature import Parameters, instead_of, whole_number


class Bundle:
    """Compiled kernels: `header` is text, `object` bytes; `write` makes files of them."""

    def __init__(self, name, header, code, shared):
        self.name, self.header, self.object, self.shared = name, header, code, shared

    def write(self, folder="."):
        """NAME.h, and NAME.o or libNAME.so, in the folder: their paths."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        code = folder / (f"lib{self.name}.so" if self.shared else f"{self.name}.o")
        header = folder / f"{self.name}.h"
        header.write_text(self.header)
        code.write_bytes(self.object)
        return header, code

    def __repr__(self):
        return f"<tessera.Bundle {self.name}: {len(self.object)} bytes>"


def include_folder():
    """Where <tessera/tessera.h>, <tessera/launch.h> and <tessera/tessera.hpp> are: cc -I."""
    return _folder("include", "include")


def library_folder():
    """Where libtessera-launch, which runs bundles, and libtessera are: cc -L."""
    return _folder(".", "lib")


def _folder(packaged, built):
    here = pathlib.Path(__file__).resolve().parent
    tree = here.parents[1]
    if (here / "libtessera.so.0").exists():
        return str((here / packaged).resolve())
    found = tree / built if (tree / built).exists() else tree / "build" / built
    return str(found)


class _Names:
    """The names of all kernels of a program that a bundle takes."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.sizes = {n for p in self.parameters for n in p.sizes}
        self.generics = {n for p in self.parameters for n in p.generics}
        self.consts = {i.name: i for p in self.parameters for i in p.inputs if i.is_const}

    def split(self, given):
        """(bindings, sizes) of a variant, as the library takes them."""
        bindings, sizes = [], []
        for name, value in given.items():
            if name in self.generics:
                value = _arrays.type_name(f"a variant: {name}", value)
            elif name in self.consts:
                value = constant_of("a variant", self.consts[name], value)
            elif name in self.sizes:
                sizes.append(Size(name.encode(), whole_number(f"a variant: {name}", value)))
                continue
            else:
                raise UsageError(f"a variant: no kernel has '{name}'" + instead_of(
                    name, [*self.generics, *self.consts, *self.sizes]))
            bindings.append(Pair(name.encode(), _abi.text_of(f"a variant: {name}", value)))
        return bindings, sizes


def _variant(names, given):
    """(options, what they point to)."""
    given = dict(given)
    lines = given.pop("schedule", ())
    lines = lines.split(";") if isinstance(lines, str) else lines
    bindings, sizes = names.split(given)
    kept = (_abi.array(Pair, bindings), _abi.array(Size, sizes),
            _abi.array(c_char_p, [_abi.text_of("a line of a schedule", line.strip())
                                  for line in lines]))
    return Options(bindings=kept[0], n_bindings=len(kept[0]), sizes=kept[1], n_sizes=len(kept[1]),
                   lines=kept[2], n_lines=len(kept[2])), kept


def bundle(source, *, targets, name=None, variants=(), facts=None, shared=False, **bindings):
    """Compiles kernels for programs that have no compiler at run time. source: a program, a kernel
    of one, or the path of a `.tile` file; targets: "sm_90a", "gfx942", "x86-64-v3", … Each kernel
    is compiled for each of `variants`, dictionaries of types, constants and sizes, as {"T": "bf16",
    "N": 4096}, which may have a "schedule", and once more for any size. `bindings` hold for all of
    them, and so do `facts` about sizes, as for Kernel.given. name: what all names of the header
    begin with. The result has `header` and `object`, and writes them to files."""
    from ._kernel import Kernel
    from ._program import Program, load
    only = None
    if isinstance(source, Kernel):
        parameters = [source._params]
        given = source._given
        if given.get("lines") or given.get("optimize") or given.get("pins") is not None:
            raise UsageError("of what a kernel is given a bundle takes constants, types and facts: "
                             "a schedule is part of a variant")
        bindings = {**given.get("bindings", {}), **bindings}
        facts = {**given.get("facts", {}), **(facts or {})}
        only, source = source.name, source._program
    elif not isinstance(source, Program):
        source = load(source)
    if name is None:
        name = only.replace("]", "d") if only else \
            os.path.splitext(os.path.basename(source.name))[0]
        name = re.sub(r"\W", "_", name)
    if not only:
        parameters = [Parameters(source._kernels[each]) for each in source]
    names, runtime = _Names(parameters), source._runtime
    targets = [targets] if isinstance(targets, str) else list(targets)
    for target in targets:
        _abi.text_of("a target", target)
    known = {n: p for p in names.parameters for n in p.sizes}
    for size in facts or {}:
        if size not in known:
            raise UsageError(f"a fact: no kernel has the size '{size}'"
                             + instead_of(size, list(known)))
    made = [_variant(names, given) for given in variants]
    common, sizes = names.split(bindings)
    if sizes:
        raise UsageError(f"a size is part of a variant: variants=[{{\"{sizes[0].name.decode()}\": "
                         f"{sizes[0].value}}}]")
    pairs = _abi.array(Pair, common)
    facts = _abi.array(Fact, [Fact(n.encode(), *known[n].fact(n, f))
                              for n, f in (facts or {}).items()])
    listed = _abi.array(c_char_p, [target.encode() for target in targets])
    options = BundleOptions(
        name=_abi.text_of("the name of a bundle", name), kernel=only and only.encode(),
        targets=listed, n_targets=len(listed),
        variants=_abi.array(Options, [o for o, _ in made]), n_variants=len(made), bindings=pairs,
        n_bindings=len(pairs), facts=facts, n_facts=len(facts), shared=bool(shared))
    with runtime.lock:
        handle = runtime.handle("bundle", source._handle, byref(options))
        try:
            header, code = [ctypes.string_at(b.data, b.n) for b in (
                runtime.c.tessera_bundled_header(handle).contents,
                runtime.c.tessera_bundled_object(handle).contents)]
        finally:
            runtime.c.tessera_bundled_free(handle)
    return Bundle(name, header.decode(), code, bool(shared))
