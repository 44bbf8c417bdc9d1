"""Keras' own contract for layers, in inference and in training."""

from typing import Any

import keras
import tensorflow as tf
from absl.testing import parameterized
from keras.src import testing

from tfbdl import layers


class ContractTest(testing.TestCase):
    def check(self, layer: Any, input_shape: Any, output_shape: Any, **kwargs: Any) -> None:
        """Checks a layer in training; in both modes where `modes` says so."""
        arguments, modes = kwargs.pop("arguments"), kwargs.pop("modes", (True,))
        for training in modes:
            self.run_layer_test(
                layer,
                init_kwargs=arguments,
                input_shape=input_shape,
                call_kwargs={"training": training},
                expected_output_shape=output_shape,
                expected_num_seed_generators=0,
                **{"supports_masking": True, **kwargs},
            )

    @parameterized.parameters(
        ("reparameterization", (4, 5)),
        ("local_reparameterization", (4, 5)),
        ("flipout", (4, 2, 5)),
        ("per_example", (4, 2, 5)),
    )
    def test_bayes_dense(self, estimator: str, input_shape: Any) -> None:
        self.check(
            layers.BayesDense,
            input_shape,
            (*input_shape[:-1], 3),
            arguments={"units": 3, "num_data": 10, "estimator": estimator},
            modes=(False, True),
            expected_num_losses=1,
            expected_num_trainable_weights=4,
            expected_num_non_trainable_weights=2,
        )

    @parameterized.parameters(
        (layers.BayesConv1D, "flipout", (4, 5, 2), (4, 4, 3)),
        (layers.BayesConv2D, "per_example", (4, 5, 5, 2), (4, 4, 4, 3)),
        (layers.BayesConv3D, "reparameterization", (2, 3, 3, 3, 2), (2, 2, 2, 2, 3)),
        (layers.BayesConv1DTranspose, "reparameterization", (4, 5, 2), (4, 6, 3)),
        (layers.BayesConv2DTranspose, "flipout", (4, 3, 3, 2), (4, 4, 4, 3)),
        (layers.BayesConv3DTranspose, "per_example", (2, 2, 2, 2, 2), (2, 3, 3, 3, 3)),
    )
    def test_convolutions(
        self, layer: Any, estimator: str, input_shape: Any, output_shape: Any
    ) -> None:
        self.check(
            layer,
            input_shape,
            output_shape,
            arguments={"filters": 3, "kernel_size": 2, "num_data": 10, "estimator": estimator},
            supports_masking=False,
            expected_num_losses=1,
            expected_num_trainable_weights=4,
            expected_num_non_trainable_weights=2,
        )

    @parameterized.product(
        layer=(layers.BayesLSTM, layers.BayesGRU),
        arguments=({"dropout": 0.5, "recurrent_dropout": 0.5}, {"return_sequences": True}),
    )
    def test_recurrent(self, layer: Any, arguments: Any) -> None:
        self.check(
            layer,
            (4, 2, 5),
            (4, 2, 3) if arguments.get("return_sequences") else (4, 3),
            arguments={"units": 3, "num_data": 10, **arguments},
            expected_num_losses=1,
            expected_num_trainable_weights=6,
            expected_num_non_trainable_weights=2,
        )

    def test_embedding(self) -> None:
        self.check(
            layers.BayesEmbedding,
            (4, 2),
            (4, 2, 3),
            arguments={"input_dim": 5, "output_dim": 3, "num_data": 10},
            input_dtype="int32",
            supports_masking=False,
            expected_num_losses=1,
            expected_num_trainable_weights=2,
            expected_num_non_trainable_weights=2,
        )

    def test_wrapper(self) -> None:
        self.check(
            layers.BayesWrapper,
            (4, 5),
            (4, 3),
            arguments={
                "layer": keras.layers.Dense(3),
                "weights": ["kernel", "bias"],  # which the check's first wrapper froze
                "num_data": 10,
            },
            expected_num_losses=1,
            expected_num_trainable_weights=4,
            expected_num_non_trainable_weights=4,
        )

    @parameterized.parameters("molchanov", "kingma")
    def test_variational_dropout(self, kl: Any) -> None:
        self.check(
            layers.VariationalDropout,
            (4, 5),
            (4, 3),
            arguments={"units": 3, "num_data": 10, "kl": kl},
            expected_num_losses=1,
            expected_num_trainable_weights=3,
            expected_num_non_trainable_weights=2,
        )

    @parameterized.product(
        layer=(layers.MCDropout, layers.MCGaussianDropout),
        input_shape=((4, 5), (4, 2, 5), (4, 3, 3, 5)),
    )
    def test_mc_dropout(self, layer: Any, input_shape: Any) -> None:
        self.check(
            layer,
            input_shape,
            input_shape,
            arguments={"rate": 0.5},
            expected_num_losses=0,
            expected_num_trainable_weights=0,
            expected_num_non_trainable_weights=1,
        )

    @parameterized.parameters((4, 5), (4, 2, 1))
    def test_learned_scale(self, *input_shape: Any) -> None:
        self.run_layer_test(
            layers.LearnedScale,
            init_kwargs={"initial_scale": 0.5},
            input_shape=input_shape,
            expected_output_shape=(*input_shape[:-1], 2 * input_shape[-1]),
            expected_num_losses=0,
            expected_num_trainable_weights=1,
            expected_num_non_trainable_weights=0,
            expected_num_seed_generators=0,
            supports_masking=True,
        )

    @parameterized.parameters((4, 12), (4, 2, 8))
    def test_heteroscedastic_logits(self, *input_shape: Any) -> None:
        self.run_layer_test(
            layers.HeteroscedasticLogits,
            init_kwargs={"rank": 2, "num_samples": 5, "temperature": 0.5, "seed": 1},
            input_shape=input_shape,
            expected_output_shape=(*input_shape[:-1], input_shape[-1] // 4),
            expected_num_losses=0,
            expected_num_trainable_weights=0,
            expected_num_non_trainable_weights=1,
            expected_num_seed_generators=0,
            supports_masking=True,
        )

    @parameterized.parameters(True, False)
    def test_concrete_dropout(self, per_unit: Any) -> None:
        self.check(
            layers.ConcreteDropout,
            (4, 5),
            (4, 3),
            arguments={"layer": keras.layers.Dense(3), "num_data": 10, "per_unit": per_unit},
            run_mixed_precision_check=False,  # the wrapped layer has a policy of its own
            expected_num_losses=1,
            expected_num_trainable_weights=3,
            expected_num_non_trainable_weights=2,
        )

    def test_concrete_dropout_of_images(self) -> None:
        self.check(
            layers.ConcreteDropout,
            (4, 5, 5, 2),
            (4, 4, 4, 3),
            arguments={"layer": keras.layers.Conv2D(3, 2), "num_data": 10},
            run_mixed_precision_check=False,
            expected_num_losses=1,
        )


if __name__ == "__main__":
    tf.test.main()
