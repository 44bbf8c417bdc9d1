"""Several weight samples of one network: members by hand, in predictions, in files."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.models import WeightEnsemble

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3)).astype("float32")


def plain(seed: int = 0) -> keras.Model:
    keras.utils.set_random_seed(seed)
    hidden = keras.layers.Dense(4, "tanh")
    return keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(2)])


def normalised(seed: int = 0) -> Any:
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2),
        ]
    )
    model.compile("sgd", "mse")
    model.fit(RNG.normal(seed, 2.0, (20, 3)), RNG.normal(size=(20, 2)), verbose=0)
    return model


class EnsembleTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(plain, normalised)
    def test_draws_are_the_members_in_turn(self, make: Any) -> None:
        models = [make(seed) for seed in range(3)]
        sampler = DrawnModel(WeightEnsemble.of(models))
        for s in range(7):
            for seed in (0, 5):
                got = sampler(X, draw=make_draw(seed, s))
                self.assertAllClose(got, models[s % 3](X, training=False), 1e-5, 1e-6)

    @parameterized.parameters(plain, normalised)
    def test_without_a_draw_it_is_the_mean(self, make: Any) -> None:
        models = [make(seed) for seed in range(3)]
        expected = np.mean([model(X, training=False) for model in models], axis=0)
        ensemble = WeightEnsemble.of(models)
        self.assertAllClose(ensemble(X), expected, 1e-5, 1e-6)
        self.assertAllClose(ensemble.predict(X, verbose=0), expected, 1e-5, 1e-6)

    def test_predict_takes_each_member_once(self) -> None:
        models = [plain(seed) for seed in range(3)]
        ensemble = WeightEnsemble.of(models)
        outputs = np.stack([model(X) for model in models])
        prediction = tfbdl.predict(ensemble, X, seed=4)
        self.assertEqual(prediction.num_samples, 3)
        self.assertAllClose(prediction.mean, outputs.mean(axis=0), 1e-5, 1e-6)
        self.assertAllClose(prediction.epistemic_stddev, outputs.std(axis=0), 1e-5, 1e-6)
        some = tfbdl.predict(ensemble, X, 2, return_samples=True)
        self.assertAllClose(some.samples, outputs[:2], 1e-5, 1e-6)

    def test_later_changes_of_a_model_are_not_its_own(self) -> None:
        model = plain()
        ensemble = WeightEnsemble.of([model])
        before = ensemble(X)
        model.set_weights([w + 1.0 for w in model.get_weights()])
        self.assertAllEqual(ensemble(X), before)
        ensemble(X)
        self.assertAllEqual(model.get_weights()[1], np.ones(4))

    @parameterized.product(make=(plain, normalised), kind=("keras", "weights.h5"))
    def test_files(self, make: Any, kind: Any) -> None:
        ensemble = WeightEnsemble.of([make(seed) for seed in range(3)], name="three")
        other = WeightEnsemble.of([make(seed + 5) for seed in range(3)])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"e.{kind}"
            if kind == "keras":
                ensemble.save(path)
                again = keras.models.load_model(path)
                self.assertEqual((again.name, again.num_functions), ("three", 3))
            else:
                ensemble.save_weights(path)
                again = other
                again.load_weights(path)
        expected = tfbdl.predict(ensemble, X)
        got = tfbdl.predict(again, X)
        self.assertAllClose(got.mean, expected.mean, 1e-6)
        self.assertAllClose(got.epistemic_stddev, expected.epistemic_stddev, 1e-5)

    def test_compiled_with_a_likelihood(self) -> None:
        ensemble = WeightEnsemble.of([plain(seed) for seed in range(3)])
        ensemble.compile(loss=tfbdl.likelihoods.Categorical())
        y = np.array([0, 1, 1, 0, 1, 0, 0])
        logits = np.stack([plain(seed)(X) for seed in range(3)])
        p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        self.assertAllClose(tfbdl.predict(ensemble, X).mean, p.mean(0), 1e-5)
        expected = np.log(p[:, np.arange(7), y].mean(0))
        got = tfbdl.log_predictive_density(ensemble, X, y)
        self.assertAllClose(got, expected, 1e-5)

    def test_refusals(self) -> None:
        with self.assertRaisesRegex(
            ValueError, r"^models=\[\] must be a list of models, at least one$"
        ):
            WeightEnsemble.of([])
        other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        with self.assertRaisesRegex(ValueError, "^models differ in the shapes"):
            WeightEnsemble.of([plain(), other])
        for members in (np.zeros((2, 5)), np.zeros(26), np.zeros((0, 26))):
            with self.assertRaisesRegex(ValueError, r"^members has shape .* give \(K, 26\)$"):
                WeightEnsemble(plain(), members)


if __name__ == "__main__":
    tf.test.main()
