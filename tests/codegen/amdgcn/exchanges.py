# SPDX-License-Identifier: Apache-2.0
"""A word of another lane, read by each kind of instruction: LLVM's back end folds the move between
lanes into the reader, also where no part has such a form of it. Its IR goes through our rewriting
(codegen/amdgcn/amdgcn_dpp.c) and the back end; what comes out is disassembled.

    exchanges.py --rewrite TOOL --emulator TOOL --llc PROGRAM [--target NAME…]

Also checks that readers of words keep such moves folded, and that without the rewriting LLVM still
makes what it may not: else this file is of no use any more."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

TARGETS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"]
FAULTY = ["gfx1100", "gfx1201"]  # where LLVM 22.1.8 folds what it may not
# Words of another lane are folded into readers of these: type of the result, its line.
FOLDED = [("i32", "add i32 %d, %a"), ("float", "fadd float %df, %af"),
          ("float", "fmul float %af, %df"), ("i32", "call i32 @llvm.smax.i32(i32 %d, i32 %a)")]

# %d: the word of another lane, in other types df, dh, ds, dv, dw; likewise a and b of this one; q a
# word and its neighbour, qf as f64; e and f as 64 bits of another lane, two words.
KERNEL = """define amdgpu_kernel void @{name}(ptr addrspace(1) %p, ptr addrspace(1) %o) {{
%id = call i32 @llvm.amdgcn.workitem.id.x()
%g = getelementptr [4 x i32], ptr addrspace(1) %p, i32 %id
%v = load <4 x i32>, ptr addrspace(1) %g
%x = extractelement <4 x i32> %v, i32 0
%a = extractelement <4 x i32> %v, i32 1
%b = extractelement <4 x i32> %v, i32 2
%qv = shufflevector <4 x i32> %v, <4 x i32> poison, <2 x i32> <i32 2, i32 3>
%q = bitcast <2 x i32> %qv to i64
%qf = bitcast i64 %q to double
%d = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %x, i32 177, i32 15, i32 15, i1 true)
{lines}
%og = getelementptr i64, ptr addrspace(1) %o, i32 %id
store {type} %r, ptr addrspace(1) %og
ret void
}}
"""
WORDS = [("{}f", "bitcast i32 %{} to float"), ("{}s", "trunc i32 %{} to i16"),
         ("{}h", "bitcast i16 %{}s to half"), ("{}v", "bitcast i32 %{} to <2 x half>"),
         ("{}w", "bitcast i32 %{} to <2 x i16>")]
PAIR = """%d2 = call i32 @llvm.amdgcn.update.dpp.i32({})
%el = zext i32 %d to i64
%eh = zext i32 %d2 to i64
%es = shl i64 %eh, 32
%e = or disjoint i64 %es, %el
%f = bitcast i64 %e to double""".format("i32 poison, i32 %a, i32 177, i32 15, i32 15, i1 true")


def both(text, x, y):
    """The reader with the word as its first operand, and as its second one."""
    return [text.format(x, y), text.format(y, x)]


def integer_readers():
    for op in "add sub mul and or xor shl lshr ashr udiv urem sdiv srem".split():
        yield "i32", both(f"{op} i32 {{}}, {{}}", "%d", "%a")
        yield "i16", both(f"{op} i16 {{}}, {{}}", "%ds", "%as")
        yield "<2 x i16>", both(f"{op} <2 x i16> {{}}, {{}}", "%dw", "%aw")
        yield "i32", [f"{op} i32 %a, %d\n%r = {then} i32 %r0, %b"
                      for then in ("add", "or", "and", "shl")]
        yield "i64", [f"{op} i64 %e, %q", f"{op} i64 %q, %e"]
        for wide in ("zext", "sext"):
            head = f"{wide} i32 %d to i64\n%wa = {wide} i32 %a to i64\n"
            yield "i64", [head + f"%r = {op} i64 {operands}" for operands in
                          ("%r0, %q", "%q, %r0", "%wa, %r0", "%r0, %wa")]
            yield "i64", [head + f"%s = {op} i64 %wa, %r0\n%r = add i64 %s, %q",
                          head + f"%s = mul i64 %wa, %q\n%r = {op} i64 %s, %r0",
                          head + f"%s = {op} i64 %wa, %r0\n%r = lshr i64 %s, 32",
                          head + f"%m = and i64 %r0, 31\n%r = {op} i64 %q, %m"]
    for pred in ("eq", "ugt", "slt"):
        for dtype, x, y in (("i32", "%d", "%a"), ("i16", "%ds", "%as"), ("i64", "%e", "%q")):
            yield "i32", [f"icmp {pred} {dtype} {x}, {y}\n%r = select i1 %r0, i32 %b, i32 %d"]
    yield "i32", [f"getelementptr [24 x i8], ptr addrspace(1) %p, {dtype} {index}\n"
                  "%r = load i32, ptr addrspace(1) %r0"
                  for dtype, index in (("i32", "%d"), ("i64", "%e"))]
    yield "i32", ["and i32 %d, 16777215\n%m = and i32 %a, 16777215\n%s = mul i32 %m, %r0\n"
                  "%r = add i32 %s, %b"]


def float_readers():
    kinds = [("float", "%df", "%af"), ("half", "%dh", "%ah"), ("<2 x half>", "%dv", "%av"),
             ("double", "%f", "%qf")]
    for op in ("fadd", "fsub", "fmul", "fdiv"):
        for dtype, x, y in kinds:
            yield dtype, both(f"{op} {dtype} {{}}, {{}}", x, y)
            yield dtype, [f"{op} contract {dtype} {y}, {x}\n%r = fadd contract {dtype} %r0, {y}"]
        for cast in ("fpext float %df", "fpext half %dh", "sitofp i32 %d", "uitofp i32 %d"):
            yield "double", [f"{cast} to double\n%r = {op} double %r0, %qf"]
    for pred in ("oeq", "une", "ogt", "uno"):
        yield "i1", [f"fcmp {pred} {dtype} {x}, {y}" for dtype, x, y in kinds if "<" not in dtype]
        yield "i1", [f"fpext float %df to double\n%r = fcmp {pred} double %r0, %qf"]
    casts = {"float": [("fpext", "double"), ("fptrunc", "half"), ("fptrunc", "bfloat"),
                       ("fptosi", "i32"), ("fptoui", "i32"), ("fptosi", "i64")],
             "half": [("fpext", "float"), ("fpext", "double"), ("fptosi", "i16")],
             "i32": [("sitofp", "double"), ("uitofp", "double"), ("sitofp", "float"),
                     ("uitofp", "half")],
             "double": [("fptosi", "i32"), ("fptrunc", "float")]}
    names = {"float": "%df", "half": "%dh", "i32": "%d", "double": "%f"}
    for dtype, some in casts.items():
        for cast, to in some:
            yield to, [f"{cast} {dtype} {names[dtype]} to {to}"]
    yield "double", ["fneg float %df\n%r = fpext float %r0 to double"]


FUNCTIONS = """float llvm.fma.f32 float %df, float %af, float %bf
float llvm.fma.f32 float %af, float %df, float %bf
float llvm.fma.f32 float %af, float %bf, float %df
half llvm.fma.f16 half %dh, half %ah, half %bh
float llvm.maximum.f32 float %df, float %af
float llvm.minnum.f32 float %af, float %df
half llvm.maximum.f16 half %dh, half %ah
i32 llvm.smax.i32 i32 %d, i32 %a
i16 llvm.umin.i16 i16 %ds, i16 %as
i64 llvm.smin.i64 i64 %e, i64 %q
i64 llvm.umax.i64 i64 %q, i64 %e
double llvm.maxnum.f64 double %f, double %qf
float llvm.sqrt.f32 float %df
float llvm.amdgcn.exp2.f32 float %df
float llvm.floor.f32 float %df
double llvm.floor.f64 double %f
double llvm.rint.f64 double %f
float llvm.fabs.f32 float %df
float llvm.ldexp.f32.i32 float %df, i32 %a
double llvm.ldexp.f64.i32 double %qf, i32 %d
i32 llvm.ctpop.i32 i32 %d
i32 llvm.fshr.i32 i32 %a, i32 %b, i32 %d
i64 llvm.fshl.i64 i64 %q, i64 %q, i64 %e
i32 llvm.uadd.sat.i32 i32 %d, i32 %a
i32 llvm.fptosi.sat.i32.f32 float %df
float llvm.amdgcn.rcp.f32 float %df
i32 llvm.amdgcn.perm i32 %d, i32 %a, i32 %b"""


def readers():
    """(type of the result, lines that make %r)"""
    for dtype, some in [*integer_readers(), *float_readers()]:
        yield from ((dtype, line) for line in some)
    for line in FUNCTIONS.splitlines():
        dtype, name, arguments = line.split(" ", 2)
        yield dtype, f"call {dtype} @{name}({arguments})"
    yield "double", ("call float @llvm.fabs.f32(float %df)\n"
                     "%r = fpext float %r0 to double")


def module(some):
    text = [KERNEL.format(name=f"k{i}", type=dtype, lines=lines_of(line))
            for i, (dtype, line) in enumerate(some)]
    text.append("declare i32 @llvm.amdgcn.workitem.id.x()\n"
                "declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)\n")
    for line in dict.fromkeys(FUNCTIONS.splitlines()):
        dtype, name, arguments = line.split(" ", 2)
        types = ", ".join(argument.split()[0] for argument in arguments.split(", "))
        text.append(f"declare {dtype} @{name}({types})\n")
    return "".join(dict.fromkeys(text))


def lines_of(reader):
    made = [f"%{name.format(x)} = {line.format(x)}" for x in "dab" for name, line in WORDS]
    first = "%r0 = " if "%r = " in reader else "%r = "
    return "\n".join([*made, PAIR, first + reader])


def folded(assembly):
    """How many readers of words read another lane."""
    return len(re.findall(r"^\s+v_(?!mov)\w*.*quad_perm", assembly, re.M))


def machine_code(options, source, target, kind):
    out = source.with_suffix(f".{target}.{kind}")
    done = subprocess.run([options.llc, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-O3",
                           "--amdhsa-code-object-version=5", f"-filetype={kind}", source, "-o",
                           out], capture_output=True, text=True)
    return None if done.returncode else out


def undecodable(options, source, target):
    made = machine_code(options, source, target, "obj")
    if not made:
        return "LLVM ends the process"
    done = subprocess.run([options.emulator, "--decode", made], capture_output=True, text=True)
    return done.stderr if done.returncode else None


def sources(options, folder, name, some):
    """Their IR, and it rewritten."""
    plain, rewritten = folder / f"{name}.ll", folder / f"{name}.rewritten.ll"
    plain.write_text(module(some))
    rewritten.write_text(subprocess.run([options.rewrite, plain], check=True, capture_output=True,
                                        text=True).stdout)
    return plain, rewritten


def problems(options, folder):
    plain, rewritten = sources(options, folder, "all", readers())
    _, words = sources(options, folder, "words", FOLDED)
    for target in options.target:
        if target in FAULTY and not undecodable(options, plain, target):
            yield f"{target}: LLVM is right without the rewriting"
        problem = undecodable(options, rewritten, target)
        if problem:
            yield f"{target}: {problem}"
        count = folded(machine_code(options, words, target, "asm").read_text())
        if count != len(FOLDED):
            yield f"{target}: {count} of {len(FOLDED)} readers of words read another lane"


def main():
    parser = argparse.ArgumentParser()
    for name in ("--rewrite", "--emulator", "--llc"):
        parser.add_argument(name, required=True)
    parser.add_argument("--target", nargs="*", default=TARGETS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = list(problems(options, pathlib.Path(folder)))
    print(f"{len(list(readers()))} readers")
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
