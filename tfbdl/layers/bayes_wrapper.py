"""Any layer of Keras or of a user's own, with distributions over weights that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors
from tfbdl.arguments import instance, shown, words
from tfbdl.draws import handed_down
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.keras_private import named_variables, takes_call_argument, walk
from tfbdl.keras_private_layers import adopt_signature, call_with
from tfbdl.layers.shared_sample import SharedSample


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesWrapper(SharedSample, keras.layers.Wrapper):
    """`layer` called with weights w ~ q in the place of its own, and KL(q || p) / num_data.

    It makes layers random that have no Bayesian form of their own: separable convolutions,
    reversible embeddings, the factors of LoRA, layers of a user's own. `training=True` samples the
    weights, one sample for the batch, `training=False` uses their means, and a draw (`tfbdl.draws`)
    names one weight sample. It is called as `layer` is.

    Means start at the weights of `layer`, or at those that it is built with. The layer's own
    variables are then held at zero, in files too, since their values are in the posteriors.

    Args:
        layer: a built layer, or one that is built on one input; it is used itself, and changed.
        weights: names of its own variables that are random, as in `["kernel"]`; by default all
            that are trained. Weights of layers inside it stay as they are.
        num_data: N, the number of training examples; required, since the KL enters as KL / N.
        prior: p(w), as in `BayesDense`.
        posterior: the family of q(w), as in `BayesDense`.
        bias_prior: p(b) of the weight that is named "bias", as in `BayesDense`.
        bias_posterior: the family of q(b).
        kl: as in `BayesDense`.
        seed: as in `BayesDense`.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`; by default those of
            `layer`.

    Attributes:
        replaced: the variables of `layer` that have a posterior, by their names, once it is built.

    Raises:
        ValueError: if an argument is out of its range, the layer draws already or has no such
            weights, or one of them is no real numbers or named as an attribute of all layers.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        weights: Sequence[str] | None = None,
        *,
        num_data: int,
        prior: float | str | dict[str, Any] | priors.Prior = 1.0,
        posterior: str | dict[str, Any] | posteriors.Posterior = "mean_field",
        bias_prior: float | str | dict[str, Any] | priors.Prior | None = None,
        bias_posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
        kl: str = "auto",
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        instance("layer", layer, keras.layers.Layer, "a Keras layer")
        for inner in walk(layer):
            if takes_call_argument(inner, "draw"):
                raise ValueError(
                    f"layer={layer.name!r} holds {type(inner).__name__}, which is random already; "
                    "wrap a layer of Keras"
                )
        super().__init__(
            layer,
            num_data=num_data,
            prior=prior,
            posterior=posterior,
            bias_prior=bias_prior,
            bias_posterior=bias_posterior,
            kl=kl,
            seed=seed,
            **{"name": layer.name, "dtype": _floating(layer), **kwargs},
        )
        self._asked = None if weights is None else words("weights", weights, "names of weights")
        self.replaced: dict[str, keras.Variable] = {}
        self.autocast = False  # `layer` does so itself, and as it sees fit
        self.supports_masking = layer.supports_masking
        adopt_signature(self, layer, own=("training", "draw"))
        if layer.built:
            self._chosen()

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        for name, variable in self._chosen().items():
            of_bias = name == "bias"
            start = keras.ops.convert_to_numpy(variable)
            self.add_random_weight(
                name,
                tuple(variable.shape),
                lambda shape, dtype=None, start=start: tf.constant(start, dtype),
                self.bias_prior if of_bias else self.prior,
                self.bias_posterior if of_bias else self.posterior,
            )
            self.replaced[name] = variable
        self.hold()
        self.built = True

    def hold(self) -> None:
        """Sets the variables that have a posterior to zero, and has no optimizer train them."""
        for variable in self.replaced.values():
            variable.assign(keras.ops.zeros_like(variable))
            variable.trainable = False

    @property
    def trainable(self) -> bool:
        return super().trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        keras.layers.Layer.trainable.fset(self, value)
        for variable in self.replaced.values():
            variable.trainable = False

    def call(
        self, *args: Any, training: bool = False, draw: tf.Tensor | None = None, **kwargs: Any
    ) -> Any:
        draw = handed_down(draw)
        values = zip(self.replaced.values(), self.weights_now(training, draw), strict=True)
        outputs, losses = call_with(self.layer, list(values), *args, **kwargs)
        for loss in losses:
            self.add_loss(loss)
        return outputs

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        kwargs = {k: v for k, v in kwargs.items() if k not in ("training", "draw")}
        return self.layer.compute_output_spec(*args, **kwargs)

    def compute_output_shape(self, *args: Any, **kwargs: Any) -> Any:
        return self.layer.compute_output_shape(*args, **kwargs)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return self.layer.compute_mask(inputs, previous_mask)

    def _chosen(self) -> dict[str, keras.Variable]:
        """The variables of the layer that are random, by name."""
        own = named_variables(self.layer)
        trained = [name for name, v in own.items() if v.trainable]
        chosen = trained if self._asked is None else self._asked
        known = f"its own are {', '.join(own) or 'none'}"
        if not chosen:
            raise ValueError(f"layer={self.layer.name!r} trains no weights of its own; {known}")
        for name in chosen:
            if name not in own or "float" not in own[name].dtype:
                raise ValueError(f"weights={shown(chosen)}: {name!r} is no real weight; {known}")
            if hasattr(keras.layers.Layer, name):
                raise ValueError(f"weights={shown(chosen)}: {name!r} is taken; rename the weight")
        if "bias" not in chosen and self._given_bias != (None, None):
            raise ValueError(
                "bias_prior and bias_posterior must be None: no weight named 'bias' is random"
            )
        return {name: own[name] for name in chosen}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "weights": self._asked}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BayesWrapper:
        wrapper = super().from_config(dict(config), custom_objects)
        alpha = config["layer"]["config"].get("lora_alpha")
        if alpha is not None:
            wrapper.layer.lora_alpha = alpha  # Keras takes the rank for it when it builds a layer
        return wrapper


def _floating(layer: keras.layers.Layer) -> str:
    """The name of the layer's policy of types, without that of its quantized weights."""
    return str(layer.dtype_policy.name.split("_from_")[-1])
