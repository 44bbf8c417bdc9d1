"""Networks as ensembles that share their kernels."""

from __future__ import annotations

from itertools import count
from typing import Any

import keras

from tfbdl import posteriors, priors
from tfbdl.arguments import positive_integer
from tfbdl.compilation import compile_like
from tfbdl.convert.exchange import exchange
from tfbdl.convert.inside import Rule
from tfbdl.convert.parts import arguments_of
from tfbdl.convert.random_layer import is_adapted
from tfbdl.convert.selection import Layer, Selection
from tfbdl.copying import describe
from tfbdl.layers import BatchEnsembleWrapper, BayesBatchEnsembleWrapper
from tfbdl.layers.factor_initializers import factor_initializer
from tfbdl.layers.rank_one_axes import LINEAR
from tfbdl.models import BatchEnsemble


def to_batch_ensemble(
    model: keras.Model,
    num_members: int = 4,
    *,
    initializer: str | keras.initializers.Initializer | None = None,
    num_data: int | None = None,
    prior: float | str | dict[str, Any] | priors.Prior | None = None,
    posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
    layers: Selection = None,
    skip: Selection = None,
) -> BatchEnsemble:
    """K networks like a model in one, which share its kernels, to be trained side by side.

    Dense, EinsumDense (of which attention is made), convolutions and their transposes are put into
    a `tfbdl.layers.BatchEnsembleWrapper`: member k has the kernel W * (r_k s_k^T) and a bias of its
    own (Wen, Tran, Ba 2020). All other layers are common to the members, such as
    BatchNormalization, whose statistics are those of all. A step costs about K times as much as one
    of the model at the same batch size; the weights take hardly more memory than those of one
    network.

    `num_data` makes the factors random: a rank-1 Bayesian network, whose K members are the
    components of a mixture (Dusenberry et al. 2020).

    Args:
        model: a functional or a built Sequential model, with models of these kinds in it.
        num_members: K; the paper's 4.
        initializer: the start of the factors r and s, as in `BatchEnsembleWrapper`.
            `"random_sign"`, the default for plain factors, sets the members farthest apart, and
            forgets what `model` has learned; `"near_one"`, the default for random factors, begins
            near a trained model. `"tabm"` has random signs in r of the first layer alone, ones
            elsewhere (Gorishniy et al. 2024, "TabM: advancing tabular deep learning with
            parameter-efficient ensembling"), for tables and larger K, such as 32.
        num_data: N, the number of training examples, for random factors; None for plain ones.
        prior: p(w) of the factors 1 + w, as in `BayesBatchEnsembleWrapper`, whose scale is 0.1 by
            default; only with `num_data`.
        posterior: the family of q(w), by default `"mean_field"`; only with `num_data`.
        layers: the layers among them, by default all: names, regular expressions for paths (names
            of the layers around it and its own, as in `"encoder_.*/query"`), or a function of a
            layer.
        skip: the layers that are left as they are, chosen in the same way.

    Returns:
        The ensemble, compiled as `model`, with its inputs and outputs, and the kernels and biases
        that it has now; its network is the attribute `network`.

    Raises:
        ValueError: if an argument is out of its range, there is nothing to convert, or a layer that
            cannot be: one that is quantized or has LoRA, of a subclass, or inside a layer that a
            config does not give back.
    """
    positive_integer("num_members", num_members)
    tabm = isinstance(initializer, str) and initializer == "tabm"
    if initializer is None:
        initializer = "random_sign" if num_data is None else "near_one"
    start = factor_initializer("initializer", "random_sign" if tabm else initializer)
    arguments: dict[str, Any] = {"num_members": num_members}
    kind: type[BatchEnsembleWrapper] = BatchEnsembleWrapper
    if num_data is not None:
        kind = BayesBatchEnsembleWrapper
        serialize = keras.saving.serialize_keras_object  # each layer makes objects of its own
        arguments["num_data"] = positive_integer("num_data", num_data, most=2**63)
        arguments["prior"] = serialize(priors.get(0.1 if prior is None else prior))
        family = posteriors.get("mean_field" if posterior is None else posterior)
        arguments["posterior"] = serialize(family)
    elif (prior, posterior) != (None, None):
        raise ValueError("num_data=None: prior and posterior are of random factors; give num_data")
    numbers = count()

    def make(old: Any) -> Layer:
        if is_adapted(old):
            raise ValueError(f"{describe(old)} is quantized or has LoRA; convert it without that")
        first = next(numbers) == 0
        ones = keras.initializers.Ones()
        return kind(
            type(old)(**arguments_of(old)),
            **arguments,
            input_initializer=_fresh(start if first or not tabm else ones),
            output_initializer=ones if tabm else _fresh(start),
        )

    network = exchange(
        model, dict.fromkeys(LINEAR, Rule(make, _fill)), layers, skip, compiled=False
    )
    ensemble = BatchEnsemble(network, num_members)
    compile_like(model, ensemble)
    return ensemble


def _fresh(initializer: Any) -> Any:
    """An initializer like it, which gives other numbers where it has no seed."""
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    return type(initializer).from_config(initializer.get_config())


def _fill(old: Any, new: BatchEnsembleWrapper) -> None:
    """Gives the kernel to all members, and each the bias."""
    new.layer.kernel.assign(old.kernel)
    new.layer.kernel.trainable = old.kernel.trainable
    if old.bias is not None:
        new.give_bias(old.bias)
        new.bias.trainable = old.bias.trainable
