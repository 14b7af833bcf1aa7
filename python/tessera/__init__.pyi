# SPDX-License-Identifier: Apache-2.0
from inspect import Signature
from os import PathLike
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional
from typing import Sequence, Tuple, Union

from . import torch as torch

class Error(RuntimeError):
    diagnostics: List[Dict[str, Any]]
    driver_code: int
    reproducer: Optional[str]
    def __init__(self, message: str, diagnostics: Sequence[Dict[str, Any]] = (),
                 driver_code: int = 0, reproducer: Optional[str] = None) -> None: ...

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
    def __init__(self, message: str, messages: Sequence[Message] = ()) -> None: ...

class Device:
    kind: str
    ordinal: int
    name: str
    target: str
    units: int
    def sync(self, stream: Optional[int] = None) -> None: ...

class Spec:
    dtype: str
    dims: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]]
    device: Optional[Device]

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
    def load(self, device: Device) -> None: ...
    def explain(self, form: str = "text") -> str: ...
    def emit(self, kind: str) -> bytes: ...
    def shape(self, index: int) -> Tuple[str, Optional[Tuple[int, ...]]]: ...

class Explanation(str):
    def html(self) -> str: ...
    def json(self) -> Dict[str, Any]: ...

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

class Bench:
    kernel: str
    device: str
    seconds: float
    low: float
    high: float
    samples: List[float]
    launches: int
    bytes: int
    flops: float
    @property
    def bandwidth(self) -> float: ...
    @property
    def rate(self) -> float: ...

class Progress(NamedTuple):
    doing: str
    done: int
    all: int
    seconds: float
    left: Optional[float]
    derived: Optional[float]
    best: Optional[float]
    ratio: Optional[float]
    failed: Dict[str, int]

class Tuned:
    raw: Dict[str, Any]
    pinned: Optional[str]
    faster: bool
    schedule: List[str]
    measured: int
    failed: Dict[str, int]
    seconds: Optional[float]
    derived: Optional[float]
    ratio: Optional[float]
    ratio_low: Optional[float]
    ratio_high: Optional[float]

class Bundle:
    name: str
    header: str
    object: bytes
    shared: bool
    def write(self, folder: Union[str, PathLike[str]] = ".") -> Tuple[Path, Path]: ...

_Facts = Mapping[str, Union[int, Tuple[int, int, int]]]

class Kernel:
    name: str
    inputs: List[Parameter]
    outputs: List[Parameter]
    generics: List[str]
    sizes: List[str]
    @property
    def __signature__(self) -> Signature: ...
    @property
    def text(self) -> str: ...
    def __call__(self, *args: Any, out: Any = None, stream: Any = None, **named: Any) -> Any: ...
    def given(self, *, schedule: Union[str, Sequence[str]] = (), facts: Optional[_Facts] = None,
              optimize: int = 0, pins: Union[None, bool, str, PathLike[str]] = None,
              **bindings: Any) -> Kernel: ...
    def compile(self, *args: Any, target: Optional[str] = None, out: Any = None,
                **named: Any) -> Compiled: ...
    def start(self, *args: Any, target: Optional[str] = None, out: Any = None,
              **named: Any) -> None: ...
    def prepare(self, *args: Any, out: Any = None, **named: Any) -> Launch: ...
    def explain(self, *args: Any, target: Optional[str] = None, form: str = "text",
                **named: Any) -> Union[str, Explanation]: ...
    def schedule(self, *args: Any, target: Optional[str] = None, **named: Any) -> str: ...
    def source(self, target: Optional[str] = None, *args: Any, kind: Optional[str] = None,
               **named: Any) -> str: ...
    def bench(self, *args: Any, out: Any = None, seconds: float = 1.0, rounds: int = 7,
              **named: Any) -> Bench: ...
    def tune(self, *args: Any, budget: Union[float, str] = 60, pin: bool = True,
             progress: Union[None, bool, Callable[[Progress], object]] = None,
             **options: Any) -> Tuned: ...

class AnyRank(Kernel):
    def of_rank(self, rank: int) -> Kernel: ...

class Program:
    name: str
    @property
    def path(self) -> Optional[str]: ...
    @property
    def text(self) -> str: ...
    @property
    def pins(self) -> str: ...
    def refresh(self) -> None: ...
    def __getitem__(self, name: str) -> Kernel: ...
    def __getattr__(self, name: str) -> Kernel: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

def load(path: Union[str, PathLike[str]]) -> Program: ...
def parse(text: str, name: str = "<text>") -> Program: ...
def tile(text: str) -> Program: ...
def kernel(path: Union[str, PathLike[str]], name: Optional[str] = None) -> Kernel: ...
def spec(dtype: Any, *dims: int) -> Spec: ...
def view(array: Any, dtype: Any,
         shape: Union[None, int, Sequence[int]] = None) -> View: ...
def device(kind: str = "auto", ordinal: int = 0) -> Device: ...
def isolate(when: str, seconds: float = 0) -> None: ...
def bundle(source: Union[Program, Kernel, str, PathLike[str]], *,
           targets: Union[str, Sequence[str]], name: Optional[str] = None,
           variants: Sequence[Mapping[str, Any]] = (), facts: Optional[_Facts] = None,
           shared: bool = False, **bindings: Any) -> Bundle: ...
def include_folder() -> str: ...
def library_folder() -> str: ...
__version__: str
def version() -> str: ...
