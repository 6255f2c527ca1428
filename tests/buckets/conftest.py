"""The data sets that figures are given for."""

from pathlib import Path

import numpy as np
import pytest

from dflashctl.buckets.histogram import Histogram

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def counted():
    """A data set's histogram by its name."""

    def read(name):
        lengths, counts = np.loadtxt(
            DATA / f"lengths_{name}.csv", dtype=np.int64, delimiter=",", skiprows=1, unpack=True
        )
        return Histogram(lengths=lengths, counts=counts)

    return read


def samples_of(histogram):
    """All lengths, in an order like a dataset's."""
    samples = np.repeat(histogram.lengths, histogram.counts)
    return samples[np.argsort(np.arange(samples.size) * 7919 % samples.size, kind="stable")]


@pytest.fixture(scope="session")
def p1(counted):
    """The lengths of 902,087 samples."""
    return samples_of(counted("P1"))


@pytest.fixture(scope="session", params=["P1", "P2", "P3"])
def any_p(request, counted):
    return samples_of(counted(request.param))
