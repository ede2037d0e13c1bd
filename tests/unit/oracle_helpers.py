"""Loading and comparing the recordings of tests/oracle."""

import pathlib

import numpy as np

ORACLE = pathlib.Path(__file__).parents[1] / "oracle"


def load(name):
    """Return the arrays of ``tests/oracle/<name>.npz`` by their full key."""
    with np.load(ORACLE / f"{name}.npz") as file:
        return {key: file[key] for key in file.files}


def group(arrays, prefix):
    """Return the arrays below ``prefix/``, with the prefix removed from the keys."""
    prefix = prefix.rstrip("/") + "/"
    found = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
    if not found:
        raise KeyError(f"Nothing is recorded below '{prefix}'.")
    return found


def children(arrays):
    """Return the first parts of the keys, without repetition, in order."""
    return list(dict.fromkeys(key.split("/")[0] for key in arrays))


def relative_error(actual, expected):
    """Return the largest difference relative to the largest expected magnitude."""
    actual = np.asarray(actual, np.float64)
    expected = np.asarray(expected, np.float64)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    if not expected.size:
        return 0.0
    return float(np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-12))


def assert_close(actual, expected, tolerance=1e-5, what=""):
    """Fail if the relative error is above the tolerance or anything is not a number."""
    assert np.isfinite(np.asarray(expected, np.float64)).all(), what
    error = relative_error(actual, expected)
    assert error <= tolerance, f"{what}: relative error {error:.3g} > {tolerance:.3g}"
