# SPDX-License-Identifier: Apache-2.0
"""long.py KIND N: a kernel of N statements that follow from each other."""

import sys

KINDS = {
    "lets": "    let a{i} = a{j} * 2 + x",
    "shapes": "    let b{i} = zeros(f32[N + {i}])",
}


def main():
    kind, n = sys.argv[1], int(sys.argv[2])
    print("kernel f(x: f32[N]) -> f32[N] {\n    let a0 = x + 1")
    for i in range(1, n):
        print(KINDS[kind].format(i=i, j=i - 1))
    print("    return a0\n}" if kind == "shapes" else f"    return a{n - 1}\n}}")


main()
