"""Fixtures of all tests: the backends; that of the GPU may be absent."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

from gpunn.backends.webgpu.device import open_device
from tests.browser import Browser, open_browser, require_chromium
from tests.faults.layer import Environment, built, environment
from tests.gpu import require_gpu
from tests.sampling import sampled

settings.register_profile("untimed", deadline=None)  # tests must not fail on a busy machine
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-cases", action="store_true", help="run all cases of tests with the mark sample(n)"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("all_cases"):
        items[:], left = sampled(items)
        config.hook.pytest_deselected(items=left)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep measurements of tests out of the user's cache folder, and those of the user out of tests."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpunn.cache.cache_folder", lambda: folder)
        yield


@pytest.fixture
def gpu() -> str:
    """Return the name of the GPU backend, for tests that need an adapter."""
    require_gpu()
    return "webgpu"


@pytest.fixture(params=("cpu", "webgpu"))
def backend(request: pytest.FixtureRequest) -> str:
    """Return each backend in turn."""
    name: str = request.param
    if name == "webgpu":
        require_gpu()
    return name


@pytest.fixture
def hardware(backend: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return each backend in turn; the adapter passes for hardware, as software leaves some ops to numpy."""
    if backend == "webgpu":
        device = open_device(None, False)
        monkeypatch.setattr(device, "properties", replace(device.properties, software=False))
    return backend


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return what gives the environment of a process with faults; its first call builds the layer."""

    @functools.cache
    def library() -> Path:
        return built(tmp_path_factory.mktemp("faults"))

    return lambda fault=None: environment(library(), fault)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Run a headless Chromium for all tests of pages; without one they are skipped."""
    require_chromium()
    with open_browser() as running:
        yield running
