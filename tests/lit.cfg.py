# SPDX-License-Identifier: Apache-2.0
"""Text tests. A test is a small file whose RUN lines are run and whose CHECK lines are compared:

    // RUN: %tessera compile %s --emit ir | %FileCheck %s
    // CHECK: reduce

%tessera the program; %opt tests/tools/tessera_opt.c; %FileCheck; %exit 1 COMMAND (succeeds when the
command exits with 1); %s this file; %S its folder; %t a temporary name of this test; %examples the
folder of examples; %python a Python with NumPy.
"""

import os

import lit.formats

source = config.tessera_source
tests = os.path.join(source, "tests")
config.name = "tessera"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".tile", ".ir", ".test"]
config.excludes = ["inputs", "Inputs"]
config.test_source_root = tests
config.test_exec_root = os.path.join(config.tessera_build, "tests", "text")

want_exit = "{} {}".format(config.python, os.path.join(tests, "exit.py"))
config.substitutions += [
    ("%opt", os.path.join(config.tessera_build, "tests", "tessera-opt")),
    ("%tessera-opt", os.path.join(config.tessera_build, "tests", "tessera-opt")),
    ("%tessera", os.path.join(config.tessera_build, "bin", "tessera")),
    ("%FileCheck", config.filecheck + " --allow-unused-prefixes=false"),
    ("%exit", want_exit),
    ("%examples", os.path.join(source, "examples")),
    ("%python", config.python),
]
for name in ("TESSERA_PTXAS", "TESSERA_SEED", "ASAN_OPTIONS", "UBSAN_OPTIONS", "CUDA_HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# No state of the user's: a cache of its own, no device unless a test asks for one.
config.environment["XDG_CACHE_HOME"] = os.path.join(config.test_exec_root, "cache")
