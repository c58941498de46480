"""NumPy type aliases for every package, codes of combinations, and bounds of probabilities.

Intervals and tests are Clopper and Pearson's (1934), Wilson's (1927) and the tail of chi-square; the incomplete
beta and gamma functions are scipy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from math import prod, sqrt
from statistics import NormalDist
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.unsignedinteger[Any]]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]
Addresses = npt.NDArray[np.uint64]
P = ParamSpec("P")
Result = TypeVar("Result")
RARELY = 1e-9
"""The probability below which a coincidence is treated as a mistake."""
Z = 1.959963984540054
"""The half-width, in standard deviations, of the interval that holds 95% of a normal distribution."""


def code_type(size: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest unsigned type that holds the codes 0..size-1."""
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32


def joined(codes: Sequence[np.ndarray], sizes: Sequence[int]) -> Codes:
    """Return the code of each combination of codes, the last one fastest."""
    kind = code_type(prod(sizes))
    found = codes[0].astype(kind, copy=len(codes) > 1)
    for more, size in zip(codes[1:], sizes[1:], strict=True):
        found *= np.array(size).astype(kind)  # one that is too large wraps to 0, as all codes before are 0
        found += more.astype(kind, copy=False)
    return found


def code_counts(codes: np.ndarray, size: int) -> np.ndarray:
    """Count each code below a size; codes of one byte are counted in pairs."""
    if codes.dtype != np.uint8 or not codes.flags.c_contiguous:
        return np.bincount(codes, minlength=size)
    even = len(codes) // 2 * 2
    pairs = np.bincount(codes[:even].view(np.uint16), minlength=size << 8).reshape(-1, 1 << 8)
    found = pairs.sum(axis=1) + pairs.sum(axis=0)[: len(pairs)]
    found[codes[even:]] += 1
    return found


def split(codes: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the codes of each combination; by quotients, as numpy's remainders are several times slower."""
    rest, found = codes, list[np.ndarray]()
    for size in reversed(sizes[1:]):
        rest, above = rest // rest.dtype.type(size), rest
        found.append(above - rest * rest.dtype.type(size))
    return [rest, *reversed(found)]


def normal_quantile(share: float) -> float:
    """Return the `share` quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(share)


def wilson(hits: float, trials: float) -> tuple[float, float]:
    """Return the 95% interval of a share (Wilson 1927); all of [0, 1] without data."""
    if trials <= 0:
        return 0.0, 1.0
    share, z2 = hits / trials, Z * Z / trials
    middle = (share + z2 / 2) / (1 + z2)
    half = Z * sqrt(max(share * (1 - share), 0.0) / trials + z2 / (4 * trials)) / (1 + z2)
    low = 0.0 if hits <= 0 else max(0.0, middle - half)
    high = 1.0 if hits >= trials else min(1.0, middle + half)
    return min(low, share), max(high, share)


def clopper_pearson(hits: int, trials: int, level: float = 0.05) -> tuple[float, float]:
    """Return the exact interval of a chance, which fails to hold it with probability `level` at most."""
    low = 0.0 if hits == 0 else float(_special().betaincinv(hits, trials - hits + 1, level / 2))
    high = 1.0 if hits == trials else float(_special().betaincinv(hits + 1, trials - hits, 1 - level / 2))
    return low, high


def binomial_at_least(hits: int, trials: int, chance: float) -> float:
    """Return the probability that a binomial count is `hits` or more."""
    if hits <= 0:
        return 1.0
    return 0.0 if hits > trials else float(_special().betainc(hits, trials - hits + 1, chance))


def binomial_p(hits: int, trials: int, chance: float) -> float:
    """Return the two-sided p-value of a count: twice the smaller tail, which errs to the safe side."""
    at_most = float(_special().betainc(trials - hits, hits + 1, 1 - chance)) if hits < trials else 1.0
    return min(1.0, 2 * min(binomial_at_least(hits, trials, chance), at_most))


def chi_square_tail(statistic: float, freedom: float) -> float:
    """Return the probability that chi-square with so many degrees of freedom exceeds the statistic."""
    return float(_special().gammaincc(freedom / 2, statistic / 2)) if statistic > 0 and freedom > 0 else 1.0


def _special() -> Any:
    """Return scipy's special functions, imported on first use: they cost every command a tenth of a second."""
    from scipy import special

    return special


def of_small_products(function: Callable[P, Result]) -> Callable[P, Result]:
    """Return the function with BLAS on one thread: in small products its threads mostly wait for each other.

    On a busy machine they made trees take several times as long. The limit is the whole process's, and only the
    call that set it lifts it again.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> Result:
        if not _LIMITED.acquire(blocking=False):
            return function(*args, **kwargs)
        try:
            with _libraries().limit(limits=1, user_api="blas"):
                return function(*args, **kwargs)
        finally:
            _LIMITED.release()

    return called


_LIMITED = Lock()


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController  # finds the libraries that are loaded: numpy's is, by now

    return ThreadpoolController()
