# SPDX-License-Identifier: Apache-2.0
"""Whether a row of the table reaches what it must."""

ROUNDING = 0.01  # of a ratio: a figure less this is met


def of(row):
    """Each goal with what it asks for: "met", or by how much it is missed."""
    cells = []
    for goal, (ratio, least) in row.get("goals", {}).items():
        met = ratio >= least - ROUNDING
        cells.append(f"{goal} {least:.2f}: " + ("met" if met else f"**{ratio:.2f}**"))
    return ", ".join(cells)
