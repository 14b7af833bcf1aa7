#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the emulator of PTX notice what it is there to notice? Waits, barriers and guards are taken
out of good code, one kind at a time: each time the answer must be wrong, or the emulator must say
what is (a text of its message, where one is given).

    noticed.py --tessera PROGRAM --emulator PROGRAM
"""

import pathlib
import re
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
sys.path[:0] = [str(TESTS / "codegen" / "emulator"), str(TESTS)]
import launcher  # noqa: E402
import suite  # noqa: E402

EXAMPLES = TESTS.parent / "examples"
# What is replaced, by what, and what the emulator says of it ("": the answer is wrong).
CHANGES = [
    ("sm_80", r"^.*", "", None),  # nothing: the answer is right
    ("sm_90a f32", r"^.*", "", None),
    ("sm_90a f32", r"fence\.proxy\.async\.shared::cta;", "", "of shared memory, which warp"),
    ("sm_80", r"cp\.async\.wait_group\s+\d+;", "", ""),
    ("sm_80", r"bar\.sync\s+0;", "", ""),
    ("sm_80", r"(ld\.param\.b64\s+%rd\d+, \[matmul_0_param_)2", r"\g<1>1", "which is an input"),
    ("sm_80", r"@%p\d+ (st\.global)", r"\1", "of p2, which has"),
    ("sm_90a", r"^.*", "", None),
    ("sm_90a", r"wgmma\.wait_group\.sync\.aligned\s+\d+;", "", ""),
    ("sm_90a", r"@!done bra again;", "", "more arrivals than"),
    ("sm_90a", r"cp\.async\.bulk\.wait_group\.read\s+\d+;", "", "is not waited for"),
    ("sm_90a", r"mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[%r\d+\], %r\d+;", "",
     "nothing can go on"),
    ("sm_90a", r"@%p\d+ mbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];", "", "nothing can go on"),
    ("sm_90a", r"fence\.proxy\.async\.shared::cta;", "", "without a fence"),
    ("sm_90a", r"mbarrier\.init\.shared::cta\.b64 \[%r\d+\], %r\d+;", "", "there is no barrier"),
]


def arguments():
    """Several steps along k, so that each slot is used again; a tail along m and n."""
    rng = np.random.default_rng(1)
    return {"a": rng.integers(-3, 4, (150, 1024)).astype(np.float64),
            "b": rng.integers(-3, 4, (1024, 264)).astype(np.float64)}


def attempt(options, change):
    target, pattern, instead, says = change
    target, _, dtype = target.partition(" ")
    given = arguments()
    with tempfile.TemporaryDirectory() as folder:
        compiler = launcher.Compiler(options.tessera, folder)
        own = ["--schedule", "multicast M 1, N 1"] if target == "sm_90a" else []
        code, plan = compiler.compile(EXAMPLES / "matmul.tile", target,
                                          ["--set", f"T={dtype or 'bf16'}", *own])
        if says is not None:
            text, count = re.subn(pattern, instead, code.read_text(), flags=re.M)
            if not count:
                return "there is nothing to change"
            code.write_text(text)
        try:
            answer = next(iter(launcher.emulate(options.emulator, code, plan, given,
                                                folder).values()))
        except launcher.Failure as failure:
            return None if says and says in str(failure) else f"said: {failure}"
    want = given["a"] @ given["b"]
    right = bool((np.abs(answer - want) <= np.abs(want) / 256).all())
    if says is None:
        return None if right else "good code is wrong"
    return "nobody notices" if right or says else None


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--emulator", required=True)
    options = suite.options_of(parser)
    return suite.run(options, CHANGES, lambda change: attempt(options, change),
                     lambda change: f"{change[0]} without {change[1]}")


if __name__ == "__main__":
    sys.exit(main())
