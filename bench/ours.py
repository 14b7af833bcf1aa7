# SPDX-License-Identifier: Apache-2.0
"""Tessera's library on torch's tensors, which already lie on the device."""

import torch

from abi import Library as Abi
from abi import Tensor

TYPES = {torch.bool: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4,
         torch.uint8: 5, torch.uint32: 7, torch.float16: 9, torch.bfloat16: 10, torch.float32: 11,
         torch.float64: 12, torch.float8_e4m3fn: 13, torch.float8_e5m2: 14}  # TesseraType


class Library(Abi):
    def __init__(self, path, kind="cuda"):
        torch.cuda.init()
        torch.cuda.current_stream().synchronize()
        super().__init__(path, kind)

    def describe(self, value):
        tensor = Tensor(rank=-1)
        if torch.is_tensor(value):
            tensor = Tensor(value.data_ptr(), TYPES[value.dtype], value.dim())
            tensor.dims[: value.dim()] = value.shape
        return tensor

    def stream(self):
        return torch.cuda.current_stream().cuda_stream
