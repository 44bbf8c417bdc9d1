"""`tfbdl.random` against Salmon et al.'s own vectors, plain integers, and SciPy's distributions."""

import itertools
from unittest import mock

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

from tfbdl import random
from tfbdl.sampling import make_draw

N = 200_000
KEY = (123, 45, 6)

# Random123 1.14, kat_vectors, threefry2x32 with 20 rounds: (counter, key, result).
KNOWN_ANSWERS = (
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
)
PI = np.pi
# E[x^k], k = 0..8; of the logistic, (2^k - 2) pi^k |B_k| for even k.
MOMENTS = {
    "uniform": [1 / (k + 1) for k in range(9)],
    "norm": [1, 0, 1, 0, 3, 0, 15, 0, 105],
    "logistic": [1, 0, PI**2 / 3, 0, 7 * PI**4 / 15, 0, 31 * PI**6 / 21, 0, 127 * PI**8 / 15],
}
MODES = (
    ("eager", lambda f: f),
    ("graph", tf.function),
    ("xla", lambda f: tf.function(f, jit_compile=True)),
)


def key(*words):
    return tf.constant(words or KEY, tf.int32)


def threefry_in_integers(key, counter):
    """Salmon et al. 2011, section 4.2, with Python's integers and one loop over the 20 rounds."""
    rotations = (13, 15, 26, 6, 17, 29, 16, 24)
    words = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = ((c + k) % 2**32 for c, k in zip(counter, key, strict=True))
    for i in range(20):
        a = (a + b) % 2**32
        r = rotations[i % 8]
        b = ((b << r) % 2**32 | b >> (32 - r)) ^ a
        if i % 4 == 3:
            j = i // 4 + 1
            a = (a + words[j % 3]) % 2**32
            b = (b + words[(j + 1) % 3] + j) % 2**32
    return a, b


def words(*values):
    """`random.bits` that yields these words."""
    return mock.patch.object(random, "bits", return_value=tf.constant(values, tf.uint32))


def all_noise(k):
    return {
        "bits": random.bits(k, [4, 501]),
        "uniform": random.uniform(k, [2001]),
        "uniform64": random.uniform(k, [2001], "float64"),
        "normal": random.normal(k, [2001]),
        "normal64": random.normal(k, [2001], "float64"),
        "logistic": random.logistic(k, [2001]),
        "bernoulli": random.bernoulli(k, [2001], 0.3),
        "rademacher": random.rademacher(k, [2001]),
        "folded": random.bits(random.fold_in(k, 7), [9]),
        "split": random.bits(random.split(k, 9)[7], [9]),
    }


class ThreefryTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.named_parameters(*MODES)
    def test_known_answers(self, mode):
        counters, keys, expected = np.array(KNOWN_ANSWERS, np.uint32).transpose(1, 2, 0)
        got = mode(random.threefry2x32)(tuple(map(tf.constant, keys)), tuple(counters))
        self.assertAllEqual(np.array(got), expected)

    def test_against_python_integers(self):
        rng = np.random.default_rng(0)
        k0, k1, c0, c1 = rng.integers(0, 2**32, (4, 300), dtype=np.uint32)
        got = random.threefry2x32((k0, k1), (tf.constant(c0), tf.constant(c1)))
        rows = np.array([k0, k1, c0, c1]).T.tolist()
        expected = [threefry_in_integers((a, b), (c, d)) for a, b, c, d in rows]
        self.assertAllEqual(np.transpose(got), np.array(expected, np.uint32))


class SameNoiseTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.named_parameters(*MODES[1:])
    def test_as_eager(self, mode):
        expected, got = all_noise(key()), mode(all_noise)(key())
        for name, noise in expected.items():
            if name in ("normal", "normal64", "logistic"):
                tolerance = 1e-13 if name == "normal64" else 2e-5
                self.assertAllClose(got[name], noise, tolerance, tolerance)
            else:
                self.assertAllEqual(got[name], noise)

    @parameterized.parameters([()], [(0,)], [(1,)], [(7,)], [(3, 5)], [(2, 3, 4)])
    def test_shape_given_in_any_way(self, *shape):
        shape = shape[0]
        size = int(np.prod(shape))
        flat = random.normal(key(), [size])
        dynamic = tf.function(
            lambda s: random.normal(key(), s),
            input_signature=[tf.TensorSpec([None], tf.int32)],
        )
        mixed = [tf.constant(d) if i == 0 else d for i, d in enumerate(shape)]
        for noise in (
            random.normal(key(), shape),
            random.normal(key(), tf.TensorShape(shape)),
            random.normal(key(), mixed),
            dynamic(tf.constant(shape, tf.int32)),
        ):
            self.assertEqual(noise.shape, shape)
            self.assertAllEqual(tf.reshape(noise, [-1]), flat)

    @parameterized.parameters("normal", "logistic", "rademacher", "uniform")
    def test_in_vectorized_map(self, name):
        noise = getattr(random, name)
        keys = tf.constant([[1, 0, 0], [1, 1, 0], [2, 0, 5]])
        mapped = tf.vectorized_map(lambda k: noise(random.fold_in(k, 3), [11]), keys)
        self.assertAllClose(mapped, [noise(random.fold_in(k, 3), [11]) for k in keys], 1e-6, 1e-6)

    @parameterized.parameters("float16", "bfloat16", "float32", "float64")
    def test_dtype(self, dtype):
        for draw in (random.uniform, random.normal, random.logistic, random.rademacher):
            self.assertEqual(draw(key(), [3], dtype).dtype, dtype)
        self.assertEqual(random.bernoulli(key(), [3], 0.5, dtype).dtype, dtype)


class BitsTest(tf.test.TestCase):
    def test_each_bit_is_a_fair_coin(self):
        noise = random.bits(key(), [N]).numpy()
        ones = (noise[:, None] >> np.arange(32, dtype=np.uint32) & 1).mean(axis=0)
        self.assertLess(np.abs(ones - 0.5).max(), 5 * 0.5 / np.sqrt(N))

    def test_bytes_are_uniform(self):
        counts = np.bincount(random.bits(key(), [N]).numpy().view(np.uint8), minlength=256)
        self.assertGreater(scipy.stats.chisquare(counts).pvalue, 1e-5)

    def test_no_word_comes_too_often(self):
        """Pairs of equal words: a Poisson number, of mean N^2 / 2^33."""
        repeats = N - len(np.unique(random.bits(key(), [N]).numpy()))
        mean = N**2 / 2**33
        self.assertLess(abs(repeats - mean), 5 * np.sqrt(mean))

    def test_neighbours_are_independent(self):
        """Also across the two halves that one counter yields."""
        z = random.normal(key(), [N], "float64").numpy()
        for lag in (1, 2, 3, 64, N // 2 - 1, N // 2, N // 2 + 1):
            r = np.mean(z[lag:] * z[:-lag])
            self.assertLess(abs(r), 5 / np.sqrt(N - lag))


class OpenIntervalTest(tf.test.TestCase, parameterized.TestCase):
    """The extreme words, which no test would meet by chance."""

    EXTREMES = (0, 1, 2**9 - 1, 2**31 - 1, 2**31, 2**32 - 2**9, 2**32 - 2, 2**32 - 1)

    @parameterized.parameters("float16", "bfloat16", "float32", "float64")
    def test_uniform_is_inside(self, dtype):
        with words(*self.EXTREMES):
            u = random.uniform(key(), [8], dtype)
        self.assertTrue(np.all((u > 0) & (u < 1)), u)

    @parameterized.product(
        name=("normal", "logistic"), dtype=("float16", "bfloat16", "float32", "float64")
    )
    def test_quantiles_are_finite(self, name, dtype):
        with words(*self.EXTREMES):
            z = tf.cast(getattr(random, name)(key(), [8], dtype), tf.float64).numpy()
        self.assertTrue(np.all(np.isfinite(z)), z)
        self.assertAllClose(z, -z[::-1], 1e-2, 1e-2)

    @parameterized.named_parameters(*MODES)
    def test_normal_is_finite_in_every_mode(self, mode):
        with words(*self.EXTREMES):
            z = mode(lambda: random.normal(key(), [8]))()
        self.assertAllClose(z[0], scipy.stats.norm.ppf(2.0**-24), 1e-3)

    def test_values_are_equidistant(self):
        rng = np.random.default_rng(1)
        noise = rng.integers(0, 2**32, 1000, dtype=np.uint32)
        with words(*noise):
            u32 = random.uniform(key(), [1000]).numpy()
            u64 = random.uniform(key(), [1000], "float64").numpy()
        self.assertAllEqual(u32.astype(np.float64), (2 * (noise // 2**9) + 1.0) / 2**24)
        self.assertAllEqual(u64, (2.0 * noise + 1) / 2**33)


class LawTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(
        law=("uniform", "norm", "logistic"),
        dtype=("float32", "float64"),
    )
    def test_distribution(self, law, dtype):
        scipy_law, moments = getattr(scipy.stats, law), MOMENTS[law]
        draw = getattr(random, {"norm": "normal"}.get(law, law))
        x = draw(key(), [N], dtype).numpy().astype(np.float64)
        self.assertGreater(scipy.stats.kstest(x, scipy_law.cdf, method="asymp").pvalue, 1e-5)
        for power in (1, 2, 3, 4):
            error = np.sqrt((moments[2 * power] - moments[power] ** 2) / N)
            self.assertLess(abs(np.mean(x**power) - moments[power]), 5 * error)

    @parameterized.parameters("float32", "float64")
    def test_tails_of_the_normal(self, dtype):
        """As many beyond 3, 4 and 4.5 standard deviations as there should be."""
        x = np.abs(random.normal(key(), [2_000_000], dtype).numpy())
        for threshold in (3.0, 4.0, 4.5):
            expected = len(x) * 2 * scipy.stats.norm.sf(threshold)
            self.assertLess(abs(np.sum(x > threshold) - expected), 5 * np.sqrt(expected))

    @parameterized.named_parameters(*MODES)
    def test_normal_is_the_quantile_of_the_uniform(self, mode):
        def pair():
            return random.uniform(key(), [N]), random.normal(key(), [N])

        u, z = (t.numpy().astype(np.float64) for t in mode(pair)())
        self.assertAllClose(z, scipy.stats.norm.ppf(u), 1e-4, 1e-5)

    @parameterized.parameters(1e-3, 0.1, 0.5, 0.9, 0.999)
    def test_bernoulli(self, prob):
        x = random.bernoulli(key(), [N], prob).numpy()
        self.assertAllEqual(np.unique(x), [0.0, 1.0])
        error = np.sqrt(prob * (1 - prob) / N)
        self.assertLess(abs(x.mean(dtype=np.float64) - prob), 5 * error)

    def test_bernoulli_at_the_ends(self):
        with words(0, 2**32 - 1):
            self.assertAllEqual(random.bernoulli(key(), [2], 0.0), [0, 0])
            self.assertAllEqual(random.bernoulli(key(), [2], 1.0), [1, 1])
            self.assertAllEqual(random.bernoulli(key(), [2], 2.0**-32), [1, 0])
            self.assertAllEqual(random.bernoulli(key(), [2], 1 - 2.0**-32), [1, 0])
            self.assertAllEqual(random.bernoulli(key(), [2], 1 - 2.0**-53), [1, 0])

    @parameterized.parameters("float16", "bfloat16", "float32", "float64")
    def test_rademacher(self, dtype):
        """Signs of a float uniform have second moment 7/3 (a trap of edward2's flipout)."""
        x = tf.cast(random.rademacher(key(), [N], dtype), tf.float64).numpy()
        self.assertAllEqual(np.unique(x), [-1.0, 1.0])
        self.assertAllEqual(np.mean(x**2), 1.0)
        self.assertLess(abs(x.mean()), 5 / np.sqrt(N))


class StreamsTest(tf.test.TestCase):
    def keys(self):
        seed = random.Seed(9)
        base = (key(), key(123, 46, 6), key(123, 45, 7), key(124, 45, 6), key(0, 0, 0))
        folded = [random.fold_in(k, i) for k in base[:2] for i in range(4)]
        nested = [random.fold_in(random.fold_in(key(), i), j) for i, j in ((0, 1), (1, 0), (1, 1))]
        training = [seed.next() for _ in range(3)]
        draws = [seed.at(make_draw(s, i)) for s in (0, 1, 7) for i in (0, 1)]
        other = [random.Seed(10).at(make_draw(0, 0)), random.Seed(10).next()]
        return [*base, *folded, *nested, *training, *draws, *other]

    def test_streams_are_uncorrelated(self):
        n = 20_000
        z = np.stack([random.normal(k, [n]) for k in self.keys()]).astype(np.float64)
        off = (z @ z.T / n)[~np.eye(len(z), dtype=bool)]
        self.assertLess(np.abs(off).max(), 5.5 / np.sqrt(n))
        squares = (z**2 - 1) / np.sqrt(2)
        off = (squares @ squares.T / n)[~np.eye(len(z), dtype=bool)]
        self.assertLess(np.abs(off).max(), 5.5 / np.sqrt(n))

    def test_equal_keys_give_equal_noise(self):
        self.assertAllEqual(random.bits(key(), [99]), random.bits(key(), [99]))

    def test_sub_streams_of_replicas_have_keys_of_their_own(self):
        """A layer uses its key as it is, and folds of it, on every replica."""
        keys = [key(1, 2, replica) for replica in range(8)]
        keys += [random.fold_in(k, i) for k in keys for i in range(5)]
        unique, counts = np.unique(np.stack(keys), axis=0, return_counts=True)
        self.assertEmpty(unique[counts > 1].tolist())

    def test_splitting_is_folding(self):
        key = tf.constant([5, -6, 7])
        self.assertAllEqual(random.split(key, 9), [random.fold_in(key, i) for i in range(9)])

    def test_folding_collides_nowhere(self):
        """As far as the VAE's bounds fold: 60 batches of 1,000 images, 5,000 samples."""
        starts = random.Seed(0).at(make_draw(0, 0))
        batch, sample = np.indices((60, 5001), np.int32).reshape(2, -1)
        keys = tf.vectorized_map(
            lambda i: random.fold_in(random.fold_in(starts, 1000 * i[0]), i[1]), (batch, sample)
        )
        self.assertLen(np.unique(keys.numpy() & 0x7FFFFFFF, axis=0), batch.size)


class SeedTest(tf.test.TestCase, parameterized.TestCase):
    def next_keys(self, seed, n=3):
        return np.stack([seed.next() for _ in range(n)])

    @parameterized.named_parameters(*MODES)
    def test_next_never_repeats(self, mode):
        seed = random.Seed(3)
        step = mode(seed.next)
        keys = {tuple(step().numpy()) for _ in range(50)}
        self.assertLen(keys, 50)
        self.assertAllEqual(seed.state.value, [3, 50])

    def test_next_in_a_loop_inside_a_graph(self):
        seed = random.Seed(3)

        @tf.function
        def loop():
            keys = tf.TensorArray(tf.int32, 20)
            for i in tf.range(20):
                keys = keys.write(i, seed.next())
            return keys.stack()

        keys = np.concatenate([loop(), loop()])
        self.assertLen(np.unique(keys, axis=0), 40)

    def test_key(self):
        seed = random.Seed(3)
        self.assertIsNone(seed.key(False, None))
        draw = make_draw(4, 2)
        self.assertAllEqual(seed.key(True, draw), seed.at(draw))
        self.assertAllEqual(seed.key(False, draw), seed.at(draw))
        self.assertAllEqual(seed.state.value, [3, 0])
        first = seed.key(True, None)
        self.assertAllEqual(seed.state.value, [3, 1])
        self.assertAllEqual(first, self.next_keys(random.Seed(3), 1)[0])

    def test_a_draw_decides_alone(self):
        """Whatever was drawn before, and in training."""
        seed = random.Seed(3)
        before = seed.at(make_draw(0, 5))
        self.next_keys(seed)
        self.assertAllEqual(seed.at(make_draw(0, 5)), before)

    def test_draws_have_keys_of_their_own(self):
        seed = random.Seed(3)
        draws = itertools.product((0, 1, 2, 1000, 2**31 - 1), range(20))
        keys = [tuple(seed.at(make_draw(*draw)).numpy()) for draw in draws]
        keys += [tuple(k) for k in self.next_keys(seed, 20)]
        self.assertLen(set(keys), 120)

    @parameterized.parameters(0, 5, -5, 2**31 - 1, 2**31 + 5, 2**40 + 1)
    def test_any_integer_is_a_seed(self, value):
        first, second = random.Seed(value), random.Seed(value)
        self.assertAllEqual(self.next_keys(first), self.next_keys(second))
        self.assertEqual(random.Seed.from_config(first.get_config()).seed, value)

    def test_set_random_seed(self):
        keys = []
        for _ in range(2):
            keras.utils.set_random_seed(11)
            keys.append([self.next_keys(random.Seed()) for _ in range(2)])
        self.assertAllEqual(keys[0], keys[1])
        self.assertNotEqual(keys[0][0][0, 0], keys[0][1][0, 0])

    @parameterized.parameters("keras", "weights", "checkpoint")
    def test_state_is_saved(self, route):
        def make():
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
            model.noise = random.Seed()
            return model

        model = make()
        self.next_keys(model.noise)
        folder = self.get_temp_dir()
        if route == "keras":
            model = keras.Sequential([keras.Input((2,)), Noisy()])
            self.next_keys(model.layers[-1].noise)
            model.save(f"{folder}/m.keras")
            loaded = keras.models.load_model(f"{folder}/m.keras", {"Noisy": Noisy})
            model, loaded = model.layers[-1], loaded.layers[-1]
        elif route == "weights":
            model.save_weights(f"{folder}/m.weights.h5")
            loaded = make()
            loaded.load_weights(f"{folder}/m.weights.h5")
        else:
            path = tf.train.Checkpoint(model=model).save(f"{folder}/m")
            loaded = make()
            tf.train.Checkpoint(model=loaded).restore(path).assert_existing_objects_matched()
        self.assertAllEqual(loaded.noise.state.value, model.noise.state.value)
        self.assertAllEqual(self.next_keys(loaded.noise), self.next_keys(model.noise))
        self.assertAllEqual(loaded.noise.at(make_draw(0, 1)), model.noise.at(make_draw(0, 1)))


class Noisy(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.noise = random.Seed()

    def call(self, x):
        return x


class ReplicasTest(tf.test.TestCase):
    def test_noise_differs_in_training_and_agrees_in_a_draw(self):
        strategy = two_replicas.strategy()
        with strategy.scope():
            seed = random.Seed(3)

        @tf.function
        def noise():
            return strategy.run(
                lambda: (
                    random.normal(seed.next(), [N // 10]),
                    random.normal(seed.at(make_draw(0, 1)), [9]),
                )
            )

        steps = [noise() for _ in range(2)]
        streams = [z.numpy() for training, _ in steps for z in training.values]
        correlations = np.corrcoef(streams)[~np.eye(4, dtype=bool)]
        self.assertLess(np.abs(correlations).max(), 5 / np.sqrt(N // 10))
        for _, drawn in steps:
            for z in drawn.values:
                self.assertAllEqual(z, random.normal(seed.at(make_draw(0, 1)), [9]))


if __name__ == "__main__":
    tf.test.main()
