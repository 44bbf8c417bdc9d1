"""BatchEnsemble: members that share a kernel, each with a factor of rank one (Wen et al. 2020)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import positive_integer, shown
from tfbdl.draws import accept_draws, handed_down
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.layers.factor_initializers import factor_initializer
from tfbdl.layers.rank_one_axes import LINEAR, Factor, Factors


@keras.saving.register_keras_serializable(package="tfbdl")
class BatchEnsembleWrapper(keras.layers.Wrapper):
    """Member k of K computes activation(((x * r_k) W) * s_k + b_k) with the kernel W of `layer`.

    Its kernel is W * (r_k s_k^T), so that K members cost one kernel and 3 K vectors (Wen, Tran, Ba
    2020, "BatchEnsemble: an alternative approach to efficient ensemble and lifelong learning",
    equation 5). Where a kernel joins several axes, as those of attention do, r and s have them all.

    Row i of x belongs to member i modulo K, in training and in inference:
    `tfbdl.models.BatchEnsemble`, in which the layer is to be used, gives each example to all
    members. In a draw (`tfbdl.draws`) all rows belong to one member, the number of the draw modulo
    K.

    Args:
        layer: a `Dense`, an `EinsumDense`, or a convolution, transposed or not, that is not built;
            it is used itself, and gives its activation and its bias to the wrapper.
        num_members: K.
        input_initializer: the start of r, shape (K, ...): `"random_sign"` for +1 and -1, as in the
            paper, `"near_one"` for N(1, 0.1^2), or an initializer of Keras.
        output_initializer: the start of s, in the same way.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`; by default those of
            `layer`.

    Attributes:
        bias: the biases of the members, shape (K, ...); None without any.

    Raises:
        ValueError: if an argument is out of its range, or the layer is of another kind, built, or
            in use with inputs of unknown lengths.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        num_members: int,
        *,
        input_initializer: str | keras.initializers.Initializer = "random_sign",
        output_initializer: str | keras.initializers.Initializer = "random_sign",
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        if type(layer) not in LINEAR or layer.built:
            names = ", ".join(kind.__name__ for kind in LINEAR)
            raise ValueError(f"layer={shown(layer)} must be one of {names}, and not built yet")
        config = keras.saving.serialize_keras_object(layer)
        super().__init__(layer, **{"name": layer.name, "dtype": layer.dtype_policy, **kwargs})
        self._config_of_layer = config
        self.num_members = positive_integer("num_members", num_members)
        self.input_initializer = factor_initializer("input_initializer", input_initializer)
        self.output_initializer = factor_initializer("output_initializer", output_initializer)
        self.supports_masking = layer.supports_masking
        self._take_from(layer)
        accept_draws(self)

    def _take_from(self, layer: Any) -> None:
        """Has the layer compute the product with its kernel alone."""
        self.activation, layer.activation = layer.activation, keras.activations.linear
        self.activity_regularizer, layer.activity_regularizer = layer.activity_regularizer, None
        name = "bias_axes" if isinstance(layer, keras.layers.EinsumDense) else "use_bias"
        self._bias_axes = getattr(layer, name)
        setattr(layer, name, None)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        super().build(input_shape)
        self._factors = Factors.of(self.layer, input_shape, self._bias_axes)
        self._add_factors()
        self.bias: Any = None
        factor = self._factors.bias
        if factor is not None:
            self.bias = self.add_weight(
                shape=self._shape(factor),
                initializer=self.layer.bias_initializer,
                regularizer=self.layer.bias_regularizer,
                constraint=self.layer.bias_constraint,
                name="bias",
            )
        self.built = True

    def _add_factors(self) -> None:
        """Makes the weights r and s."""
        for name, factor, initializer in self._starts():
            made = self.add_weight(shape=self._shape(factor), initializer=initializer, name=name)
            setattr(self, name, made)

    def _starts(self) -> list[tuple[str, Factor, Any]]:
        """The name, axes and start of r and s."""
        return [
            ("input_factor", self._factors.input, self.input_initializer),
            ("output_factor", self._factors.output, self.output_initializer),
        ]

    def _shape(self, factor: Factor) -> tuple[int, ...]:
        return (self.num_members, *factor.lengths)

    def _values(self, training: bool, draw: tf.Tensor | None) -> list[tf.Tensor]:
        """The weights r and s of all members."""
        return [tf.convert_to_tensor(self.input_factor), tf.convert_to_tensor(self.output_factor)]

    def call(
        self, inputs: tf.Tensor, training: bool = False, draw: tf.Tensor | None = None
    ) -> tf.Tensor:
        draw = handed_down(draw)
        member = None if draw is None else tf.cast(draw[1] % self.num_members, tf.int32)
        r, s = self._values(training, draw)
        y = self.layer(inputs * self._factors.input.along(r, inputs, member))
        y *= self._factors.output.along(s, y, member)
        if self._factors.bias is not None:
            y += self._factors.bias.along(tf.convert_to_tensor(self.bias), y, member)
        return self.activation(y)

    def give_bias(self, bias: Any) -> None:
        """Has the biases of all members begin at the `bias` of a Keras layer."""
        self.bias.assign(tf.broadcast_to(tf.reshape(bias, self.bias.shape[1:]), self.bias.shape))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return self.layer.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "layer": self._config_of_layer,
            "num_members": self.num_members,
            "input_initializer": keras.initializers.serialize(self.input_initializer),
            "output_initializer": keras.initializers.serialize(self.output_initializer),
        }
