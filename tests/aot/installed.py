#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""installed.py BUILD: the build is installed into a folder, and programs are made from that folder
alone: by CMake, by pkg-config, the examples of examples/host. They run on the CPU and on drivers
that only count. Prints `N passed, N failed, N skipped`."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
MOCK = BUILD / "tests/mock"
results = []
skipped = []


class Skipped(Exception):
    """The machine lacks what the case needs."""


def run(*command, want=0, env=(), cwd=None):
    environment = {**os.environ, "TESSERA_CACHE": "off", "TESSERA_PACKAGING": "test", **dict(env)}
    ran = subprocess.run([str(c) for c in command], text=True, capture_output=True, cwd=cwd,
                         env=environment)
    text = ran.stdout + ran.stderr
    if want is not None and ran.returncode != want:
        raise AssertionError(f"{' '.join(map(str, command))}: status {ran.returncode}\n{text}")
    return text


def case(function):
    try:
        function()
        results.append(True)
    except Skipped as why:
        print(f"{function.__name__} is skipped: {why}")
        skipped.append(function.__name__)
    except AssertionError as problem:
        print(f"{function.__name__}: {problem}")
        results.append(False)


def expect(text, *words):
    for word in words:
        if word not in text:
            raise AssertionError(f"no '{word}' in:\n{text}")


def flags():
    """What a program needs beside a sanitized library."""
    library = BUILD / "lib/libtessera-launch.so"
    return "-fsanitize=address,undefined" if "__asan" in run("nm", "-D", library) else ""


def configure(source, build, prefix):
    run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_FLAGS={flags()}", f"-DCMAKE_CXX_FLAGS={flags()}")
    run("ninja", "-C", build)


def needed(program):
    listed = run("readelf", "-d", program)
    return {line.split("[")[1].split("]")[0] for line in listed.splitlines() if "(NEEDED)" in line}


def mock(kind):
    """Where the runtime finds the drivers that only count."""
    return [("LD_LIBRARY_PATH", f"{MOCK}/lib"), ("ROCM_PATH", str(MOCK))]


def main():
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        prefix = work / "else where" / "tessera"  # with a blank, as paths have
        run("cmake", "--install", BUILD, "--prefix", prefix)
        consumer = work / "consumer"

        @case
        def builds():
            configure(ROOT / "tests/aot/consumer", consumer, prefix)

        @case
        def new_project():
            """What `tessera new` makes builds, and its tests pass."""
            program = prefix / "bin/tessera"
            expect(run(program, "new", "vectors", cwd=work), f"-DCMAKE_PREFIX_PATH='{prefix}'")
            folder = work / "vectors"
            configure(folder, folder / "build", prefix)
            expect(run("ctest", "--test-dir", folder / "build"), "100% tests passed", "of 2")
            expect(run(folder / "build/vectors", "cpu", "5"), "the last of 5: 12")
            expect(run(program, "fmt", "--check", folder / "vectors.tile"), "")
            before = sorted(folder.rglob("*"))
            expect(run(program, "new", "vectors", want=3, cwd=work), "File exists")
            if sorted(folder.rglob("*")) != before:
                raise AssertionError("new has changed a folder that was there")
            for name in ("Vectors", "9", "a-b", "test", "a" * 41, "a/b", "a:b", ""):
                expect(run(program, "new", name, want=2, cwd=work), "name")

        @case
        def is_current():
            expect(run("ninja", "-C", consumer), "no work to do")

        @case
        def runs_on_cpu():
            run(consumer / "consumer", "cpu")

        @case
        def runs_on_a_later_cuda_part():
            run(consumer / "consumer", "cuda", "sm_80", env=mock("cuda"))

        @case
        def runs_on_hip():
            run(consumer / "consumer", "hip", "gfx942", "1", env=mock("hip"))

        @case
        def compiles():
            expect(run(consumer / "compiles"), "tessera 0.1.0")

        @case
        def needs_no_library():
            extra = {n for n in needed(consumer / "consumer") if "tessera" in n}
            if extra:
                raise AssertionError(f"a static program needs {extra}")

        @case
        def without_llvm():
            """Code of the cache runs on a GPU where libtessera-codegen cannot be opened; making it
            is an error that says so, for a library that is not there and for one of another
            build."""
            apart = work / "apart"
            for name in ("bin/tessera", "lib/libtessera.so.0"):
                (apart / name).parent.mkdir(parents=True, exist_ok=True)
                (apart / name).write_bytes((prefix / name).read_bytes())
            (apart / "bin/tessera").chmod(0o755)
            env = [*mock("cuda"), ("TESSERA_CACHE", work / "kept")]
            task = ("run", ROOT / "examples/add.tile", "--size", "N=64", "--device")
            for program, device, want, words in (
                    (apart, "cuda", 3, "is not next to libtessera"), (prefix, "cuda", 0, "out:"),
                    (apart, "cuda", 0, "out:"), (apart, "cpu", 3, "no machine code can be made")):
                expect(run(program / "bin/tessera", *task, device, want=want, env=env), words)
            expect(run(apart / "bin/tessera", "doctor", want=3), "compiler  broken")
            other = apart / "lib/libtessera-codegen.so.0"
            (work / "other.c").write_text("const int tessera_codegen[64] = {1};\n")
            run("cc", "-shared", "-fPIC", "-Wl,--build-id", work / "other.c", "-o", other)
            expect(run(apart / "bin/tessera", *task, "cpu", want=3), "is of another build")
            other.write_bytes(b"no library")
            expect(run(apart / "bin/tessera", *task, "cpu", want=3), "file too short")
            linked = work / "linked"
            linked.mkdir()
            (linked / "libtessera.so.0").symlink_to(prefix / "lib/libtessera.so.0")
            expect(run(prefix / "bin/tessera", *task, "cpu",
                       env=[("LD_PRELOAD", linked / "libtessera.so.0")] if not flags() else []),
                   "out:")

        def project(name, languages, more):
            """A folder with a kernel, a program in C++, and what CMake is to do with them."""
            folder = work / name
            folder.mkdir()
            (folder / "add.tile").write_text((ROOT / "examples/add.tile").read_text())
            (folder / "app.cpp").write_text(
                '#include "add.h"\nint main() { float x[3] = {1, 2, 3}, y[3];'
                "TesseraContext *c; TesseraDevice *d; return tessera_context_new(nullptr, &c) ||"
                ' tessera_device_open(c, "cpu", 1, &d) || add_add(d, nullptr, x, x, y, 3) ||'
                " y[2] != 6; }\n")
            (folder / "CMakeLists.txt").write_text(
                f"cmake_minimum_required(VERSION 3.20)\nproject({name} LANGUAGES {languages})\n"
                f"find_package(Tessera REQUIRED)\n{more}\n")
            return folder

        @case
        def cpp_alone():
            folder = project("cpponly", "CXX", "add_executable(app app.cpp)\n"
                             "tessera_add_kernel(app add.tile TARGETS x86-64-v3)\n"
                             "add_executable(other app.cpp)\n"
                             "tessera_add_kernel(kernels add.tile TARGETS x86-64-v3 STATIC)\n"
                             "target_link_libraries(other PRIVATE kernels)")
            configure(folder, folder / "build", prefix)
            run(folder / "build/app")
            run(folder / "build/other")

        @case
        def cmake_mistakes():
            for name, languages, more, words in (
                    ("nothing", "NONE", "tessera_add_kernel(k add.tile TARGETS x86-64-v3)",
                     "LANGUAGES C"),
                    ("nofile", "C", "tessera_add_kernel(k other.tile TARGETS x86-64-v3)",
                     "there is no"),
                    ("notargets", "C", "tessera_add_kernel(k add.tile)", "TARGETS are wanted")):
                folder = project(name, languages, more)
                text = run("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja",
                           f"-DCMAKE_PREFIX_PATH={prefix}", want=1)
                expect(" ".join(text.split()), words)

        examples = work / "examples"

        @case
        def examples_build():
            for source in (ROOT / "examples/host").glob("*/main.c"):
                lines = len(source.read_text().splitlines())
                if lines > 80:
                    raise AssertionError(f"{source} has {lines} lines, more than 80")
            configure(ROOT / "examples/host", examples, prefix)

        @case
        def embedded():
            program = examples / "embedded/embedded"
            features = pathlib.Path("/proc/cpuinfo").read_text()
            if " avx2 " not in features:
                raise Skipped("the example has code for x86-64-v3 and later")
            best = "x86-64-v4" if "avx512vl" in features else "x86-64-v3"
            expect(run(program, "cpu"), f"softmax_f32 for {best}: N % 8 == 0")
            expect(run(program, "cpu", "13"), f"softmax_f32 for {best}: any size")
            expect(run(program, "cuda", want=None, env=mock("cuda")), "for sm_90a: N % 8 == 0")
            expect(run(program, "cuda", "13", want=None, env=mock("cuda")), "for sm_90a: any size")
            if not needed(program) <= {"libtessera-launch.so.0", "libc.so.6", "libasan.so.8",
                                       "libubsan.so.1", "libm.so.6"}:
                raise AssertionError(f"needs {needed(program)}")

        def example(name, cpu, cuda):
            """On the CPU it checks its answers; on drivers that only count there are none, but
            all of its calls are made, and give back what they took."""
            program = examples / name / name
            expect(run(program, "cpu"), cpu)
            report = work / f"{name}.report"
            for kind in ("cuda", "hip"):
                report.unlink(missing_ok=True)
                expect(run(program, kind, want=None, env=[*mock(kind), ("MOCK_OPENED", "0"),
                                                          ("MOCK_REPORT", str(report))]), cuda)
                if report.read_text().split()[1] != "0":
                    raise AssertionError(f"{name}: left open: {report.read_text()}")
            expect(run(program, "cuda", want=3, env=[*mock("cuda"), ("MOCK_FAIL", "1")]), "cuInit")

        @case
        def example_run():
            example("run", "8 rows sum to 8.000000", "8 rows sum to")
            expect(run(examples / "run/run", "cpu", "13"), "8 rows sum to 8.000000")

        @case
        def example_streams():
            example("streams", "the pool has 2 blocks, 126 were used again",
                    "the pool has 4 blocks, 124 were used again")

        @case
        def example_graph():
            example("graph", "50 steps: launched", "replayed")

        @case
        def example_threads():
            program = examples / "threads/threads"
            expect(run(program, "cpu"), "thread 3:")

        @case
        def example_parallel():
            example("parallel", "1 device, nothing to sum", "1 device, nothing to sum")
            nccl = work / "nccl"
            nccl.mkdir()
            run("cc", "-shared", "-fPIC", ROOT / "tests/aot/nccl/nccl.c", "-o",
                nccl / "libnccl.so.2")
            env = [("LD_LIBRARY_PATH", f"{MOCK}/lib:{nccl}"), ("MOCK_OPENED", "0")]
            program = examples / "parallel/parallel"
            expect(run(program, "cuda", want=None, env=env), "2 devices, sums by NCCL")
            expect(run(program, "cuda", want=None, env=[*env, ("MOCK_DEVICES", "1")]),
                   "1 device, sums by NCCL")
            expect(run(program, "cuda", want=None, env=[*env, ("MOCK_NCCL", "fails")]),
                   "1 device, nothing to sum")

        @case
        def pkg_config():
            env = [("PKG_CONFIG_PATH", prefix / "lib/pkgconfig"), ("LD_LIBRARY_PATH",
                                                                    prefix / "lib")]
            tile = work / "add.tile"
            tile.write_text((ROOT / "examples/add.tile").read_text())
            run(prefix / "bin/tessera", "compile", tile, "--target", "gfx942", "--target", "sm_90a",
                "-o", work / "k")
            (work / "app.c").write_text(
                '#include "k.h"\n#include <stdio.h>\n'
                "int main(void) { float x[3] = {1, 2, 3}, y[3]; TesseraContext *c;"
                "TesseraDevice *d; if (tessera_context_new(0, &c) ||"
                ' tessera_device_open(c, "cpu", 1, &d)) { return 2; }'
                "int bad = k_add(d, 0, x, x, y, 3); puts(tessera_error(c)->message);"
                "tessera_device_free(d); tessera_context_free(c); return bad; }\n")
            run("sh", "-c", f"eval cc {flags()} app.c k.o -o app "
                "$(pkg-config --cflags --libs tessera-launch)", cwd=work, env=env)
            expect(run(work / "app", want=2, env=env), "has no code for", "(native)",
                   "gfx942, sm_90a")

        @case
        def shared_library():
            run(prefix / "bin/tessera", "compile", ROOT / "examples/add.tile", "--target",
                "x86-64-v3", "--emit", "shared", "-o", work / "s")
            shown = run("nm", "-D", "--defined-only", work / "s.so")
            if sorted(line.split()[-1] for line in shown.splitlines()) != [
                    "s_add", "s_add_prepare", "s_bundle"]:
                raise AssertionError(shown)

        @case
        def cubin_of_another_part():
            """Where the driver says that a cubin is for others, the PTX beside it is taken."""
            ptxas = work / "ptxas"
            ptxas.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do in=$1; shift; done\n'
                             'cat "$in" > "$2"\n')
            ptxas.chmod(0o700)
            (work / "part.c").write_text(
                '#include "K.h"\n#include <stdio.h>\n'
                "int main(void) { void *x, *y; TesseraContext *c; TesseraDevice *d;"
                'if (tessera_context_new(0, &c) || tessera_device_open(c, "cuda", 0, &d) ||'
                " tessera_alloc(d, 32, &x) || tessera_alloc(d, 32, &y)) { return 9; }"
                "int bad = K_add(d, 0, x, x, y, 8); tessera_device_free(d);"
                "tessera_context_free(c); return bad; }\n")
            good = {}
            for name, env in (("both", [("TESSERA_PTXAS", str(ptxas))]), ("ptx", [])):
                run(prefix / "bin/tessera", "compile", ROOT / "examples/add.tile", "--target",
                    "sm_80", "--emit", "bundle", "-o", work / name, env=env)
                text = (work / "part.c").read_text().replace("K", name)
                (work / f"{name}.c").write_text(text)
                run("sh", "-c", f"cc {flags()} {name}.c {name}.o -I'{prefix}/include' -o "
                    f"{name}.run '{prefix}/lib/libtessera-launch.a' -ldl -lpthread", cwd=work)
                for at in range(1, 60):
                    env = [*mock("cuda"), ("MOCK_OPENED", "0"), ("MOCK_MAJOR", "8"),
                           ("MOCK_ERROR", "209"), ("MOCK_FAIL", str(at))]
                    ran = subprocess.run([str(work / f"{name}.run")], env={**os.environ,
                                                                           **dict(env)})
                    good[name] = good.get(name, 0) + (ran.returncode == 0)
            if good["both"] <= good["ptx"]:
                raise AssertionError(f"PTX is not taken: {good}")

        @case
        def same_bytes_anywhere():
            made = []
            for i, env in enumerate(([], [("LC_ALL", "C.UTF-8")], [("TESSERA_CACHE", work / "c")],
                                     [("TESSERA_CACHE", work / "c"), ("TMPDIR", work)])):
                folder = work / f"folder{i}" / ("deeper" * i)
                folder.mkdir(parents=True)
                (folder / "kernels.tile").write_text(
                    (ROOT / "tests/aot/consumer/kernels.tile").read_text())
                inside = i % 2 == 0
                run(prefix / "bin/tessera", "compile",
                    "kernels.tile" if inside else folder / "kernels.tile",
                    *(w for t in ("sm_90a", "gfx942", "x86-64-v3") for w in ("--target", t)),
                    "--set", "T=f32", "-o", "k" if inside else folder / "k", env=env,
                    cwd=folder if inside else work)
                made.append([(folder / "k.h").read_bytes(), (folder / "k.o").read_bytes()])
            for other in made[1:]:
                if other != made[0]:
                    raise AssertionError("the same input makes other bytes elsewhere")

    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, {len(skipped)} skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
