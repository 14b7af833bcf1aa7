# SPDX-License-Identifier: Apache-2.0
"""Cases of survey.py: windows, and products that are none of the usual ones."""

import torch
import torch.nn.functional as functional

from survey_cases import WIDE, add, one, two, to_f32


def jacobi(x):
    p = functional.pad(x[None], (1,) * 6)[0]
    c = slice(1, -1)
    return (
        p[2:, c, c] + p[:-2, c, c] + p[c, 2:, c] + p[c, :-2, c] + p[c, c, 2:] + p[c, c, :-2]
    ) / 6


one("jacobi_3d", [(512, 512, 512), (128, 1000, 1000)], jacobi, (5, 6, 7), types=WIDE)
one(
    "blur_5x5",
    [(8192, 8192), (2160, 3840)],
    lambda x: functional.avg_pool2d(x[None, None], 5, 1, 2)[0, 0],
    (9, 11),
)


def sobel(x):
    w = torch.tensor([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=x.dtype, device=x.device)
    g = functional.conv2d(x[None, None], torch.stack([w, w.T])[:, None], padding=1)[0]
    return torch.sqrt(g[0] ** 2 + g[1] ** 2)


one("sobel", [(8192, 8192)], sobel, (9, 11), types=WIDE)
one(
    "moving_mean",
    [(2**26,)],
    lambda x: functional.avg_pool1d(functional.pad(x[None], (31, 0)), 32, 1)[0],
    (1000,),
    types=WIDE,
)
add(
    "average_pool_first",
    [(64, 64, 56, 56)],
    lambda make, b, c, h, w: {"x": make(b, c, 2 * h, 2 * w)},
    lambda x: functional.avg_pool2d(x, 2),
    small=(2, 3, 4, 5),
)


def last(function):
    return (
        lambda x, *a, **k: function(x.permute(0, 3, 1, 2), *a, **k).permute(0, 2, 3, 1).contiguous()
    )


one(
    "average_pool_last",
    [(64, 112, 112, 64)],
    last(lambda x: functional.avg_pool2d(x, 2)),
    (2, 8, 10, 5),
)


def convolve(x, w, **named):
    """Channels last in both; any number of axes."""
    function = (functional.conv1d, functional.conv2d, functional.conv3d)[x.dim() - 3]
    return function(x.movedim(-1, 1), w.movedim(-1, 1), **named).movedim(1, -1)


add(
    "depthwise_stride",
    [(64, 112, 112, 96), (32, 56, 56, 144)],
    lambda make, b, h, w, c: {"x": make(b, h, w, c), "w": make(3, 3, c)},
    lambda x, w: functional.conv2d(
        x.permute(0, 3, 1, 2), w.permute(2, 0, 1)[:, None], stride=2, padding=1, groups=x.shape[3]
    ).permute(0, 2, 3, 1),
    small=(2, 8, 9, 5),
)
add(
    "depthwise_first",
    [(64, 96, 112, 112), (32, 144, 56, 56)],
    lambda make, b, c, h, w: {"x": make(b, c, h, w), "w": make(c, 3, 3)},
    lambda x, w: functional.conv2d(x, w[:, None], padding=1, groups=x.shape[1]),
    small=(2, 5, 8, 9),
)
add(
    "causal_conv1d",
    [(8, 2048, 4096)],
    lambda make, b, l, c: {"x": make(b, l, c), "w": make(4, c)},
    lambda x, w: functional.silu(
        functional.conv1d(functional.pad(x.mT, (3, 0)), w.T[:, None], groups=x.shape[2])
    ).mT.contiguous(),
    small=(2, 9, 5),
)

SQUARE = [(8192, 8192), (16384, 1000), (512, 65536)]
add(
    "matvec",
    SQUARE,
    lambda make, m, n: {"a": make(m, n), "x": make(n)},
    lambda a, x: to_f32(a @ x),
    small=(30, 33),
)
add(
    "vecmat",
    SQUARE,
    lambda make, m, n: {"a": make(m, n), "x": make(m)},
    lambda a, x: to_f32(x @ a),
    small=(30, 33),
)
add(
    "batched_matvec",
    [(256, 512, 512), (8192, 64, 128)],
    lambda make, b, m, n: {"a": make(b, m, n), "x": make(b, n)},
    lambda a, x: to_f32((a @ x[:, :, None])[:, :, 0]),
    small=(3, 30, 33),
)
add(
    "batched_vecmat",
    [(256, 512, 512), (8192, 64, 128)],
    lambda make, b, m, n: {"a": make(b, m, n), "x": make(b, m)},
    lambda a, x: to_f32((x[:, None, :] @ a)[:, 0]),
    small=(3, 30, 33),
)
two(
    "bilinear",
    [(16384, 4096), (1000000, 64)],
    lambda x, y: torch.linalg.vecdot(to_f32(x), to_f32(y)),
    (30, 33),
)


def convolution(kernel, sizes, shape, flops, small, peer=convolve, **named):
    add(
        kernel,
        sizes,
        lambda make, *s: {"x": make(*shape(*s)[0]), "w": make(*shape(*s)[1]) * 0.1},
        lambda x, w: peer(x, w, **named),
        small=small,
        flops=flops,
    )


convolution(
    "conv1d_channels",
    [(16, 4096, 256, 256), (16, 4096, 80, 512)],
    lambda b, l, c, o: ((b, l, c), (o, 3, c)),
    lambda b, l, c, o: 6 * b * l * c * o,
    (2, 9, 5, 7),
    padding=1,
)
convolution(
    "conv3d_channels",
    [(2, 32, 56, 56, 64, 64)],
    lambda b, d, h, w, c, o: ((b, d, h, w, c), (o, 3, 3, 3, c)),
    lambda b, d, h, w, c, o: 54 * b * d * h * w * c * o,
    (1, 3, 4, 5, 5, 7),
    padding=1,
)
convolution(
    "conv_dilated",
    [(16, 56, 56, 128, 128)],
    lambda b, h, w, c, o: ((b, h, w, c), (o, 3, 3, c)),
    lambda b, h, w, c, o: 18 * b * h * w * c * o,
    (2, 8, 9, 5, 7),
    padding=2,
    dilation=2,
)
convolution(
    "conv_stem",
    [(64, 224, 224, 3, 64)],
    lambda b, h, w, c, o: ((b, h, w, 3), (o, 7, 7, 3)),
    lambda b, h, w, c, o: 2 * 147 * b * h * w // 4 * o,
    (2, 12, 13, 3, 7),
    padding=3,
    stride=2,
)
convolution(
    "conv_transposed",
    [(16, 56, 56, 128, 128)],
    lambda b, h, w, c, o: ((b, h, w, c), (o, 2, 2, c)),
    lambda b, h, w, c, o: 8 * b * h * w * c * o,
    (2, 4, 5, 5, 7),
    lambda x, w: functional.conv_transpose2d(
        x.permute(0, 3, 1, 2), w.permute(3, 0, 1, 2), stride=2
    ).permute(0, 2, 3, 1),
)
convolution(
    "conv_first",
    [(16, 128, 56, 56, 128), (16, 64, 112, 112, 64)],
    lambda b, c, h, w, o: ((b, c, h, w), (o, c, 3, 3)),
    lambda b, c, h, w, o: 18 * b * h * w * c * o,
    (2, 5, 8, 9, 7),
    lambda x, w: functional.conv2d(x, w, padding=1),
)
convolution(
    "conv_grouped",
    [(16, 56, 56, 32, 8), (16, 56, 56, 4, 64)],
    lambda b, h, w, g, c: ((b, h, w, g, c), (g, c, 3, 3, c)),
    lambda b, h, w, g, c: 18 * b * h * w * g * c * c,
    (2, 8, 9, 3, 5),
    lambda x, w: functional.conv2d(
        x.flatten(3).permute(0, 3, 1, 2),
        w.flatten(0, 1).permute(0, 3, 1, 2),
        padding=1,
        groups=x.shape[3],
    )
    .permute(0, 2, 3, 1)
    .unflatten(3, x.shape[3:]),
)
EINSUMS = {
    "scores": (
        "bhqd,bhkd->bhqk",
        [(8, 16, 1024, 1024, 64)],
        lambda b, h, q, k, d: ((b, h, q, d), (b, h, k, d)),
        "qk",
    ),
    "bhqd_layout": (
        "bqhd,bkhd->bhqk",
        [(8, 16, 1024, 1024, 64)],
        lambda b, h, q, k, d: ((b, q, h, d), (b, k, h, d)),
        "qk",
    ),
    "bij_bjk": (
        "bij,bjk->bik",
        [(64, 1024, 1024, 1024), (4096, 64, 64, 64)],
        lambda b, i, j, k: ((b, i, j), (b, j, k)),
        "ab",
    ),
    "ijk_jkl": (
        "ijk,jkl->il",
        [(4096, 16, 256, 4096), (1024, 64, 64, 1024)],
        lambda i, j, k, l: ((i, j, k), (j, k, l)),
        "ab",
    ),
}
for name, (formula, sizes, shape, names) in EINSUMS.items():
    add(
        name,
        sizes,
        lambda make, *s, shape=shape, n=names: dict(
            zip(n, (make(*shape(*s)[0]), make(*shape(*s)[1])))
        ),
        lambda formula=formula, **inputs: torch.einsum(formula, *inputs.values()),
        small=(2, 3, 5, 7, 4)[: len(sizes[0])],
        flops=lambda *s: 2 * torch.Size(s).numel(),
    )


def product(m, n, d):
    return 2 * m * n * d


add(
    "distances",
    [(4096, 4096, 64)],
    lambda make, m, n, d: {"x": make(m, d), "y": make(n, d)},
    lambda x, y: torch.cdist(x, y),
    small=(30, 33, 7),
    types=WIDE,
    flops=product,
)
add(
    "nearest",
    [(65536, 1024, 64)],
    lambda make, m, n, d: {"x": make(m, d), "y": make(n, d)},
    lambda x, y: torch.cdist(x, y).argmin(1),
    small=(30, 33, 7),
    types=WIDE,
    flops=product,
)
add(
    "pi",
    [(2**27,)],
    lambda make, n: {},
    lambda: torch.tensor([3.14159265], device="cuda" if torch.cuda.is_available() else "cpu"),
    small=(10**5,),
    types=WIDE,
    consts=lambda n: {"N": n},
)
