# SPDX-License-Identifier: Apache-2.0
"""The loops of machine code: natural ones, of the blocks' dominators. A jump back from code that
was moved behind the loop (a wait that did not succeed, a slow way) makes none."""

import re

JUMP = re.compile(r"\bBRA\b.*`\((\.L\w+)\)")
ALWAYS = re.compile(r"^BRA\S*\s+`")
ENDS = re.compile(r"^(EXIT|RET|BRX|JMP)\b")
LEAVES = re.compile(r"\b(BRA|EXIT|RET|BRX|JMP)\b")


def blocks_of(code, labels):
    """[(begin, end)] and the numbers of the blocks that follow each one."""
    begins = {0, *labels.values()}
    begins |= {i + 1 for i, text in enumerate(code) if LEAVES.search(text)}
    begins = sorted(i for i in begins if i < len(code))
    number = {begin: k for k, begin in enumerate(begins)}
    ranges = list(zip(begins, begins[1:] + [len(code)]))
    follow = []
    for k, (_, end) in enumerate(ranges):
        last = code[end - 1]
        jump = JUMP.search(last)
        at = number.get(labels.get(jump[1])) if jump else None
        to = set() if at is None else {at}
        goes_on = not (jump and ALWAYS.match(last)) and not ENDS.match(last)
        follow.append(to | ({k + 1} if goes_on and k + 1 < len(ranges) else set()))
    return ranges, follow


def order_of(follow):
    """The blocks that are reached from the first one, each after those before it but for loops."""
    done, order, stack = {0}, [], [(0, iter(follow[0]))]
    while stack:
        block, rest = stack[-1]
        new = next((k for k in rest if k not in done), None)
        if new is None:
            order.append(block)
            stack.pop()
        else:
            done.add(new)
            stack.append((new, iter(follow[new])))
    return order[::-1]


def dominators(follow, order):
    """By block: the one that all ways to it pass last."""
    place = {block: i for i, block in enumerate(order)}
    before = {block: [] for block in order}
    for block in order:
        for k in follow[block]:
            before[k].append(block)
    above = {0: 0}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            ways = [k for k in before[block] if k in above]
            best = ways[0]
            for k in ways[1:]:
                while best != k:
                    if place[best] > place[k]:
                        best = above[best]
                    else:
                        k = above[k]
            if above.get(block) != best:
                above[block], changed = best, True
    return above, before


def is_above(above, upper, block):
    while block != upper and block != above[block]:
        block = above[block]
    return block == upper


def loops_of(code, labels):
    """For each loop, the numbers of its instructions, those of inner loops among them."""
    if not code:
        return []
    ranges, follow = blocks_of(code, labels)
    order = order_of(follow)
    above, before = dominators(follow, order)
    found = {}
    for block in order:
        for head in follow[block]:
            if is_above(above, head, block):
                body, waiting = found.setdefault(head, {head}), [block]
                while waiting:
                    k = waiting.pop()
                    if k not in body:
                        body.add(k)
                        waiting += before[k]
    return [sorted(i for k in body for i in range(*ranges[k])) for body in found.values()]
