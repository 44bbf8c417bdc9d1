"""How processes that run tests are set up: devices, garbage collection, warnings, XLA."""

import gc
import os
import resource
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from durations import SLOW
from shares import SHARES, commit, share_of

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # also where it is set: tests look at what is on screens
# Without it some processors convolve no images whose channels are first.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Tests are many small graphs in two processes: more threads only wait for each other.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

# Graphs are many objects that stay, and looking through them all takes much of the time.
gc.set_threshold(20_000, 20, 50)

THIRD_PARTY = (
    # TensorFlow Probability's layers, which a page sets beside ours, use Keras 2 in the old way.
    "ignore:`layer.add_variable` is deprecated:UserWarning",
    "ignore:The initializer RandomNormal is unseeded:UserWarning",
    # TensorFlow Probability compares TensorFlow's version in the old way.
    "ignore:distutils Version classes are deprecated:DeprecationWarning",
    # Keras' own layer test trains on a generator, and layers without weights.
    "ignore:`shuffle=True` was passed, but will be ignored:UserWarning",
    "ignore:The model does not have any trainable weights:UserWarning",
)


def pytest_configure(config: pytest.Config) -> None:
    for line in THIRD_PARTY:
        config.addinivalue_line("filterwarnings", line)
    only_hands_out = (
        not hasattr(config, "workerinput") and getattr(config.option, "dist", "no") != "no"
    )
    if not only_hands_out:
        two_devices()


def two_devices() -> None:
    """Two logical CPU devices for the whole session, so that `MirroredStrategy` has two replicas.

    They must be configured before TensorFlow starts; nothing is placed on the second otherwise.
    """
    import tensorflow as tf  # noqa: PLC0415 (seconds, in a process that runs no tests)

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )


def pytest_collection_finish() -> None:
    """Half a million objects of libraries stay to the end: no collection looks through them."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Python, NumPy and TensorFlow draw alike in a test, whichever tests ran before it.

    What a class sets up for its tests too: it does so within the setup of the first.
    """
    import keras  # noqa: PLC0415 (seconds, in a process that runs no tests)

    keras.utils.set_random_seed(0)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Graphs lie in cycles: those of a file are freed at its end, or memory would not suffice.

    What is left then is kept by libraries: no later collection looks through it, of which an export
    to ONNX asks for dozens. Graphs of Keras' `fit` TensorFlow would keep for their gradients.
    """
    if nextitem is None or nextitem.path != item.path:
        if private := sys.modules.get("tfbdl.tensorflow_private"):
            private.let_gradients_die(older=set())
        gc.collect()
        gc.freeze()


COLLECTED, LISTED = pytest.StashKey[set[str]](), pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow",
        choices=("all", "none", "share", "only"),
        default="all",
        help="which of the tests that tests/slow.txt lists to run; 'share': one in "
        f"{SHARES}, others with each commit; 'only' leaves out all other tests",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests by `--slow`, and a context manager of `tf.test.TestCase` called as one.

    A test that the command line names runs, however slow.
    """
    config.stash[COLLECTED] = {item.nodeid for item in items}
    config.stash[LISTED] = {*SLOW.read_text().splitlines()}
    slow = config.stash[LISTED] - {*config.args}
    quick = config.stash[COLLECTED] - slow
    wanted = {
        "all": quick | slow,
        "none": quick,
        "share": quick | share_of(slow, commit()),
        "only": slow,
    }[config.getoption("slow")]

    def is_wanted(item: pytest.Item) -> bool:
        return item.name != "test_session" and item.nodeid in wanted

    out = [item for item in items if not is_wanted(item)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if is_wanted(item)]


@pytest.fixture
def collected(request: pytest.FixtureRequest) -> set[str]:
    """All tests of the files that this session has collected whole, those left out by `--slow` too.

    A file is not whole where the command line names single tests of it; one without tests has none.
    """
    in_part = {test.partition("::")[0] for test in request.config.args if "::" in test}
    ids = request.config.stash[COLLECTED]
    return {test for test in ids if test.partition("::")[0] not in in_part}


@pytest.fixture(autouse=True)
def processor_seconds(record_property: Any) -> Iterator[None]:
    """Notes in the report what a test has computed, its processes too: `durations` reads it."""
    begun = used()
    yield
    record_property("processor", round(used() - begun, 2))


def used() -> float:
    """Seconds of processors that this process and those that it started have used."""
    of = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in of)


@pytest.fixture(autouse=True)
def graphs_unless_asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA compiles what asks for it by `jit_compile=True`; its defaults, in tests marked `xla`.

    Compiling takes most of the time of a small test. `tests/test_under_xla.py` holds each family
    compiled against itself not compiled.
    """
    if request.node.get_closest_marker("xla"):
        return
    from tfbdl import graphs, posteriors  # noqa: PLC0415 (starts Keras)

    init = graphs.Compiled.__init__

    def plain(self: Any, function: Any, jit_compile: bool | None = None, **kwargs: Any) -> None:
        init(self, function, bool(jit_compile), **kwargs)

    monkeypatch.setattr(graphs.Compiled, "__init__", plain)
    monkeypatch.setattr(
        posteriors.MeanFieldNormal,
        "fused_sample_and_kl",
        posteriors.MeanFieldNormal.sample_and_kl,
    )


@pytest.fixture(autouse=True)
def graphs_as_written(request: pytest.FixtureRequest) -> None:
    """TensorFlow rewrites graphs in tests that are slow, or marked `xla`, alone.

    Rewriting takes an eighth of the time of small tests, and every graph is run about once.
    """
    import tensorflow as tf  # noqa: PLC0415 (seconds, in a process that runs no tests)

    node, config = request.node, request.config
    only_some_are_slow = config.getoption("slow") in ("none", "share")
    is_small = only_some_are_slow and node.nodeid not in config.stash[LISTED]
    is_wanted = node.get_closest_marker("xla") or not is_small
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not is_wanted})


@pytest.fixture
def without_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts whose parts are compiled in other tests take half of the time."""
    import tensorflow as tf  # noqa: PLC0415

    function = tf.function

    def plain(*args: Any, jit_compile: object = None, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    monkeypatch.setattr(tf, "function", plain)
