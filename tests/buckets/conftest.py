"""The data sets that figures are given for."""

from pathlib import Path

import numpy as np
import pytest

from dflashctl.buckets.histogram import Histogram

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def p1():
    """The lengths of 902,087 samples, in an order like a dataset's."""
    lengths, counts = np.loadtxt(
        DATA / "lengths_P1.csv", dtype=np.int64, delimiter=",", skiprows=1, unpack=True
    )
    samples = np.repeat(lengths, counts)
    return samples[np.argsort(np.arange(samples.size) * 7919 % samples.size, kind="stable")]


@pytest.fixture(scope="session")
def counted():
    """A data set's histogram by its name."""

    def read(name):
        lengths, counts = np.loadtxt(
            DATA / f"lengths_{name}.csv", dtype=np.int64, delimiter=",", skiprows=1, unpack=True
        )
        return Histogram(lengths=lengths, counts=counts)

    return read
