"""What a process shows of TensorFlow's start, and that it starts in odd surroundings."""

import os
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from absl.testing import absltest, parameterized

import tfbdl

FIRST_USE = """
import tfbdl
import tfbdl
import tensorflow as tf
assert float(tf.reduce_sum(tf.ones([2, 2]))) == 4.0
"""
# Loads the one file, so that the imports of the package do not hide what it does.
FILE = str(Path(tfbdl.__file__).parent / "startup.py")
ALONE = f"""
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("startup", {FILE!r})
startup = importlib.util.module_from_spec(spec)
spec.loader.exec_module(startup)
"""

NOISE = """
import os, sys
print("from python", file=sys.stderr)
os.write(2, b"from native code\\n")
"""


def python(
    script: Any,
    *,
    quiet: Any = None,
    path: Any = None,
    redirect: str = "",
    level: Any = None,
    variables: Any = None,
) -> Any:
    """Runs a script as a user would, with an empty environment but for what is asked for."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TF_", "TFBDL", "PYTHON", "KERAS"))
    }
    root = str(Path(tfbdl.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join([str(path), root] if path else [root])
    environment["PYTHONWARNINGS"] = "ignore"
    if quiet is not None:
        environment["TFBDL_QUIET"] = quiet
    if level is not None:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    environment |= variables or {}
    return subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {redirect}', sys.executable, textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


class RealTensorFlowTest(absltest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        """The slow imports, two at a time."""
        super().setUpClass()
        with ThreadPoolExecutor(2) as pool:
            quiet = pool.submit(python, FIRST_USE, quiet="1")
            closed = pool.submit(python, FIRST_USE, quiet="1", redirect="2>&-")
            cls.quiet, cls.closed = quiet.result(), closed.result()

    def test_quiet(self) -> None:
        done = self.quiet
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_standard_error_closed(self) -> None:
        self.assertEqual((self.closed.returncode, self.closed.stdout), (0, ""))


class FakeTensorFlowTest(absltest.TestCase):
    """Tests with a `tensorflow` whose import does what a test needs."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))

    def run_with(self, tensorflow: Any, script: str = "import tfbdl", **kwargs: Any) -> Any:
        (self.folder / "tensorflow.py").write_text(textwrap.dedent(tensorflow))
        return python(script, quiet=kwargs.pop("quiet", "1"), path=self.folder, **kwargs)

    def test_a_failing_import_shows_what_it_said(self) -> None:
        done = self.run_with(NOISE + "raise ImportError('no libcudart')")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        for text in ("from python", "from native code", "ImportError: no libcudart"):
            self.assertEqual(done.stderr.count(text), 1, done.stderr)

    def test_an_exit_during_the_import_shows_what_was_said(self) -> None:
        done = self.run_with(NOISE + "sys.exit('gave up')")
        self.assertEqual(done.returncode, 1)
        for text in ("from python", "from native code", "gave up"):
            self.assertEqual(done.stderr.count(text), 1, done.stderr)

    def test_a_long_complaint_is_shown_as_a_whole(self) -> None:
        done = self.run_with(
            """
            import os
            for i in range(20000):
                os.write(2, b"complaint %d\\n" % i)
            raise ImportError("no")
            """
        )
        self.assertEqual(done.stderr.count("complaint"), 20000)

    def test_messages_are_left_alone_unless_asked_for(self) -> None:
        for quiet in (None, "0"):
            done = self.run_with(NOISE + "raise SystemExit(0)", quiet=quiet)
            self.assertEqual(done.stderr, "from python\nfrom native code\n")

    def test_what_comes_after_the_import_is_shown(self) -> None:
        done = self.run_with(
            NOISE,
            ALONE + "startup.import_tensorflow()\n"
            "print('after', file=sys.stderr); os.write(2, b'after as well\\n')",
        )
        self.assertEqual(done.stderr, "after\nafter as well\n")
        self.assertEqual(done.returncode, 0)

    def test_what_came_before_is_kept_in_order(self) -> None:
        done = self.run_with(
            NOISE,
            ALONE + "sys.stderr.write('before '); startup.import_tensorflow()\n"
            "sys.stderr.write('after')",
        )
        self.assertEqual(done.stderr.split(), ["before", "after"])

    def test_no_descriptor_is_lost(self) -> None:
        done = self.run_with(
            "",
            ALONE + "before = os.listdir('/proc/self/fd'); startup.import_tensorflow()\n"
            "print(before == os.listdir('/proc/self/fd'))",
        )
        self.assertEqual(done.stdout, "True\n")

    def test_standard_error_closed(self) -> None:
        done = self.run_with(
            "import os\nos.environ['IMPORTED'] = '1'",
            ALONE + "startup.import_tensorflow(); print('tensorflow' in sys.modules or 'later')",
            redirect="2>&-",
        )
        self.assertEqual(done.returncode, 0)
        self.assertIn(done.stdout, ("True\n", "later\n"))

    def test_no_standard_error_object(self) -> None:
        """A process without a console: descriptor 2 is open, `sys.stderr` is None."""
        done = self.run_with(
            NOISE.replace("print", "sys.stderr and print"),
            ALONE + "sys.stderr = None; startup.import_tensorflow(); print('fine')",
        )
        self.assertEqual((done.returncode, done.stdout), (0, "fine\n"))

    def test_log_level(self) -> None:
        """The user's own level is respected, and none is set in a process that asks for nothing."""
        level = "import os\nprint(os.environ.get('TF_CPP_MIN_LOG_LEVEL'))\nraise SystemExit(0)"
        self.assertEqual(self.run_with(level).stdout, "3\n")
        self.assertEqual(self.run_with(level, level="0").stdout, "0\n")
        self.assertEqual(self.run_with(level, quiet="0").stdout, "None\n")


class ImportsTest(absltest.TestCase):
    def test_what_takes_long_is_imported_where_it_is_used(self) -> None:
        done = python(
            "import sys, tensorflow, keras; before = {*sys.modules}\n"
            "import tfbdl; new = {name.split('.')[0] for name in {*sys.modules} - before}\n"
            "late = {'matplotlib', 'sklearn', 'tensorflow_probability', 'tf_keras'}\n"
            "print(*sorted(new & late))\n"
            "print(tfbdl.likelihoods.Poisson().distribution(tensorflow.zeros(1)).mean().numpy())"
        )
        self.assertEqual(done.stdout, "\n[1.]\n", done.stderr)

    def test_tensorflow_probability_is_first_used_in_a_function(self) -> None:
        """It is loaded outside of what is traced, and serves the next function too."""
        done = python(
            "import tensorflow as tf\nimport tfbdl\n"
            "def f(x): return tfbdl.likelihoods.StudentT(4.0, 1.0).log_prob(x, x)\n"
            "x = tf.zeros(1)\n"
            "compiled = [tf.function(f, jit_compile=jit)(x).numpy() for jit in (True, False)]\n"
            "print(*(abs(value - f(x).numpy()) < 1e-6 for value in compiled))"
        )
        self.assertEqual(done.stdout, "[ True] [ True]\n", done.stderr)


class OtherKerasTest(parameterized.TestCase):
    """Another Keras than the package is made for: one line says so, at the import."""

    def refuse(self, message: str, script: str = "import tfbdl", **kwargs: Any) -> None:
        done = python(
            f"""
            try:
                {script}
            except ImportError as error:
                print(error)
            """,
            **kwargs,
        )
        self.assertRegex(done.stdout, f"^{message}\n$", done.stderr)

    @parameterized.parameters("jax", "numpy", "openvino", "torch")
    def test_backend_of_the_environment(self, backend: Any) -> None:
        """Installed or not."""
        self.refuse(
            f"Keras is set to the backend {backend}, and tfbdl needs TensorFlow's; "
            "set KERAS_BACKEND=tensorflow before Keras is imported",
            variables={"KERAS_BACKEND": backend},
        )

    @parameterized.parameters("jax", "numpy")
    def test_backend_of_the_config(self, backend: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "keras.json").write_text(f'{{"backend": "{backend}"}}')
            message = f"Keras is set to the backend {backend}, .* before Keras is imported"
            self.refuse(message, variables={"KERAS_HOME": folder})

    def test_unknown_backend(self) -> None:
        self.refuse("Keras is set to the backend theano, .*", variables={"KERAS_BACKEND": "theano"})

    @parameterized.parameters("1", "True", "true")
    def test_legacy_keras(self, value: Any) -> None:
        message = f"TF_USE_LEGACY_KERAS={value} makes tf.keras Keras 2, .*; unset it, .*"
        self.refuse(message, variables={"TF_USE_LEGACY_KERAS": value})

    def test_keras_2(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "keras.py").write_text("__version__ = '2.15.0'\n")
            message = r"keras 2.15.0 is installed, .* needs Keras 3; pip install keras>=3"
            self.refuse(message, path=folder)

    def test_the_command_says_it_in_one_line(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.keras")
            with zipfile.ZipFile(path, "w") as file:
                file.writestr("config.json", "{}")
            done = python(
                "import sys; sys.argv = ['tfbdl']; from tfbdl.cli import main\n"
                f"sys.exit(main(['summary', {path!r}]))",
                variables={"KERAS_BACKEND": "jax"},
            )
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(
            done.stderr, "^tfbdl: error: Keras is set to the backend jax, .*imported\n$"
        )

    def test_what_is_no_other_keras(self) -> None:
        done = python(
            "import tfbdl; print(tfbdl.__version__)",
            variables={"KERAS_BACKEND": "tensorflow", "TF_USE_LEGACY_KERAS": "0"},
        )
        self.assertEqual(done.stdout, f"{tfbdl.__version__}\n", done.stderr)


class NamesTest(absltest.TestCase):
    def test_program_with_arguments_that_look_like_the_command(self) -> None:
        """`import tfbdl` gives the package unless the process is the command itself."""
        for arguments in (["prog", "-m", "tfbdl"], ["tfbdl.py"], ["my_tfbdl"], [""], []):
            with self.subTest(arguments=arguments):
                done = python(ALONE + f"sys.argv = {arguments!r}; print(startup.is_command())")
                self.assertEqual(done.stdout, "False\n", done.stderr)


if __name__ == "__main__":
    absltest.main()
