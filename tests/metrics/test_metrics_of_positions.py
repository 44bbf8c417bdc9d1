"""Metrics of pixels and tokens: those of the positions, flattened by hand."""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import sklearn.metrics
import tensorflow as tf

from tfbdl import likelihoods, metrics
from tfbdl.likelihoods.positions import with_mask

RNG = np.random.default_rng(4)
SHAPE, C = (5, 4, 6), 3
LOGITS = 1.5 * RNG.normal(size=(*SHAPE, C))
P = scipy.special.softmax(LOGITS, axis=-1)
Y = np.array([RNG.choice(C, p=row) for row in P.reshape(-1, C)]).reshape(SHAPE)
ENTROPY = scipy.stats.entropy(P, axis=-1)
IGNORED = RNG.random(SHAPE) < 0.3
MASK = RNG.random(SHAPE[:2]) < 0.6
FUNCTIONS = {
    name: getattr(metrics, name)
    for name in (
        *("negative_log_likelihood", "brier_score", "expected_calibration_error"),
        *("maximum_calibration_error", "adaptive_calibration_error"),
        *("classwise_calibration_error", "debiased_calibration_error"),
    )
}
OF_UNCERTAINTY = ("error_auroc", "error_aupr", "area_under_risk_coverage")
CLASSES = {
    "negative_log_likelihood": metrics.NegativeLogLikelihood,
    "brier_score": metrics.BrierScore,
    "expected_calibration_error": metrics.ExpectedCalibrationError,
    "maximum_calibration_error": metrics.MaximumCalibrationError,
    "adaptive_calibration_error": metrics.AdaptiveCalibrationError,
    "error_auroc": metrics.ErrorAUROC,
}


def flat(counted: Any = None) -> tuple[Any, Any, Any]:
    """Labels, probabilities and entropies of the positions that count, one by one."""
    counted = np.ones(SHAPE, bool) if counted is None else counted
    rows = [(Y[i], P[i], ENTROPY[i]) for i in np.ndindex(SHAPE) if counted[i]]
    y, p, entropy = (np.array(column) for column in zip(*rows, strict=True))
    return y, p, entropy


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    np.testing.assert_allclose(FUNCTIONS[name](Y, P), FUNCTIONS[name](*flat()[:2]))


def test_functions_against_sklearn() -> None:
    y, p, entropy = flat()
    log_loss = sklearn.metrics.log_loss(y, p)
    np.testing.assert_allclose(metrics.negative_log_likelihood(Y, P), log_loss)
    errors = p.argmax(axis=1) != y
    area = sklearn.metrics.roc_auc_score(errors, entropy)
    np.testing.assert_allclose(metrics.error_auroc(Y, P, ENTROPY), area)


@pytest.mark.parametrize("name", OF_UNCERTAINTY)
def test_functions_of_uncertainty(name: str) -> None:
    function = getattr(metrics, name)
    np.testing.assert_allclose(function(Y, P, ENTROPY), function(*flat()))


def test_agreement_and_temperature() -> None:
    other = np.roll(P, 1, axis=0)
    rows = [(p, q) for p, q in zip(P.reshape(-1, C), other.reshape(-1, C), strict=True)]
    p, q = (np.array(column) for column in zip(*rows, strict=True))
    for function in (metrics.agreement, metrics.total_variation):
        np.testing.assert_allclose(function(P, other), function(p, q))
    temperature = metrics.fit_temperature(Y, LOGITS)
    expected = metrics.fit_temperature(flat()[0], LOGITS.reshape(-1, C))
    np.testing.assert_allclose(temperature, expected)
    scaled = metrics.apply_temperature(LOGITS, 2.0)
    np.testing.assert_allclose(scaled, scipy.special.softmax(LOGITS / 2.0, axis=-1))


def test_vector_scaling() -> None:
    scaling = metrics.fit_vector_scaling(Y, LOGITS)
    expected = metrics.fit_vector_scaling(Y.ravel(), LOGITS.reshape(-1, C))
    np.testing.assert_allclose(scaling, expected, 1e-12)
    p = metrics.apply_vector_scaling(LOGITS, scaling)
    rows = metrics.apply_vector_scaling(LOGITS.reshape(-1, C), scaling)
    np.testing.assert_allclose(p, rows.reshape(p.shape), 1e-12)


@pytest.mark.parametrize("last", [False, True])
def test_labelled(last: bool) -> None:
    counted = ~IGNORED & MASK[..., None]
    mask = np.broadcast_to(MASK[..., None], SHAPE)
    y = np.where(IGNORED, 255, Y)
    given = y[..., None] if last else y
    got = metrics.labelled(given, [P, ENTROPY], ignore_class=255, mask=mask)
    for value, expected in zip(got, flat(counted), strict=True):
        np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(metrics.labelled(y)[0], y.ravel())


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((Y, [P[:2]]), {}, r"arrays has one of shape \(2, 4, 6, 3\); y of shape"),
        ((Y,), {"mask": MASK}, r"mask has shape \(5, 4\) and type bool"),
        ((np.full((2, 2), 255),), {"ignore_class": 255}, "y has no label that counts"),
        ((Y,), {"ignore_class": 0.5}, "ignore_class=0.5 must be an integer"),
        ((Y, 1e-300), {}, "^arrays=1e-300 must be a list of arrays$"),
    ],
)
def test_labelled_refuses(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metrics.labelled(*arguments, **options)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_over_batches(name: str, last: bool) -> None:
    metric = CLASSES[name]()
    y = Y[..., None] if last else Y
    metric.update_state(y[:2], P[:2])
    metric.update_state(y[2:], P[2:])
    function = getattr(metrics, name)
    y, p, _ = flat()
    expected = function(y, p, 1.0 - p.max(axis=1)) if name == "error_auroc" else function(y, p)
    np.testing.assert_allclose(metric.result(), expected, 1e-6)


def counting(name: str, counted: Any) -> float:
    y, p, _ = flat(counted)
    function = getattr(metrics, name)
    return function(y, p, 1.0 - p.max(axis=1)) if name == "error_auroc" else function(y, p)


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_masks_and_ignored_labels(name: str, in_graph: bool) -> None:
    metric, ignoring = CLASSES[name](), metrics.OfLabelled(CLASSES[name](), 255)
    both = metrics.OfLabelled(CLASSES[name](), 255)
    y = np.where(IGNORED, 255, Y)

    def update() -> None:
        masked = with_mask(tf.constant(P), MASK)
        metric.update_state(Y, masked)
        ignoring.update_state(y, P)
        both.update_state(y, masked)

    tf.function(update)() if in_graph else update()
    of_mask = np.broadcast_to(MASK[..., None], SHAPE)
    np.testing.assert_allclose(metric.result(), counting(name, of_mask), 1e-6)
    np.testing.assert_allclose(ignoring.result(), counting(name, ~IGNORED), 1e-6)
    np.testing.assert_allclose(both.result(), counting(name, of_mask & ~IGNORED), 1e-6)


@pytest.mark.parametrize("of_examples", [False, True])
def test_weights(of_examples: bool) -> None:
    weights = RNG.random(SHAPE[:1] if of_examples else SHAPE)
    metric, ignoring = metrics.BrierScore(), metrics.OfLabelled(metrics.BrierScore(), 255)
    metric.update_state(Y, P, weights)
    ignoring.update_state(np.where(IGNORED, 255, Y), P, weights)
    scores = np.square(P - np.eye(C)[Y]).sum(axis=-1)
    each = np.broadcast_to(weights[:, None, None] if of_examples else weights, SHAPE)
    np.testing.assert_allclose(metric.result(), np.average(scores, weights=each))
    expected = np.average(scores, weights=each * ~IGNORED)
    np.testing.assert_allclose(ignoring.result(), expected, 1e-6)


def test_in_evaluate() -> None:
    """Metrics of Keras and of this package, beside a loss that ignores the same label."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((*SHAPE[1:], C))
    model = keras.Model(inputs, keras.layers.Identity()(inputs))
    family = likelihoods.Categorical(ignore_class=255)
    model.compile(
        loss=family,
        metrics=[
            metrics.OfLabelled(keras.metrics.SparseCategoricalAccuracy(name="accuracy"), 255),
            metrics.OfLabelled(
                metrics.OfMean(keras.metrics.MeanIoU(C, sparse_y_pred=False, name="iou"), family),
                255,
            ),
            metrics.OfLabelled(metrics.NegativeLogLikelihood(True, name="nll"), 255),
            metrics.OfLabelled(metrics.ErrorAUROC(True, name="auroc"), 255),
        ],
    )
    got = model.evaluate(
        LOGITS, np.where(IGNORED, 255, Y), batch_size=2, verbose=0, return_dict=True
    )
    y, p, _ = flat(~IGNORED)
    np.testing.assert_allclose(got["accuracy"], np.mean(p.argmax(axis=1) == y), 1e-6)
    iou = sklearn.metrics.jaccard_score(y, p.argmax(axis=1), average="macro")
    np.testing.assert_allclose(got["iou"], iou, 1e-5)
    np.testing.assert_allclose(got["nll"], sklearn.metrics.log_loss(y, p), 1e-5)
    area = sklearn.metrics.roc_auc_score(p.argmax(axis=1) != y, -p.max(axis=1))
    np.testing.assert_allclose(got["auroc"], area, 1e-6)
    np.testing.assert_allclose(got["loss"], sklearn.metrics.log_loss(y, p) * len(y) / 5, 1e-5)


@pytest.mark.parametrize(
    ("y", "weights", "message"),
    [
        (Y[:, :3], None, "y_true has shape"),
        (np.eye(C + 1)[Y], None, "y_true has shape"),
        (Y, np.ones((5, 3)), "sample_weight has shape"),
    ],
)
def test_refusals(y: Any, weights: Any, message: str) -> None:
    for metric in (metrics.BrierScore(), metrics.ExpectedCalibrationError()):
        with pytest.raises(ValueError, match=message):
            metric.update_state(y, P, weights)
