"""Every layer x prior x posterior x estimator comes back from a file as it was, in safe mode."""

import copy
import json
import pickle
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import layers, posteriors, priors
from tfbdl.draws import DrawnModel, make_draw

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 4)).astype("float32")
Y = RNG.normal(size=(6, 2)).astype("float32")
ESTIMATORS = ("reparameterization", "local_reparameterization", "flipout")
FAMILIES = (
    ("mean_field", "normal"),
    ("mean_field", "flat"),
    ("mean_field", "log_uniform"),
    ("multiplicative", "log_uniform"),
    ("point", "normal"),
    ("point", "flat"),
)


def dense(**kwargs: Any) -> Any:
    return layers.BayesDense(3, "tanh", num_data=10, **kwargs)


LAYERS = {
    "bayes_dense": dense,
    "bayes_dense_objects": lambda: dense(
        prior=priors.Normal(2.0),
        bias_prior=0.5,
        posterior=posteriors.MeanFieldNormal(keras.initializers.RandomUniform(-5, -4, seed=2)),
        bias_posterior="point",
        estimator="flipout",
        kernel_initializer=keras.initializers.HeNormal(seed=1),
        seed=5,
        name="mine",
    ),
    "no_bias": lambda: dense(use_bias=False, estimator="local_reparameterization"),
    "regularized": lambda: dense(activity_regularizer=keras.regularizers.L2(0.1)),
    "half": lambda: dense(dtype="mixed_bfloat16"),
    "frozen": lambda: dense(trainable=False),
    "per_example": lambda: dense(estimator="per_example"),
    "conv_1d": lambda: layers.BayesConv1D(3, 2, padding="causal", num_data=10),
    "conv_2d": lambda: layers.BayesConv2D(
        4,
        (1, 2),
        strides=(2, 1),
        padding="same",
        data_format="channels_first",
        groups=2,
        activation="tanh",
        num_data=10,
        prior=priors.Normal(0.5, trainable=True),
        bias_prior="laplace",
        estimator="flipout",
        kernel_initializer=keras.initializers.HeNormal(seed=1),
        seed=5,
        name="mine",
    ),
    "conv_3d": lambda: layers.BayesConv3D(3, 1, estimator="flipout", num_data=10),
    "conv_2d_transpose": lambda: layers.BayesConv2DTranspose(
        2, 3, strides=2, padding="same", output_padding=1, num_data=10
    ),
    "lstm": lambda: layers.BayesLSTM(
        3, dropout=0.2, recurrent_dropout=0.3, return_sequences=True, num_data=10
    ),
    "gru": lambda: layers.BayesGRU(
        3,
        "relu",
        go_backwards=True,
        reset_after=False,
        prior=priors.Normal(0.5, trainable=True),
        recurrent_prior="laplace",
        recurrent_posterior="point",
        bias_prior=0.1,
        num_data=10,
        seed=5,
    ),
    "bidirectional": lambda: keras.layers.Bidirectional(
        layers.BayesLSTM(3, prior=priors.Normal(0.5, trainable=True), num_data=10, seed=5)
    ),
    "embedding": lambda: layers.BayesEmbedding(5, 3, num_data=10),
    "wrapper": lambda: layers.BayesWrapper(
        keras.layers.Dense(3, "relu"), ["kernel"], prior=0.3, num_data=10, seed=5
    ),
    "molchanov": lambda: layers.VariationalDropout(3, "relu", num_data=10),
    "kingma": lambda: layers.VariationalDropout(3, "relu", num_data=10, kl="kingma"),
    "kingma_alpha": lambda: layers.VariationalDropout(
        3, num_data=10, kl="kingma", posterior=posteriors.MultiplicativeNormal(0.5)
    ),
    "mc_dropout": lambda: layers.MCDropout(0.5),
    "mc_dropout_shape": lambda: layers.MCDropout(0.3, (None, 1), per_example=True, seed=3),
    "concrete_dropout": lambda: layers.ConcreteDropout(keras.layers.Dense(3), num_data=10),
    "concrete_dropout_unit": lambda: layers.ConcreteDropout(
        keras.layers.Dense(3, "relu"),
        num_data=10,
        per_unit=True,
        temperature=0.01,
        initial_rate=0.4,
        lengthscale=0.3,
        logit_scale=10.0,
        seed=4,
    ),
}


# What makes inputs of such layers from four numbers.
BEFORE = {
    layers.BayesConv1D: lambda: keras.layers.Reshape((4, 1)),
    layers.BayesConv2D: lambda: keras.layers.Reshape((2, 2, 1)),
    layers.BayesConv3D: lambda: keras.layers.Reshape((2, 2, 1, 1)),
    layers.BayesConv2DTranspose: lambda: keras.layers.Reshape((2, 2, 1)),
    layers.BayesLSTM: lambda: keras.layers.Reshape((2, 2)),
    layers.BayesGRU: lambda: keras.layers.Reshape((2, 2)),
    keras.layers.Bidirectional: lambda: keras.layers.Reshape((2, 2)),
    layers.BayesEmbedding: keras.layers.ReLU,
}


def config(layer: Any) -> Any:
    """As it is written: Keras reads the tuples of a build config back as lists."""
    return json.loads(json.dumps(layer.get_config(), default=lambda o: o.get_config()))


def model_of(layer: Any) -> Any:
    before = [BEFORE[type(layer)]()] if type(layer) in BEFORE else []
    after = [keras.layers.Flatten(), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((4,)), *before, layer, *after])
    model.compile("adam", "mse")
    rng = np.random.default_rng(1)
    for v in model.trainable_variables:
        v.assign(v + rng.normal(0, 0.1, v.shape))
    model.optimizer.build(model.trainable_variables)
    model(X, training=True)
    return model


class SavingTest(tf.test.TestCase, parameterized.TestCase):
    def assert_same_model(self, model: Any, other: Any) -> None:
        self.assertEqual(config(other), config(model))
        trainable = [[v.trainable for v in m.layers] for m in (model, other)]
        self.assertEqual(*trainable)
        self.assert_same_function(model, other)

    def assert_same_function(self, model: Any, other: Any) -> None:
        """Predictions, losses, draws, and the noise of the next training steps."""
        for mode in (False, True, True):
            outputs = [m(X, training=mode) for m in (model, other)]
            self.assertAllEqual(outputs[0], outputs[1])
            self.assertAllEqual(model.losses, other.losses)
        drawn = [DrawnModel(m)(X, draw=make_draw(0, 1)) for m in (model, other)]
        self.assertAllEqual(*drawn)

    def through_file(self, model: Any) -> Any:
        path = f"{self.get_temp_dir()}/model.keras"
        model.save(path)
        return keras.models.load_model(path, safe_mode=True)

    @parameterized.product(family=FAMILIES, estimator=ESTIMATORS)
    def test_every_family(self, family: Any, estimator: str) -> None:
        posterior, prior = family
        bias = {"bias_posterior": "point", "bias_prior": "flat"} if prior == "log_uniform" else {}
        model = model_of(dense(posterior=posterior, prior=prior, estimator=estimator, **bias))
        self.assert_same_model(model, self.through_file(model))

    @parameterized.parameters(*LAYERS)
    def test_every_layer(self, name: str) -> None:
        model = model_of(LAYERS[name]())
        once = self.through_file(model)
        self.assert_same_model(model, once)
        self.assert_same_model(model, self.through_file(once))

    @parameterized.parameters(*LAYERS)
    def test_weights(self, name: str) -> None:
        model, other = model_of(LAYERS[name]()), model_of(LAYERS[name]())
        path = f"{self.get_temp_dir()}/model.weights.h5"
        model.save_weights(path)
        other.load_weights(path)
        self.assert_same_function(model, other)

    @parameterized.parameters(*LAYERS)
    def test_checkpoint(self, name: str) -> None:
        model, other = model_of(LAYERS[name]()), model_of(LAYERS[name]())
        path = tf.train.Checkpoint(model=model).save(f"{self.get_temp_dir()}/checkpoint")
        tf.train.Checkpoint(model=other).restore(path).assert_existing_objects_matched()
        self.assert_same_function(model, other)

    @parameterized.parameters(*LAYERS)
    def test_copies(self, name: str) -> None:
        """pickle, deepcopy, clone_model with the weights set."""
        model = model_of(LAYERS[name]())
        pickled = pickle.loads(pickle.dumps(model))
        self.assert_same_model(model, pickled)
        copied = copy.deepcopy(model)
        self.assert_same_model(model, copied)
        cloned = keras.models.clone_model(model)
        cloned.set_weights(model.get_weights())
        self.assert_same_model(model, cloned)

    @parameterized.parameters("bayes_dense", "mc_dropout", "concrete_dropout")
    def test_copies_are_independent(self, name: str) -> None:
        model = model_of(LAYERS[name]())
        x, copied = model(X), copy.deepcopy(model)
        for v in copied.trainable_variables:
            v.assign(v + 1.0)
        self.assertAllEqual(model(X), x)

    @parameterized.parameters("bayes_dense", "concrete_dropout_unit")
    def test_training_goes_on(self, name: str) -> None:
        """The optimizer's state and the noise included: the same next epoch."""
        model = model_of(LAYERS[name]())
        model.fit(X, Y, batch_size=6, verbose=0)
        loaded = self.through_file(model)
        losses = [m.fit(X, Y, batch_size=6, verbose=0).history["loss"] for m in (model, loaded)]
        self.assertAllClose(losses[0], losses[1], 1e-6)
        for a, b in zip(model.get_weights(), loaded.get_weights(), strict=True):
            self.assertAllClose(a, b, 1e-6)

    def test_shared(self) -> None:
        shared, inputs = layers.BayesDense(4, num_data=10), keras.Input((4,))
        model = keras.Model(inputs, keras.layers.Dense(2)(shared(shared(inputs))))
        model(X, training=True)
        self.assert_same_function(model, self.through_file(model))

    def test_nested(self) -> None:
        inner = keras.Sequential([keras.Input((4,)), dense(), layers.MCDropout(0.5)])
        inputs = keras.Input((4,))
        model = keras.Model(inputs, dense()(inner(inputs)))
        model(X, training=True)
        self.assert_same_function(model, self.through_file(model))

    def test_convolution(self) -> None:
        layer = layers.ConcreteDropout(keras.layers.Conv2D(2, 2), num_data=10, per_unit=True)
        model = keras.Sequential([keras.Input((4, 4, 3)), layers.MCDropout(0.2), layer])
        loaded = self.through_file(model)
        x = RNG.normal(size=(2, 4, 4, 3)).astype("float32")
        for mode in (False, True):
            self.assertAllEqual(model(x, training=mode), loaded(x, training=mode))

    @parameterized.parameters(*LAYERS)
    def test_config_of_an_unbuilt_layer(self, name: str) -> None:
        layer = LAYERS[name]()
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
        self.assertEqual(config(again), config(layer))


if __name__ == "__main__":
    tf.test.main()
