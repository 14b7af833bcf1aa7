# SPDX-License-Identifier: Apache-2.0
"""Cases of survey.py: convolutions of many shapes, those of ResNet-50 among them.

cuDNN may choose among its algorithms by time, and is given tensors as they lie: channels last in
memory, but for `conv_planes`.
"""

import torch
import torch.nn.functional as functional

from survey_cases import BOTH, NARROW, Case, CASES

ALL = ("bf16", "f16", "f32")
FUNCTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)


def first(x):
    """Channels first, as torch names the axes; in memory they stay where they are."""
    return x.movedim(-1, 1)


def plain(x, w, **named):
    return FUNCTIONS[x.dim() - 3](first(x), first(w), **named).movedim(1, -1)


def grouped(x, w, **named):
    y = functional.conv2d(first(x.flatten(3)), first(w.flatten(0, 1)), groups=x.shape[3], **named)
    return y.movedim(1, -1).unflatten(3, (x.shape[3], w.shape[1]))


def deep(x, w, **named):
    filters = w.permute(2, 0, 1)[:, None]
    return functional.conv2d(first(x), filters, groups=x.shape[3], **named).movedim(1, -1)


def up(x, w, **named):
    filters = w.permute(3, 0, 1, 2)
    return functional.conv_transpose2d(first(x), filters, **named).movedim(1, -1)


def planes(x, w, **named):
    return functional.conv2d(x, w, **named)


def planes_deep(x, w, **named):
    return functional.conv2d(x, w[:, None], groups=x.shape[1], **named)


# Of images, of filters: where their spatial axes begin, and how many there are.
SPATIAL = {
    "conv_line": (1, 1, 1),
    "conv_last": (1, 1, 2),
    "conv_volume": (1, 1, 3),
    "conv_groups": (1, 2, 2),
    "conv_depth": (1, 0, 2),
    "conv_planes": (2, 2, 2),
    "conv_planes_depth": (2, 1, 2),
}


def work(kernel, x, w, stride=1, pad=0, dilation=1):
    """Floating-point operations; a transposed convolution has those of its gradient."""
    if kernel == "conv_up":
        return 2 * torch.Size(x[:-1]).numel() * torch.Size(w).numel()
    first, taps, n = SPATIAL[kernel]
    places = x[0]
    for extent, tap in zip(x[first : first + n], w[taps : taps + n]):
        places *= (extent + 2 * pad - dilation * (tap - 1) - 1) // stride + 1
    return 2 * places * torch.Size(w).numel()


def convolve(kernel, peer, x, w, types=NARROW, small=None, **named):
    """A case of images and filters of these extents."""
    theirs = {{"pad": "padding"}.get(name, name): value for name, value in named.items()}
    CASES.append(
        Case(
            kernel,
            [(x, w, *named.items())],
            lambda make, x, w, *_: {"x": make(*x), "w": make(*w) * 0.1},
            lambda x, w: peer(x, w, **theirs),
            types,
            small=(*(small or (x, w)), *named.items()),
            consts=lambda x, w, *named: dict(named),
            flops=lambda x, w, *named: work(kernel, x, w, **dict(named)),
            program="convolutions",
            exact_in=torch.float32,
        )
    )


def last(b, side, c, o, size, types=NARROW, **named):
    named = {"pad": size // 2} | named if size > 1 else named
    odd = (2, 17, 18, 5), (7, size, size, 5)
    convolve("conv_last", plain, (b, side, side, c), (o, size, size, c), types, odd, **named)


STAGES = (56, 64), (28, 128), (14, 256), (7, 512)
for side, c in STAGES:
    for b in (32, 8, 1):
        last(b, side, c, c, 3, ALL if b == 32 and side in (56, 14) else NARROW)
    last(32, side, c, 4 * c, 1)
    last(32, side, 4 * c, c, 1, BOTH if side == 14 else NARROW)
    last(8, side, 4 * c, c, 1)
for side, c in STAGES[:3]:
    last(32, side, 2 * c, 2 * c, 3, stride=2)
    last(32, side, 4 * c, 8 * c, 1, stride=2)
last(32, 112, 64, 64, 3)
last(8, 112, 128, 128, 3)
last(32, 28, 256, 256, 3, dilation=2, pad=2)
last(32, 14, 512, 512, 3, dilation=4, pad=4)
last(32, 28, 96, 128, 5)
last(32, 14, 48, 128, 5)
last(32, 27, 100, 200, 3)
last(32, 224, 3, 64, 7, BOTH, stride=2)
last(32, 224, 3, 96, 4, stride=4, pad=0)
last(32, 224, 3, 768, 16, stride=16, pad=0)
last(32, 224, 3, 64, 3)
last(32, 224, 4, 64, 7, stride=2)
convolve("conv_line", plain, (16, 4096, 256), (256, 3, 256), BOTH, ((2, 9, 7), (5, 3, 7)), pad=1)
convolve("conv_line", plain, (8, 3000, 512), (512, 3, 512), pad=1, stride=2)
convolve("conv_line", plain, (8, 3000, 80), (512, 3, 80), pad=1)
VOLUME = (1, 3, 4, 5, 7), (5, 3, 3, 3, 7)
convolve("conv_volume", plain, (2, 32, 56, 56, 64), (64, 3, 3, 3, 64), BOTH, VOLUME, pad=1)
convolve("conv_volume", plain, (4, 16, 28, 28, 128), (128, 3, 3, 3, 128), small=VOLUME, pad=1)
GROUPS = (2, 8, 9, 3, 5), (3, 7, 3, 3, 5)
for side, c in (56, 4), (28, 8), (14, 16), (7, 32):
    types = BOTH if side in (56, 14) else NARROW
    size = (32, side, side, 32, c), (32, c, 3, 3, c)
    convolve("conv_groups", grouped, *size, types, GROUPS, pad=1)
convolve("conv_groups", grouped, (32, 28, 28, 2, 128), (2, 128, 3, 3, 128), small=GROUPS, pad=1)
DEPTH = (2, 8, 9, 5), (3, 3, 5)
for shape in (112, 64, 3, 1), (56, 144, 3, 2), (14, 480, 5, 1), (7, 960, 5, 1), (14, 384, 7, 1):
    side, c, size, stride = shape
    shape = (32, side, side, c), (size, size, c)
    convolve("conv_depth", deep, *shape, BOTH, DEPTH, pad=size // 2, stride=stride)
UP = (2, 4, 5, 7), (5, 3, 3, 7)
convolve("conv_up", up, (16, 56, 56, 128), (128, 2, 2, 128), BOTH, UP, stride=2)
convolve("conv_up", up, (16, 28, 28, 512), (256, 2, 2, 512), small=UP, stride=2)
convolve("conv_up", up, (16, 32, 32, 256), (128, 4, 4, 256), small=UP, stride=2, pad=1)
convolve("conv_up", up, (16, 32, 32, 100), (3, 4, 4, 100), small=UP, stride=2, pad=1)
PLANES = (2, 5, 8, 9), (7, 5, 3, 3)
for side, c in STAGES:
    types = BOTH if side in (56, 14) else NARROW
    convolve("conv_planes", planes, (32, c, side, side), (c, c, 3, 3), types, PLANES, pad=1)
    convolve("conv_planes", planes, (32, c, side, side), (4 * c, c, 1, 1), small=PLANES)
convolve("conv_planes", planes, (32, 128, 56, 56), (128, 128, 3, 3), small=PLANES, pad=1, stride=2)
convolve("conv_planes", planes, (32, 3, 224, 224), (64, 3, 7, 7), BOTH, PLANES, pad=3, stride=2)
PLANE = (2, 5, 8, 9), (5, 3, 3)
convolve("conv_planes_depth", planes_deep, (32, 144, 56, 56), (144, 3, 3), BOTH, PLANE, pad=1)
convolve("conv_planes_depth", planes_deep, (32, 384, 14, 14), (384, 7, 7), BOTH, PLANE, pad=3)
