# SPDX-License-Identifier: Apache-2.0
"""Text tests. A test is a small file whose RUN lines are run and whose CHECK lines are compared:

    // RUN: %tessera compile %s --emit ir | %FileCheck %s
    // CHECK: reduce

A command that takes long is written `%if long %{ … %}`; only `make check-long` runs it. A test that
needs a program or device that not every machine has names it (`REQUIRES: ptxas`, `nvdisasm`, or
`cuda` for a GPU), or one of its commands prints `left out:` and the reason.

Substitutions:

    %tessera     the program
    %opt …       the tools of tests/tools: %opt is tessera_opt.c, and so on
    %FileCheck   FileCheck
    %exit N CMD  runs a command; succeeds if its exit status is N
    %s %S %t     this file; its folder; a temporary name of this test
    %examples    the folder of examples
    %python      a Python with NumPy
    %moment      seconds of --timeout for a kernel that never ends, enough for everything else
    %lib         the folder of libtessera
    %mock        a folder of mock drivers (tests/mock_driver)
    %emulated    a folder with HIP's runtime and CUDA's driver over emulators of AMD and NVIDIA GPUs
    %emulator    the emulator of AMD GPUs as a program; --decode only disassembles
    %llc         LLVM's back end
"""

import glob
import math
import os
import shutil
import sys

source = config.tessera_source
tests = os.path.join(source, "tests")
sys.path.insert(0, tests)
import patience  # noqa: E402
from text_format import TextTest  # noqa: E402

config.name = "tessera"
config.test_format = TextTest(execute_external=False)
config.suffixes = [".tile", ".ir", ".test"]
config.excludes = ["inputs", "Inputs"]
config.test_source_root = tests
config.test_exec_root = os.path.join(config.tessera_build, "tests", "text")

want_exit = "{} {}".format(config.python, os.path.join(tests, "exit.py"))
config.substitutions += [
    ("%tessera", os.path.join(config.tessera_build, "bin", "tessera")),
    ("%FileCheck", config.filecheck + " --allow-unused-prefixes=false"),
    ("%exit", want_exit),
    ("%lib", os.path.join(config.tessera_build, "lib")),
    ("%mock", os.path.join(config.tessera_build, "tests", "mock")),
    ("%emulated", os.path.join(config.tessera_build, "tests", "emulated")),
    ("%emulator", os.path.join(config.tessera_build, "tests", "tessera-amdgcn")),
    ("%llc", os.path.join(os.path.dirname(config.filecheck), "llc-22")),
    ("%examples", os.path.join(source, "examples")),
    ("%python", config.python),
    ("%moment", str(math.ceil(1 + patience.slowness()))),
]
# tests/tools/tessera_opt.c is %opt, and so on.
for name in sorted(os.listdir(os.path.join(tests, "tools"))):
    tool = os.path.splitext(name)[0]
    if name.endswith(".c") and tool.startswith("tessera_"):
        path = os.path.join(config.tessera_build, "tests", tool.replace("_", "-"))
        config.substitutions.append(("%" + tool[len("tessera_"):], path))
for name in ("TESSERA_PTXAS", "TESSERA_SEED", "TESSERA_PLANTED", "TESSERA_PROBE", "TESSERA_SUITE",
             "ASAN_OPTIONS", "UBSAN_OPTIONS", "CUDA_HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# Tests use no state of the user: no cache, and no device unless a test asks for one.
config.environment["TESSERA_CACHE"] = "off"  # tests compile everything anew


# The programs that scripts/setup.sh installed come last in the PATH.
config.environment["PATH"] += os.pathsep + os.path.join(source, ".tools", "bin")


def has_tool(name):
    """As the compiler and the tests look for the toolkit's programs."""
    return (shutil.which(name, path=config.environment["PATH"])
            or os.environ.get("TESSERA_" + name.upper())
            or glob.glob(os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", name)))


config.available_features |= {name for name in ("ptxas", "nvdisasm") if has_tool(name)}
# `%if long %{ … %}`: not in `make check`. With --param long=1 the tests that have such lines run.
if lit_config.params.get("long"):
    config.available_features.add("long")
if os.path.exists("/dev/nvidiactl"):
    config.available_features.add("cuda")
