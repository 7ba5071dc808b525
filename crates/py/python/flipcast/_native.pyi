"""Types of the extension; what each thing does stands in its docstring."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

class _Bar(Protocol):
    n: Any
    total: Any
    def update(self, n: Any = ..., /) -> Any: ...
    def reset(self, total: Any = ...) -> Any: ...
    def set_description(self, desc: Any = ..., /) -> Any: ...

# A function, a bar of tqdm, its class, or `True`.
Progress = Callable[[str, int, int], object] | _Bar | type | bool
Path = str | os.PathLike[str]
Images = Path | npt.ArrayLike | Iterable[Any]
ClassShares = str | Sequence[float]
Cell = tuple[npt.ArrayLike, npt.ArrayLike] | tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]

class FlipcastError(ValueError):
    hints: list[str]

@final
class Estimate:
    @property
    def name(self) -> str: ...
    @property
    def accuracy(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def interval(self) -> tuple[float, float]: ...
    @property
    def flags(self) -> list[str]: ...
    def explain(self) -> dict[str, str]: ...
    def _repr_html_(self) -> str: ...

@final
class Estimates:
    @property
    def accuracy(self) -> float: ...
    @property
    def interval(self) -> tuple[float, float]: ...
    @property
    def flags(self) -> list[str]: ...
    @property
    def best(self) -> Estimate: ...
    @property
    def level(self) -> float: ...
    @property
    def images(self) -> int: ...
    @property
    def truth(self) -> float | None: ...
    @property
    def adapted(self) -> dict[str, Estimate]: ...
    @property
    def by_class(self) -> dict[str, Any] | None: ...
    @property
    def labelled(self) -> LabelledEstimate | None: ...
    def keys(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __getitem__(self, name: str, /) -> Estimate: ...
    def to_dict(self) -> dict[str, list[Any]]: ...
    def to_frame(self) -> Any: ...
    def _repr_html_(self) -> str: ...

@final
class Calibration:
    @staticmethod
    def fit(
        logits: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        cells: dict[str, Cell] | None = None,
        second: npt.ArrayLike | None = None,
        temperature: bool = False,
        class_shares: ClassShares | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Calibration: ...
    @staticmethod
    def load(path: Path) -> Calibration: ...
    def save(self, path: Path) -> None: ...
    @property
    def classes(self) -> int: ...
    @property
    def cells(self) -> list[str]: ...
    @property
    def clean_accuracy(self) -> float: ...
    @property
    def temperature(self) -> float: ...
    @property
    def has_intervals(self) -> bool: ...

def estimate(
    logits: npt.ArrayLike,
    calibration: Calibration,
    *,
    second: npt.ArrayLike | None = None,
    level: float = 0.9,
    class_shares: ClassShares | None = None,
    labels: npt.ArrayLike | None = None,
    labelled: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    chosen: bool = True,
    by_class: bool = False,
) -> Estimates: ...

@final
class LabelledEstimate:
    @property
    def estimate(self) -> Estimate: ...
    @property
    def labels_alone(self) -> Estimate: ...
    @property
    def joined(self) -> Estimate | None: ...
    @property
    def effective_labels(self) -> float: ...
    def _repr_html_(self) -> str: ...

def choose_images(
    logits: npt.ArrayLike, labels: int, *, calibration: Calibration | None = None, seed: int = 0
) -> npt.NDArray[np.int64]: ...
def estimate_with_labels(
    logits: npt.ArrayLike,
    images: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    calibration: Calibration | None = None,
    chosen: bool = True,
    level: float = 0.9,
) -> LabelledEstimate: ...

@final
class ModelCalibration:
    @staticmethod
    def load(path: Path) -> ModelCalibration: ...
    def save(self, path: Path) -> None: ...
    @property
    def model(self) -> str: ...
    @property
    def clean_accuracy(self) -> float: ...
    @property
    def has_advice(self) -> bool: ...

@final
class Model:
    @staticmethod
    def load(
        model: Path,
        *,
        weights: Path | None = None,
        classes: int | None = None,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        scale: float | None = None,
        resize: int | tuple[int, int] | None = None,
        crop: int | tuple[int, int] | None = None,
        interpolation: str | None = None,
    ) -> Model: ...
    @staticmethod
    def from_torch(module: Any, example: Any, **preprocessing: Any) -> Model: ...
    @property
    def name(self) -> str: ...
    @property
    def classes(self) -> int: ...
    @property
    def class_names(self) -> list[str] | None: ...
    def predict(
        self,
        images: Images,
        *,
        limit: int | None = None,
        seed: int = 0,
        device: str = "cpu",
        precision: str = "tf32",
        threads: int = 0,
        progress: Progress | None = None,
    ) -> npt.NDArray[np.float32]: ...
    def calibrate(
        self,
        images: Images,
        labels: npt.ArrayLike | None = None,
        *,
        protocol: str = "flipcast",
        shifts: str = "family",
        advise: bool = False,
        limit: int | None = None,
        seed: int = 0,
        device: str = "cpu",
        precision: str = "tf32",
        threads: int = 0,
        progress: Progress | None = None,
    ) -> ModelCalibration: ...
    def estimate(
        self,
        images: Images,
        calibration: ModelCalibration | None = None,
        *,
        labels: npt.ArrayLike | None = None,
        level: float = 0.9,
        by_class: bool = False,
        limit: int | None = None,
        seed: int = 0,
        device: str = "cpu",
        precision: str = "tf32",
        threads: int = 0,
        progress: Progress | None = None,
    ) -> Estimates: ...

    def advise(
        self,
        images: Images,
        calibration: ModelCalibration | None = None,
        *,
        labels: npt.ArrayLike | None = None,
        order: str = "shuffled",
        trial_images: int = 2048,
        level: float = 0.9,
        limit: int | None = None,
        seed: int = 0,
        device: str = "cpu",
        precision: str = "tf32",
        threads: int = 0,
        progress: Progress | None = None,
    ) -> dict[str, Any]: ...
    @property
    def calibration(self) -> ModelCalibration | None: ...
    @calibration.setter
    def calibration(self, calibration: ModelCalibration | None) -> None: ...

@final
class Adapter:
    def __new__(
        cls,
        model: Model,
        method: str = "rdumb",
        *,
        batch_size: int = 64,
        lr: float | None = None,
        source: bool = False,
        seed: int = 0,
        device: str = "cpu",
        precision: str = "tf32",
        threads: int = 0,
    ) -> Adapter: ...
    def __call__(self, batch: npt.ArrayLike) -> npt.NDArray[np.float32]: ...
    @property
    def state(self) -> npt.NDArray[np.float32]: ...
    @state.setter
    def state(self, affine: npt.ArrayLike) -> None: ...
    def reset(self) -> None: ...
    @property
    def steps(self) -> int: ...
    @property
    def step_seconds(self) -> float: ...
    @property
    def method(self) -> str: ...

@final
class Monitor:
    def __new__(
        cls,
        calibration: Calibration | ModelCalibration,
        *,
        model: Model | None = None,
        window_images: int = 512,
        window_seconds: int = 3600,
        level: float = 0.9,
        false_alarms: float = 0.01,
        accuracy_line: float | None = None,
        seed: int = 0,
        device: str = "cpu",
        precision: str = "tf32",
        threads: int = 0,
    ) -> Monitor: ...
    def update(
        self, batch: npt.ArrayLike, *, second: npt.ArrayLike | None = None, time: float | None = None
    ) -> tuple[int, int]: ...
    def report(self) -> dict[str, Any]: ...
    @property
    def alarms(self) -> list[dict[str, Any]]: ...
    @property
    def images(self) -> int: ...
    def reset(self) -> None: ...
    def merge(self, other: Monitor) -> None: ...
    def save(self, path: Path) -> None: ...
    def load(self, path: Path) -> None: ...

def corrupt(
    name: str,
    images: npt.ArrayLike,
    severity: int = 3,
    seed: int = 0,
    *,
    first: int = 0,
    storage: str = "published",
    progress: Progress | None = None,
) -> npt.NDArray[np.uint8]: ...
def corruptions(set: str = "imagenet-c") -> list[str]: ...
def run_program(arguments: Sequence[str]) -> int: ...
def version() -> str: ...
