# SPDX-License-Identifier: Apache-2.0


def increment_version(tensor):
    tensor.counter[0] += 1
