# SPDX-License-Identifier: Apache-2.0
from inspect import Signature
from os import PathLike
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import torch as torch

class Error(RuntimeError):
    diagnostics: List[Dict[str, Any]]
    driver_code: int
    reproducer: Optional[str]

class SourceError(Error): ...
class UsageError(Error, ValueError): ...
class UnavailableError(Error): ...
class FaultError(Error): ...
class InternalError(Error): ...

class Message(NamedTuple):
    failed: bool
    text: str
    file: Optional[str]
    line: int

class AssertionFailed(Error, AssertionError):
    messages: List[Message]

class Device:
    kind: str
    name: str
    target: str
    units: int
    def sync(self, stream: Optional[int] = None) -> None: ...

class Spec:
    dtype: str
    dims: Tuple[int, ...]

class View:
    array: Any
    type: str
    dims: Tuple[int, ...]

class Parameter:
    name: str
    type: str
    rank: int
    dims: List[str]
    io: int
    is_const: bool
    fallback: Optional[str]

class Compiled:
    target: str
    warnings: str
    bindings: Dict[str, str]
    sizes: Dict[str, int]
    @property
    def schedule(self) -> str: ...
    def explain(self, form: str = "text") -> str: ...
    def emit(self, kind: str) -> bytes: ...
    def shape(self, index: int) -> Tuple[str, Optional[Tuple[int, ...]]]: ...

class Launch:
    compiled: Compiled
    device: Device
    values: List[Any]
    results: Tuple[Any, ...]
    def __call__(self, stream: Any = None) -> None: ...
    def time(self, times: int = 1, stream: Optional[int] = None) -> float: ...
    @property
    def workspace(self) -> int: ...
    def messages(self, stream: Any = None) -> List[Message]: ...

class Kernel:
    name: str
    inputs: List[Parameter]
    outputs: List[Parameter]
    generics: List[str]
    sizes: List[str]
    __signature__: Signature
    def __call__(self, *args: Any, out: Any = None, stream: Any = None, **named: Any) -> Any: ...
    def given(self, *, schedule: Union[str, Sequence[str]] = (),
              facts: Optional[Dict[str, Union[int, Tuple[int, int, int]]]] = None,
              optimize: int = 0, pins: Union[None, bool, str, PathLike[str]] = None,
              **bindings: Any) -> Kernel: ...
    def compile(self, *args: Any, target: Optional[str] = None, out: Any = None,
                **named: Any) -> Compiled: ...
    def prepare(self, *args: Any, out: Any = None, **named: Any) -> Launch: ...
    def explain(self, *args: Any, target: Optional[str] = None, form: str = "text",
                **named: Any) -> str: ...
    def schedule(self, *args: Any, target: Optional[str] = None, **named: Any) -> str: ...

class Program:
    def __getitem__(self, name: str) -> Kernel: ...
    def __getattr__(self, name: str) -> Kernel: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

def load(path: Union[str, PathLike[str]]) -> Program: ...
def parse(text: str, name: str = "<text>") -> Program: ...
def kernel(path: Union[str, PathLike[str]], name: Optional[str] = None) -> Kernel: ...
def spec(dtype: str, *dims: int) -> Spec: ...
def view(array: Any, dtype: str,
         shape: Union[None, int, Sequence[int]] = None) -> View: ...
def device(kind: str = "auto", ordinal: int = 0) -> Device: ...
def isolate(when: str, seconds: float = 0) -> None: ...
__version__: str
def version() -> str: ...
