# SPDX-License-Identifier: Apache-2.0
"""Whether a row of the table reaches what it must."""

ROUNDING = 0.01  # of a ratio: a figure less this is met


def cells(row):
    """Each goal with what it asks for: "met", or by how much it is missed."""
    found = []
    for goal, (ratio, least) in row.get("goals", {}).items():
        met = ratio >= least - ROUNDING
        found.append(f"{goal} {least:.2f}: " + ("met" if met else f"**{ratio:.2f}**"))
    return found


def of(row):
    return ", ".join(cells(row))
