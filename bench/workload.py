# SPDX-License-Identifier: Apache-2.0
"""What a row of the table is: its tensors, what others offer for it, what it must reach."""

from dataclasses import dataclass, field

import torch

DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
          "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
EXACT_TO = {"f32": 1e-6, "f16": 1e-3, "bf16": 5e-3}  # relative errors of one rounding or two


@dataclass
class Workload:
    program: str     # below the root, without its suffix
    label: str
    consts: dict     # generic and const parameters of the program
    inputs: dict     # tensors and scalars by parameter
    result: object   # the tensor that ours writes; of several results {parameter: tensor}
    work: float      # bytes that must be moved, or floating-point operations
    unit: str        # "TB/s" or "TFLOP/s"
    peers: dict      # name → launch; the copy is a limit, not a peer
    reference: object  # () → what ours is compared with, in result's form
    tolerance: float   # of the norm of the difference, relative
    goals: dict = field(default_factory=dict)  # peer, or "best" of them → least ratio
    kernel: str = ""  # of a program of several

    def results(self):
        return self.result if isinstance(self.result, dict) else {"": self.result}


def random(dtype, *shape):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(DTYPES[dtype])


def copy_peer(moved):
    """A device-to-device copy that moves as many bytes."""
    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def compiled(function):
    """torch.compile's version, compiled anew for these shapes."""
    torch._dynamo.reset()
    made = torch.compile(function, dynamic=False)
    made()
    return made


def named(make, *arguments):
    return lambda: make(*arguments)
