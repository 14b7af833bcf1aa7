# SPDX-License-Identifier: Apache-2.0
"""A parameter is a tensor that requires grad."""


def begin(tensor):
    class Parameter(tensor):
        def __init__(self, of, requires_grad=True):
            super().__init__(of.array, requires_grad, of.counter)

    Parameter.__module__ = "torch.nn"
    globals()["Parameter"] = Parameter
