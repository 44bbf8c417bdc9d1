"""What Laplace refuses, in one line: models, data, arguments, posteriors that do not fit."""

from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from brute_force import X, case, fitted, network

import tfbdl
from tfbdl import layers, likelihoods, memory
from tfbdl.inference import Laplace
from tfbdl.inference.laplace.blocks.full import FullBlock

Y = np.random.default_rng(7).normal(size=(len(X), 1))
UNIT = likelihoods.Normal(1.0)


def of_layers(*stack: Any) -> keras.Model:
    return keras.Sequential([keras.Input((3,)), *stack])


def quantized(mode: str, **arguments: Any) -> keras.Model:
    head = keras.layers.Dense(1, name="head", **arguments)
    model = of_layers(keras.layers.Dense(4, name="body"), head)
    head.quantize(mode)
    return model


class Dropping(keras.layers.Layer):
    """Drops units whether it trains or not."""

    rate = 0.5

    def call(self, x: Any) -> Any:
        return tf.nn.dropout(x, self.rate)


class RefusalTest(tf.test.TestCase, parameterized.TestCase):
    def refuses(self, message: str, function: Any, *arguments: Any, **named: Any) -> None:
        with self.assertRaisesRegex(ValueError, f"^{message}") as caught:
            function(*arguments, **named)
        self.assertNotIn("\n", str(caught.exception))

    def test_models(self) -> None:
        dense = keras.layers.Dense
        unbuilt = keras.Sequential([dense(1)], name="fresh")
        self.refuses("model='fresh' is not built; call it", Laplace, unbuilt, UNIT)
        bayes = of_layers(layers.BayesDense(2, num_data=9, name="drawn"), dense(1))
        message = r".* has the random layer 'drawn' \(BayesDense\)"
        self.refuses(message, Laplace, bayes, UNIT)
        dropping = of_layers(dense(2), Dropping(name="drops"), dense(1))
        message = ".*random in inference mode in the layer 'drops'; call"
        self.refuses(message, fitted, dropping, UNIT, Y)
        frozen = network()
        frozen.trainable = False
        self.refuses(".*has no trainable weights", Laplace, frozen, UNIT)

    @parameterized.product(pred_type=("glm", "nn"), subset=("all", "last_layer"))
    def test_inputs_of_another_width(self, pred_type: str, subset: str) -> None:
        model = of_layers(keras.layers.Dense(2), keras.layers.Dense(1))
        settings = {"pred_type": pred_type, "subset_of_weights": subset}
        laplace = fitted(model, UNIT, Y, **settings)
        message = rf"x has examples of shape \(2,\), which model={model.name} does not take: .*3"
        self.refuses(message, tfbdl.predict, laplace, X[:, :2])

    def test_quantized_layers(self) -> None:
        """Meant as a whole they would be taken without their kernels; their biases train."""
        model = quantized("int8")
        message = r"subset_of_weights means the layer 'head', whose kernel is quantized and has no"
        for subset in ("last_layer", ["head"], ["body", "head"]):
            self.refuses(message, fitted, model, UNIT, Y, subset_of_weights=subset, dtype="float32")
        for subset in (["body"], ["head/bias"], "all"):
            paths = fitted(model, UNIT, Y, subset_of_weights=subset, dtype="float32").paths
            known = {"all": ["body/kernel", "body/bias", "head/bias"]}
            expected = known.get(str(subset), [p for p in known["all"] if p.startswith(subset[0])])
            self.assertEqual(paths, expected)
        self.refuses(
            r"model=.* has the layer 'head' quantized to float8, whose scales are no weights; ",
            Laplace,
            quantized("float8"),
            UNIT,
        )
        adapted = of_layers(keras.layers.Dense(4, name="body"), keras.layers.Dense(1, name="head"))
        adapted.get_layer("head").enable_lora(1)
        adapted.get_layer("head").quantize("int8")
        last = fitted(adapted, UNIT, Y, subset_of_weights="last_layer", dtype="float32")
        names = [path.split("/")[-1] for path in last.paths]
        self.assertEqual(names, ["bias", "lora_kernel_a", "lora_kernel_b"])

    def test_quantized_layers_without_a_bias(self) -> None:
        """They have nothing to train, and are the last all the same."""
        message = r"subset_of_weights means the layer 'head', whose kernel is quantized and has no"
        for mode in ("int8", "int4"):
            model = quantized(mode, use_bias=False)
            options = {"subset_of_weights": "last_layer", "dtype": "float32"}
            self.refuses(message, fitted, model, UNIT, Y, **options)
            x = keras.Input((3,))
            h = model.get_layer("body")(x)
            two = keras.Model(x, [model.get_layer("head")(h), h])
            self.refuses(message, Laplace, two, likelihoods.Joint([UNIT, UNIT]))

    def test_likelihoods_without_curvature(self) -> None:
        """Alone, as the model's own loss, and as one of several outputs."""
        message = r"likelihood=Quantiles\(.* is no density, and has no curvature for Laplace; take"
        quantiles = likelihoods.Quantiles((0.1, 0.9))
        self.refuses(message, Laplace, network(outputs=2), quantiles)
        compiled = network(outputs=2)
        compiled.compile("sgd", quantiles)
        self.refuses(message, Laplace, compiled)
        x = keras.Input((3,))
        heads = keras.Model(x, [keras.layers.Dense(2)(x), keras.layers.Dense(1)(x)])
        self.refuses(message, Laplace, heads, likelihoods.Joint([quantiles, UNIT]))

    def test_arguments(self) -> None:
        for message, arguments in (
            (
                "likelihood='gauss' is unknown; choose an object of tfbdl.likelihoods",
                {"likelihood": "gauss"},
            ),
            ("likelihood=None: the loss of model=.* is no likelihood", {"likelihood": None}),
            ("hessian_structure='block' is unknown", {"hessian_structure": "block"}),
            ("curvature='kfac' is unknown", {"curvature": "kfac"}),
            ("curvature='hessian' is for hessian_structure='full'", {"curvature": "hessian"}),
            ("prior_precision=0.0 must be positive", {"prior_precision": 0.0}),
            (r"prior_precision has shape \(3,\); give a number", {"prior_precision": [1.0] * 3}),
            (r"prior_precision has shape \(15,\)", {"prior_precision": np.ones(15)}),
            ("temperature=0 must be a positive number", {"temperature": 0}),
            ("rank=0 must be a positive integer", {"rank": 0}),
            ("sigma_noise=-1.0 must be a positive", {"sigma_noise": -1.0, "likelihood": None}),
            (
                "sigma_noise=1.0 is for regression",
                {"sigma_noise": 1.0, "likelihood": likelihoods.Categorical()},
            ),
            (
                "sigma_noise=2.0 is given beside likelihood=.*, which has a scale of its own",
                {"sigma_noise": 2.0},
            ),
            ("rank=3 is for hessian_structure='lowrank'", {"rank": 3}),
            ("jit_compile='no' must be True or False", {"jit_compile": "no"}),
            ("dtype='float16' is unknown", {"dtype": "float16"}),
            ("prior_precision=inf must be positive", {"prior_precision": np.inf}),
            (
                "subset_of_weights='first' must be 'all', 'last_layer', 'lora', or a list",
                {"subset_of_weights": "first"},
            ),
            (
                r"subset_of_weights names 'nose'; the weights are .*last/kernel",
                {"subset_of_weights": ["last", "nose"]},
            ),
        ):
            model = network()
            if "sigma_noise" in arguments:
                model.compile(loss=UNIT)
            self.refuses(message, Laplace, model, **{"likelihood": UNIT, **arguments})

    def test_data(self) -> None:
        laplace = Laplace(network(outputs=1), UNIT, jit_compile=False)
        for message, *data in (
            ("y=None: give targets", X),
            ("y has 2 examples and x has 11", X, Y[:2]),
            ("x is not finite in example 0", np.nan * X, Y),
            ("y is not finite in example 0", X, np.inf * Y),
            (r"x has shape \(0, 3\); give at least one", X[:0], Y[:0]),
            ("y is given, but x is a tf.data.Dataset", tf.data.Dataset.from_tensors((X, Y)), Y),
            (r"y has shape \(11, 2\); these outputs describe", X, np.ones((11, 2))),
        ):
            self.refuses(message, laplace.fit, *data)
        likelihood, model, _ = case("categorical")
        labels = np.where(np.arange(11) == 7, 5, 0)
        laplace = Laplace(model, likelihood)
        self.refuses("y has the label 5", laplace.fit, X, labels)
        batches = tf.data.Dataset.from_tensor_slices((X, labels)).batch(4)
        self.refuses("y has the label 5", laplace.fit, batches)

    def test_another_last_layer(self) -> None:
        """The last to be made need not be the last to be called."""
        inputs = keras.Input((3,))
        late, early = keras.layers.Dense(1, name="late"), keras.layers.Dense(3, name="early")

        class Crossed(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.late, self.early = late, early

            def call(self, x: Any) -> Any:
                return self.late(self.early(x))

        model = Crossed()
        model(inputs)
        laplace = Laplace(model, UNIT, jit_compile=False)
        message = ".* would take 'early', but the last to be called is 'late'; name the layer"
        self.refuses(message, laplace.fit, X, Y)
        named = Laplace(model, UNIT, subset_of_weights=["late"], jit_compile=False).fit(X, Y)
        self.assertLen(named.paths, 2)

    def test_a_last_layer_that_another_holds(self) -> None:
        """As in OPT, whose embeddings hold the table that its outputs are products with."""

        class Holding(keras.layers.Layer):
            def __init__(self, held: keras.layers.Layer) -> None:
                super().__init__()
                self.held = held

            def call(self, x: Any) -> Any:
                return self.held(x)

        inputs, late = keras.Input((3,)), keras.layers.Dense(3, name="late")
        body = keras.Model(inputs, late(Holding(late)(inputs)))
        early = keras.layers.Dense(3, name="early")(body(inputs))
        laplace = Laplace(keras.Model(inputs, late(early)), UNIT, jit_compile=False)
        message = ".* would take 'early', but the last to be called is 'late'; name the layer"
        self.refuses(message, laplace.fit, X, np.ones((11, 3)))

    def test_no_mode(self) -> None:
        """An exact Hessian that is not positive definite, with its smallest eigenvalue."""
        likelihood, model, y = case("heteroscedastic")
        laplace = fitted(model, likelihood, y, curvature="hessian", prior_precision=1e-3)
        message = "the posterior's precision has the eigenvalue -.*: the weights are at no mode"
        for call in (laplace.sample, laplace.log_marginal_likelihood):
            self.refuses(message, call)
        laplace.prior_precision = 1e6
        self.assertAllEqual(np.isfinite(laplace.sample(3)), np.ones((3, laplace.sample(1).size)))

    def test_rounding_is_no_negative_eigenvalue(self) -> None:
        """H of a sum over examples, in directions without data: -1.6e-15 of the largest one.

        A search for the noise may pass c = e^50.
        """
        q = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
        eigenvalues = np.array([-5e-13, 0.56, 7.9, 98.0, 330.0])
        block = FullBlock([5])
        block.finish((tf.constant(q * eigenvalues @ q.T),))
        delta = tf.ones(5, tf.float64)
        for c in (1.0, np.exp(25), np.exp(50)):
            seen = np.sum(np.log1p(c * eigenvalues[1:]))
            hidden = block.log_det(delta, tf.constant(c, tf.float64)) - seen
            self.assertLess(abs(hidden), 1e-9 + np.log1p(c * 330 * 2e-12))
        block.finish((tf.constant(q * (eigenvalues - 1e-9) @ q.T),))
        with self.assertRaisesRegex(ValueError, "eigenvalue -"):
            block.log_det(delta, tf.constant(np.exp(50), tf.float64))

    def test_memory(self) -> None:
        """The figure comes before anything is computed."""
        wide = of_layers(keras.layers.Dense(20_000), keras.layers.Dense(10))
        model = network(outputs=1)
        with mock.patch.object(memory, "_free", return_value=10**9):
            message = (
                "hessian_structure='full' over 280,010 weights needs 1.25 TB of memory, and 1 GB "
                "is free; use 'kron'"
            )
            everything = {"subset_of_weights": "all"}
            full = {"hessian_structure": "full", **everything}
            self.refuses(message, Laplace, wide, UNIT, **full)
            kron = Laplace(wide, UNIT, jit_compile=False, **everything)
            message = "the posterior of 280,010 weights needs .* GB of memory"
            self.refuses(message, kron.fit, np.ones((2, 3)), np.ones((2, 10)))
            laplace = fitted(model, UNIT, Y)
            self.refuses("num_samples=10000000 needs 3.36 GB", laplace.sample, 10_000_000)


if __name__ == "__main__":
    tf.test.main()
