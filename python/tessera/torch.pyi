# SPDX-License-Identifier: Apache-2.0
from typing import Any, Optional

from . import Kernel

def operator(kernel: Kernel, name: Optional[str] = None) -> Any: ...
