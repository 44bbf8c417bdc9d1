"""Likelihoods of outputs with positions: what does not count is as if it had been taken out."""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.likelihoods.positions import with_mask

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(3, 4, 5, 6))
LABELS = RNG.integers(0, 6, (3, 4, 5))
IGNORED = RNG.random((3, 4, 5)) < 0.4
MASK = RNG.random((3, 4)) < 0.5
LOG_P = scipy.special.log_softmax(LOGITS, axis=-1)
OF_LABELS = np.take_along_axis(LOG_P, LABELS[..., None], axis=-1)[..., 0]


def logits(dtype: Any = tf.float64) -> tf.Tensor:
    return tf.constant(LOGITS, dtype)


def test_log_prob_at_positions() -> None:
    family = likelihoods.Categorical()
    np.testing.assert_allclose(family.log_prob_at_positions(LABELS, logits()), OF_LABELS)
    np.testing.assert_allclose(family.log_prob(LABELS, logits()), OF_LABELS.sum(axis=(1, 2)))


@pytest.mark.parametrize("ignored", [255, -1, 2])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float32"])
@pytest.mark.parametrize("last", [False, True])
def test_ignored_labels(ignored: int, dtype: str, last: bool) -> None:
    """Also of an integer that is a class otherwise, and labels with an axis of length 1."""
    if dtype == "uint8" and ignored < 0:
        ignored = 7
    y = np.where(IGNORED, ignored, LABELS)
    counted = y != ignored
    family = likelihoods.Categorical(ignore_class=ignored)
    given = y.astype(dtype)[..., None] if last else y.astype(dtype)
    family.check_targets(given, logits())
    expected = np.where(counted, OF_LABELS, 0.0)
    np.testing.assert_allclose(family.log_prob_at_positions(given, logits()), expected)
    np.testing.assert_array_equal(family.counted(given, logits()), counted)
    with tf.GradientTape() as tape:
        f = logits()
        tape.watch(f)
        total = tf.reduce_sum(family.log_prob(given, f))
    gradient = (np.eye(6)[LABELS] - np.exp(LOG_P)) * counted[..., None]
    np.testing.assert_allclose(tape.gradient(total, f), gradient, atol=1e-12)


@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("jit_compile", [True, False])
def test_ignored_labels_in_graphs(from_logits: bool, jit_compile: bool) -> None:
    family = likelihoods.Categorical(from_logits, ignore_class=-1)
    y = np.where(IGNORED, -1, LABELS)
    outputs = logits() if from_logits else tf.nn.softmax(logits())
    log_prob = tf.function(family.log_prob, jit_compile=jit_compile)(y, outputs)
    np.testing.assert_allclose(log_prob, np.where(IGNORED, 0.0, OF_LABELS).sum(axis=(1, 2)))


def test_loss_of_keras_is_read_with_its_ignored_class() -> None:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=255)
    family = likelihoods.of_loss(loss)
    assert isinstance(family, likelihoods.Categorical)
    assert family.get_config() == likelihoods.Categorical(ignore_class=255).get_config()
    y = np.where(IGNORED, 255, LABELS)
    mean = loss(y, logits(tf.float32)) * (~IGNORED).sum()  # Keras': over those that count
    np.testing.assert_allclose(mean, -tf.reduce_sum(family.log_prob(y, logits())), rtol=1e-5)
    assert likelihoods.of_loss("sparse_categorical_crossentropy").ignore_class is None
    again = likelihoods.get(keras.saving.serialize_keras_object(family))
    assert again.get_config()["ignore_class"] == 255


@pytest.mark.parametrize(
    ("family", "y", "message"),
    [
        (likelihoods.Categorical(), np.full((3, 4, 5), 255), "or ignore_class=255 if it stands"),
        (likelihoods.Categorical(ignore_class=255), np.full((3, 4, 5), 7), "label 7;"),
        (likelihoods.Categorical(ignore_class=0), np.eye(6)[LABELS], "ignore_class=0 is for int"),
    ],
)
def test_refused_targets(family: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        family.check_targets(y, logits())


@pytest.mark.parametrize("value", [2.5, "none", True])
def test_ignore_class_is_an_integer(value: Any) -> None:
    with pytest.raises(ValueError, match="ignore_class="):
        likelihoods.Categorical(ignore_class=value)


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("ignore_class", [None, 255])
def test_masked_positions(one_hot: bool, ignore_class: int | None) -> None:
    """A mask of the first positions holds for those behind them; half precision keeps it."""
    if one_hot and ignore_class is not None:
        return
    family = likelihoods.Categorical(ignore_class=ignore_class)
    y = LABELS if ignore_class is None else np.where(IGNORED, 255, LABELS)
    counted = MASK[..., None] & (y != 255)
    given = np.eye(6)[y] if one_hot else y
    expected = np.where(counted, OF_LABELS, 0.0)
    masked = with_mask(logits(), MASK)
    np.testing.assert_allclose(family.log_prob_at_positions(given, masked), expected)
    half = with_mask(logits(tf.float16), MASK)
    np.testing.assert_allclose(family.log_prob(given, half), expected.sum(axis=(1, 2)), rtol=1e-3)


REAL = RNG.normal(size=(3, 4, 2))
OUTPUTS = RNG.normal(size=(3, 4, 2))


@pytest.mark.parametrize("expected", [False, True])
def test_masked_positions_of_elements(expected: bool) -> None:
    variance = 0.3
    log_p = scipy.stats.norm.logpdf(REAL, OUTPUTS, 0.5)
    outputs, family = OUTPUTS, likelihoods.Normal(0.5)
    if expected:
        log_p -= 0.5 * variance / 0.25
        outputs = np.concatenate([OUTPUTS, np.full_like(OUTPUTS, variance)], axis=-1)
        family = likelihoods.Expected(family)
    log_prob = family.log_prob(REAL, with_mask(tf.constant(outputs), MASK))
    np.testing.assert_allclose(log_prob, (log_p * MASK[..., None]).sum(axis=(1, 2)))


@pytest.mark.parametrize("family", ["categorical", "poisson"])
def test_expected_log_prob_of_masked_positions(family: str) -> None:
    """The value of the positions that count, given alone."""
    y = LABELS[:, :, 0] if family == "categorical" else RNG.poisson(2.0, REAL.shape)
    outputs = LOGITS[:, :, 0] if family == "categorical" else OUTPUTS
    outputs = np.concatenate([outputs, np.full_like(outputs, 0.3)], axis=-1)
    law = likelihoods.Expected(family)
    log_prob = law.log_prob(y, with_mask(tf.constant(outputs), MASK))
    for b in range(3):
        alone = law.log_prob(y[b][MASK[b]], tf.constant(outputs[b][MASK[b]]))
        np.testing.assert_allclose(log_prob[b], tf.reduce_sum(alone))


class TestLoss:
    """The loss is the mean over examples of the sum over their positions that count."""

    y, outputs = LABELS[:, :, 0], LOGITS[:, :, 0]
    log_p = OF_LABELS[:, :, 0]

    def of(self, mask: Any = None, weights: Any = None, reduction: str = "sum") -> Any:
        outputs = with_mask(tf.constant(self.outputs, tf.float32), mask)
        return likelihoods.Categorical(reduction=reduction)(self.y, outputs, weights)

    @pytest.mark.parametrize("reduction", ["sum", "sum_over_batch_size"])
    def test_mask(self, reduction: str) -> None:
        count = 1 if reduction == "sum" else 3
        expected = -(self.log_p * MASK).sum() / count
        np.testing.assert_allclose(self.of(MASK, None, reduction), expected, rtol=1e-5)
        weights = np.array([2.0, 0.5, 1.0])
        expected = -(self.log_p * MASK * weights[:, None]).sum() / count
        for shape in [(3,), (3, 1)]:
            loss = self.of(MASK, weights.reshape(shape), reduction)
            np.testing.assert_allclose(loss, expected, rtol=1e-5)

    def test_weights_of_positions(self) -> None:
        weights = RNG.random((3, 4))
        for shape in [(3, 4), (3, 4, 1)]:
            expected = -(self.log_p * weights).sum()
            np.testing.assert_allclose(self.of(None, weights.reshape(shape)), expected, rtol=1e-5)
        expected = -(self.log_p * weights * MASK).sum()
        np.testing.assert_allclose(self.of(MASK, weights), expected, rtol=1e-5)

    def test_refusals(self) -> None:
        with pytest.raises(ValueError, match="sample_weight has shape"):
            self.of(None, np.ones((3, 3)))
        with pytest.raises(ValueError, match="have a Keras mask of shape"):
            likelihoods.Normal(1.0)(REAL[:, 0], with_mask(tf.constant(OUTPUTS[:, 0]), MASK))

    def test_a_family_of_log_prob_alone(self) -> None:
        class OfExamples(likelihoods.Likelihood):
            def log_prob(self, y: Any, outputs: Any) -> Any:
                return -tf.reduce_sum(tf.abs(y - outputs), axis=[1, 2])

            def mean(self, outputs: Any) -> Any:
                return outputs

            def variance(self, outputs: Any) -> Any:
                return 2.0 * tf.ones_like(outputs)

        with pytest.raises(ValueError, match="OfExamples has no log_prob_at_positions"):
            OfExamples()(REAL, tf.constant(OUTPUTS), np.ones((3, 4)))


def tagger() -> keras.Model:
    inputs = keras.Input((5,), dtype="int32")
    h = keras.layers.Embedding(8, 3, mask_zero=True)(inputs)
    return keras.Model(
        inputs, keras.layers.Dense(4)(keras.layers.SimpleRNN(3, return_sequences=True)(h))
    )


def test_fit_with_masks_and_weights() -> None:
    """As many examples as positions, whose losses would be multiplied by another's mask."""
    model = tagger()
    tokens, y = RNG.integers(1, 8, (5, 5)), RNG.integers(0, 4, (5, 5))
    tokens[:3, 2:] = 0
    weights = RNG.random((5, 5))
    log_p = scipy.special.log_softmax(model(tokens).numpy().astype(np.float64), axis=-1)
    of_labels = np.take_along_axis(log_p, y[..., None], axis=-1)[..., 0] * (tokens != 0)
    model.compile(keras.optimizers.SGD(0.0), likelihoods.Categorical())
    expected = -of_labels.sum() / 5
    np.testing.assert_allclose(model.evaluate(tokens, y, verbose=0), expected, rtol=1e-5)
    history = model.fit(tokens, y, sample_weight=weights, batch_size=5, verbose=0).history
    expected = -(weights * of_labels).sum() / 5
    np.testing.assert_allclose(history["loss"], [expected], rtol=1e-5)


ENTROPIES = {
    "bernoulli": (likelihoods.Bernoulli(), lambda f: scipy.stats.bernoulli(scipy.special.expit(f))),
    "normal": (likelihoods.Normal(0.5), lambda f: scipy.stats.norm(f, 0.5)),
    "student_t": (likelihoods.StudentT(4.0, 0.5), lambda f: scipy.stats.t(4.0, f, 0.5)),
    "gamma": (likelihoods.Gamma(2.0), lambda f: scipy.stats.gamma(2.0, scale=np.exp(f) / 2.0)),
    "poisson": (likelihoods.Poisson(), lambda f: scipy.stats.poisson(np.exp(f))),
}


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 4, 2), (3, 4, 5, 1)])
@pytest.mark.parametrize("name", ENTROPIES)
def test_entropy_is_of_positions(name: str, shape: tuple[int, ...]) -> None:
    family, law = ENTROPIES[name]
    f = RNG.normal(size=shape)
    of_elements = np.vectorize(lambda value: law(value).entropy())(f)
    expected = of_elements.sum(axis=-1) if len(shape) > 1 else of_elements
    np.testing.assert_allclose(family.entropy(tf.constant(f)), expected, rtol=1e-5)


@pytest.mark.parametrize("from_logits", [True, False])
def test_entropy_of_classes_is_of_positions(from_logits: bool) -> None:
    family = likelihoods.Categorical(from_logits)
    p = np.exp(LOG_P)
    expected = scipy.stats.entropy(p, axis=-1)
    np.testing.assert_allclose(family.entropy(logits() if from_logits else p), expected)
    np.testing.assert_allclose(family.entropy_of_mean(tf.constant(p)), expected)
