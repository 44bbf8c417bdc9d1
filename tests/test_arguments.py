"""No public argument is ignored: each is heard, or refused in one line that names it."""

import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized
from soak.calls import BASES, all_cases
from soak.calls.case import Wrong, made, parameters, seen

import tfbdl
from tfbdl import arguments, cli

CASES = {case.name: case for case in all_cases()}
HEARD = [name for name in CASES if not re.search("BayesConv[13]D", name)]
"""All but layers that have the constructor of others."""
MODULES = [tfbdl, *(m for m in map(tfbdl.__dict__.get, tfbdl.__all__) if inspect.ismodule(m))]
RECORDS = (
    tfbdl.Prediction,
    tfbdl.TrainLog,
    tfbdl.acquire.Batch,
    tfbdl.checking.PredictiveCheck,
    tfbdl.conformal.Intervals,
    tfbdl.data.CIFAR10,
    tfbdl.data.CO2,
    tfbdl.data.ImageData,
    tfbdl.data.RegressionData,
    tfbdl.metrics.BrierComponents,
    tfbdl.metrics.DirichletMap,
    tfbdl.metrics.IsotonicMap,
    tfbdl.metrics.Reliability,
    tfbdl.metrics.RiskCoverage,
    tfbdl.metrics.VectorScaling,
)
"""What functions give back, and nobody makes."""

WITH_METHODS = ("tfbdl.inference", "tfbdl.models", "tfbdl.predictive")
NOT_FOR_USERS = re.compile(
    "_.*|on_.*|build.*|call|check.*|compute_.*|from_config|get_.*|set_.*|for_priors|for_warmup|on|encode|decode|assign|init"
    "|step|target|num_leapfrog_steps|first_step_size|restore|take|.*_own_variables|functions|predictive|of_alike"
)
"""Methods that Keras or the package calls, or that only pass on what is checked elsewhere."""


def public() -> Any:
    """All public classes and functions, by their names."""
    actual = {}
    for module in MODULES:
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if callable(thing):
                actual[f"{module.__name__}.{name}"] = thing
    return {
        name: thing
        for name, thing in actual.items()
        if thing not in RECORDS
        and thing not in BASES
        and not (isinstance(thing, type) and issubclass(thing, BaseException))
    }


def result(case: Any, **changed: Any) -> Any:
    """What is to be seen of a call."""
    keras.backend.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
    return seen(case.run(**{**case.good(), **changed}))


class TableTest(absltest.TestCase):
    """The table of calls is complete, so that the other tests leave nothing out."""

    def test_every_public_callable_is_called(self) -> None:
        called = {case.target for case in CASES.values()}
        self.assertEmpty([name for name, thing in public().items() if thing not in called])

    def test_every_method_for_users_is_called(self) -> None:
        called = {case.target.__qualname__ for case in CASES.values()}
        actual = set()
        for kind in (tfbdl.Prediction, *public().values()):
            if isinstance(kind, type) and kind.__module__.startswith(WITH_METHODS):
                methods = {n: getattr(m, "__func__", m) for n, m in vars(kind).items()}
                actual |= {
                    method.__qualname__
                    for name, method in methods.items()
                    if inspect.isfunction(method)
                    and not NOT_FOR_USERS.fullmatch(name)
                    and len(inspect.signature(method).parameters) > 1
                }
        self.assertGreater(len(actual), 25)
        self.assertEmpty(actual - called)

    def test_every_argument_is_given(self) -> None:
        for case in CASES.values():
            given = {n for c in CASES.values() if c.target == case.target for n in c.arguments}
            with self.subTest(case.name):
                if case.target is not cli.main:
                    self.assertEmpty(parameters(case.target).keys() - given)

    def test_bases_cannot_be_used_themselves(self) -> None:
        for base in BASES:
            with self.assertRaisesRegex(
                TypeError, f"^Can't instantiate abstract class {base.__name__}"
            ):
                base()


class HeardTest(parameterized.TestCase):
    def setUp(self) -> None:
        """Functions run as Python: compiling them anew for each argument is most of the time."""
        super().setUp()
        tf.config.run_functions_eagerly(True)
        self.addCleanup(tf.config.run_functions_eagerly, False)
        self.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "Even though the `tf.config.*run_functions_eagerly`")

    def assert_refused(self, case: Any, error: Any, name: str) -> None:
        message = str(error)
        self.assertNotIn("\n", message)
        names = [re.escape(name), *case.called.values()]
        self.assertTrue(any(re.search(rf"\b{n}\b", message) for n in names), message)

    @parameterized.named_parameters(*((name, name) for name in HEARD))
    def test_another_value_is_seen_or_refused(self, name: str) -> None:
        case = CASES[name]
        before = result(case)
        self.assertEqual(before, result(case), "a call must give the same twice")
        for argument, (_, other) in case.arguments.items():
            with self.subTest(argument):
                wrong = isinstance(other, Wrong)
                try:
                    after = result(case, **{argument: other.value if wrong else made(other)})
                except (ValueError, TypeError, OSError) as error:
                    self.assert_refused(case, error, argument)
                else:
                    self.assertFalse(wrong, f"{argument}={other} is taken")
                    self.assertNotEqual(after, before, f"{argument} is ignored")

    @parameterized.named_parameters(*((name, name) for name in HEARD))
    def test_truth_values_are_true_or_false(self, name: str) -> None:
        case = CASES[name]
        flags = [n for n, p in parameters(case.target).items() if "bool" in str(p.annotation)]
        flags += [n for n, (good, _) in case.arguments.items() if isinstance(good, bool)]
        for flag in dict.fromkeys(flags):
            good = case.arguments[flag][0]
            for wrong in ("yes", 1, 0, 1.0, list[bool](), np.array([True])):
                with self.subTest(flag, wrong=wrong):
                    with self.assertRaises((ValueError, TypeError)) as caught:
                        case.run(**{**case.good(), flag: wrong})
                    self.assert_refused(case, caught.exception, flag)
            if good is not None:
                case.run(**{**case.good(), flag: np.bool_(good)})


class CheckTest(parameterized.TestCase):
    @parameterized.parameters(0, -1, 2**63, 2**64 - 1, -(2**63), np.int32(5), np.uint64(2**64 - 1))
    def test_seeds(self, seed: int) -> None:
        self.assertEqual(arguments.seed("seed", seed), int(seed))
        self.assertEqual(
            arguments.generator("seed", seed).integers(100),
            np.random.default_rng(int(seed) % 2**64).integers(100),
        )

    @parameterized.parameters(2**64, -(2**63) - 1, 10**30, 1.0, "abc", None, True, np.nan, ([1],))
    def test_what_is_no_seed(self, seed: int) -> None:
        with self.assertRaisesRegex(ValueError, "^seed=.* must be an integer of 64 bits$"):
            arguments.seed("seed", seed)

    @parameterized.parameters("a\n", "\nb", "a\r\nb", Path("a\nb"), b"a\n".decode())
    def test_paths_in_several_lines(self, path: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^path=.* has a line break; ") as caught:
            tfbdl.read_log(path)
        self.assertNotIn("\n", str(caught.exception))

    @parameterized.parameters(1e-15, 1e15, 1, np.float32(0.5))
    def test_positive_numbers(self, value: Any) -> None:
        self.assertEqual(arguments.positive("a", value), float(value))
        self.assertGreater(np.float32(value) ** 2, 0)
        self.assertLess(np.float32(value) ** 2, np.inf)

    @parameterized.parameters(1e300, 1e-300, 1e16, 1e-16, 5e-324, 10**20, 10**400, 0, np.nan, True)
    def test_what_float32_cannot_square(self, value: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^a=.* must be ") as caught:
            arguments.positive("a", value)
        self.assertNotIn("\n", str(caught.exception))

    def test_values_are_shown_in_one_short_line(self) -> None:
        class Hostile:
            def __repr__(self) -> str:
                raise RuntimeError("two\nlines")

        for value in (np.eye(100), "a\nb" * 1000, 10**5000, Hostile(), {"a": np.eye(9)}, [0] * 999):
            text = arguments.shown(value)
            self.assertNotIn("\n", text)
            self.assertLess(len(text), 200)


if __name__ == "__main__":
    absltest.main()
