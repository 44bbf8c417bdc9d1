"""`tfbdl.random` against Salmon et al.'s own vectors, plain integers, and SciPy's distributions."""

import itertools
import json
from typing import Any
from unittest import mock

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

from tfbdl import priors, random
from tfbdl.draws import make_draw

N = 200_000
SEEDS = (0, 5, -5, -1, 2**31 - 1, 2**31 + 5, 2**32 + 5, 2**40 + 1, -(2**63), 2**63 + 5)
KEY = 12345

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


# SplitMix64 in the state 1234567, as Java's SplittableRandom and Vigna's splitmix64.c give it.
SPLITMIX = (
    (6457827717110365317, 3203168211198807973, 9817491932198370423),
    (4593380528125082431, 16408922859458223821),
)


def key(value: Any = KEY) -> Any:
    return tf.constant(value, tf.int64)


def threefry_in_integers(key: Any, counter: Any) -> Any:
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


def words(*values: Any) -> Any:
    """`random.bits` that yields these words."""
    return mock.patch.object(random, "bits", return_value=tf.constant(values, tf.uint32))


def all_noise(k: Any) -> Any:
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
        "below": random.tails(k, [2001])[0],
        "above": random.tails(k, [2001])[1],
        "halves": random.halves(random.fold_in(k, -7)),
    }


class ThreefryTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.named_parameters(*MODES)
    def test_known_answers(self, mode: Any) -> None:
        counters, keys, expected = np.array(KNOWN_ANSWERS, np.uint32).transpose(1, 2, 0)
        got = mode(random.threefry2x32)(tuple(map(tf.constant, keys)), tuple(counters))
        self.assertAllEqual(np.array(got), expected)

    def test_against_python_integers(self) -> None:
        rng = np.random.default_rng(0)
        k0, k1, c0, c1 = rng.integers(0, 2**32, (4, 300), dtype=np.uint32)
        got = random.threefry2x32((k0, k1), (tf.constant(c0), tf.constant(c1)))
        rows = np.array([k0, k1, c0, c1]).T.tolist()
        expected = [threefry_in_integers((a, b), (c, d)) for a, b, c, d in rows]
        self.assertAllEqual(np.transpose(got), np.array(expected, np.uint32))


class SameNoiseTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.named_parameters(*MODES[1:])
    def test_as_eager(self, mode: Any) -> None:
        expected, got = all_noise(key()), mode(all_noise)(key())
        for name, noise in expected.items():
            if name in ("normal", "normal64", "logistic"):
                tolerance = 1e-13 if name == "normal64" else 2e-5
                self.assertAllClose(got[name], noise, tolerance, tolerance)
            else:
                self.assertAllEqual(got[name], noise)

    @parameterized.parameters([()], [(0,)], [(1,)], [(7,)], [(3, 5)], [(2, 3, 4)])
    def test_shape_given_in_any_way(self, *shape: Any) -> None:
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
    def test_in_vectorized_map(self, name: str) -> None:
        noise = getattr(random, name)
        keys = tf.constant([1, -1, 2**62], tf.int64)
        mapped = tf.vectorized_map(lambda k: noise(random.fold_in(k, 3), [11]), keys)
        self.assertAllClose(mapped, [noise(random.fold_in(k, 3), [11]) for k in keys], 1e-6, 1e-6)
        words = tf.vectorized_map(lambda k: random.bits(random.fold_in(k, 3), [11]), keys)
        self.assertAllEqual(words, [random.bits(random.fold_in(k, 3), [11]) for k in keys])

    @parameterized.parameters("float16", "bfloat16", "float32", "float64")
    def test_dtype(self, dtype: Any) -> None:
        for draw in (random.uniform, random.normal, random.logistic, random.rademacher):
            self.assertEqual(draw(key(), [3], dtype).dtype, dtype)
        self.assertEqual(random.bernoulli(key(), [3], 0.5, dtype).dtype, dtype)


class BitsTest(tf.test.TestCase):
    def test_each_bit_is_a_fair_coin(self) -> None:
        noise = random.bits(key(), [N]).numpy()
        ones = (noise[:, None] >> np.arange(32, dtype=np.uint32) & 1).mean(axis=0)
        self.assertLess(np.abs(ones - 0.5).max(), 5 * 0.5 / np.sqrt(N))

    def test_bytes_are_uniform(self) -> None:
        counts = np.bincount(random.bits(key(), [N]).numpy().view(np.uint8), minlength=256)
        self.assertGreater(scipy.stats.chisquare(counts).pvalue, 1e-5)

    def test_no_word_comes_too_often(self) -> None:
        """Pairs of equal words: a Poisson number, of mean N^2 / 2^33."""
        repeats = N - len(np.unique(random.bits(key(), [N]).numpy()))
        mean = N**2 / 2**33
        self.assertLess(abs(repeats - mean), 5 * np.sqrt(mean))

    def test_neighbours_are_independent(self) -> None:
        """Also across the two halves that one counter yields."""
        z = random.normal(key(), [N], "float64").numpy()
        for lag in (1, 2, 3, 64, N // 2 - 1, N // 2, N // 2 + 1):
            r = np.mean(z[lag:] * z[:-lag])
            self.assertLess(abs(r), 5 / np.sqrt(N - lag))


class OpenIntervalTest(tf.test.TestCase, parameterized.TestCase):
    """The extreme words, which no test would meet by chance."""

    EXTREMES = (0, 1, 2**9 - 1, 2**31 - 1, 2**31, 2**32 - 2**9, 2**32 - 2, 2**32 - 1)

    @parameterized.parameters("float16", "bfloat16", "float32", "float64")
    def test_uniform_is_inside(self, dtype: Any) -> None:
        with words(*self.EXTREMES):
            u = random.uniform(key(), [8], dtype)
        self.assertTrue(np.all((u > 0) & (u < 1)), u)

    @parameterized.product(
        name=("normal", "logistic"), dtype=("float16", "bfloat16", "float32", "float64")
    )
    def test_quantiles_are_finite(self, name: str, dtype: Any) -> None:
        with words(*self.EXTREMES):
            z = tf.cast(getattr(random, name)(key(), [8], dtype), tf.float64).numpy()
        self.assertTrue(np.all(np.isfinite(z)), z)
        self.assertAllClose(z, -z[::-1], 1e-2, 1e-2)

    @parameterized.named_parameters(*MODES)
    def test_normal_is_finite_in_every_mode(self, mode: Any) -> None:
        with words(*self.EXTREMES):
            z = mode(lambda: random.normal(key(), [8]))()
        self.assertAllClose(z[0], scipy.stats.norm.ppf(2.0**-33), 4e-7)
        self.assertAllClose(z[-1], scipy.stats.norm.isf(2.0**-33), 4e-7)

    @parameterized.named_parameters(*MODES)
    def test_all_digits_near_both_ends(self, mode: Any) -> None:
        rng = np.random.default_rng(1)
        small = rng.integers(0, 2 ** rng.integers(1, 32, 1000), dtype=np.uint32)
        noise = np.concatenate([small, ~small])
        exact = (noise.astype(np.float64) + 0.5) / 2**32
        for dtype, digits in (("float32", 2.0**-23), ("float64", 2.0**-52)):
            with words(*noise):
                u, (below, above) = mode(
                    lambda dtype=dtype: (
                        random.uniform(key(), [2000], dtype),
                        random.tails(key(), [2000], dtype),
                    )
                )()
            np.testing.assert_allclose(np.float64(below), exact, rtol=digits)
            np.testing.assert_allclose(np.float64(above), 1.0 - exact, rtol=digits)
            np.testing.assert_allclose(np.float64(u), exact, rtol=digits)


class LawTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(
        law=("uniform", "norm", "logistic"),
        dtype=("float32", "float64"),
    )
    def test_distribution(self, law: Any, dtype: Any) -> None:
        scipy_law, moments = getattr(scipy.stats, law), MOMENTS[law]
        draw = getattr(random, {"norm": "normal"}.get(law, law))
        x = draw(key(), [N], dtype).numpy().astype(np.float64)
        self.assertGreater(scipy.stats.kstest(x, scipy_law.cdf, method="asymp").pvalue, 1e-5)
        for power in (1, 2, 3, 4):
            error = np.sqrt((moments[2 * power] - moments[power] ** 2) / N)
            self.assertLess(abs(np.mean(x**power) - moments[power]), 5 * error)

    @parameterized.parameters("float32", "float64")
    def test_tails_of_the_normal(self, dtype: Any) -> None:
        """As many beyond 3, 4 and 4.5 standard deviations as there should be."""
        x = np.abs(random.normal(key(), [2_000_000], dtype).numpy())
        for threshold in (3.0, 4.0, 4.5):
            expected = len(x) * 2 * scipy.stats.norm.sf(threshold)
            self.assertLess(abs(np.sum(x > threshold) - expected), 5 * np.sqrt(expected))

    @parameterized.parameters("float32", "float64")
    def test_tails_of_the_normal_to_the_last_word(self, dtype: Any) -> None:
        """All words of either tail beyond 4 are drawn: their law is the normal's but for one word.

        What float32 had with 23 bits was one atom at 5.29.
        """
        num = 140_000
        with words(*range(num)):
            lower = random.normal(key(), [num], dtype).numpy()
        with words(*range(2**32 - num, 2**32)):
            upper = random.normal(key(), [num], dtype).numpy()
        self.assertAllClose(upper, -lower[::-1], 1e-6)
        self.assertTrue(np.all(np.diff(lower) >= 0))
        for threshold in (4.0, 4.5, 5.0, 5.3, 5.5, 6.0, 6.2, 6.3):
            expected = 2.0**32 * scipy.stats.norm.sf(threshold)
            self.assertLess(abs(np.sum(lower < -threshold) - expected), 1.0)
        self.assertAllClose(-lower[0], 6.337957754553790, 1e-6)

    def test_moments_of_the_normal(self) -> None:
        """Over all words, of which the centre is taken in steps: no moment is out by 1e-6."""
        tail = np.arange(2**20)
        step = 2**12
        centre = np.arange(2**20, 2**31, step) + step // 2
        with words(*tail, *centre):
            z = random.normal(key(), [len(tail) + len(centre)]).numpy().astype(np.float64)
        weight = np.concatenate([np.ones(len(tail)), np.full(len(centre), step)]) / 2.0**31
        for power in (2, 4, 6, 8):
            self.assertAllClose(np.sum(weight * z**power), MOMENTS["norm"][power], 2e-6)

    @parameterized.parameters("logistic", "laplace")
    def test_tails_of_other_laws(self, name: str) -> None:
        """To the last word, through the layers and priors that draw them."""
        draw = {
            "logistic": lambda: random.logistic(key(), [4]),
            "laplace": lambda: priors.Laplace(1.0).sample(key(), [4]),
        }[name]
        with words(0, 1, 2**32 - 2, 2**32 - 1):
            x = draw().numpy()
        tails = getattr(scipy.stats, name).ppf([2.0**-33, 3 * 2.0**-33])
        self.assertAllClose(x, [*tails, *-tails[::-1]], 1e-6)

    @parameterized.named_parameters(*MODES)
    def test_normal_is_the_quantile_of_the_uniform(self, mode: Any) -> None:
        def pair() -> Any:
            return (*random.tails(key(), [N]), random.normal(key(), [N]))

        below, above, z = (t.numpy().astype(np.float64) for t in mode(pair)())
        expected = np.where(below < 0.5, scipy.stats.norm.ppf(below), scipy.stats.norm.isf(above))
        self.assertAllClose(z, expected, 1e-6, 1e-6)

    @parameterized.parameters(1e-3, 0.1, 0.5, 0.9, 0.999)
    def test_bernoulli(self, prob: Any) -> None:
        x = random.bernoulli(key(), [N], prob).numpy()
        self.assertAllEqual(np.unique(x), [0.0, 1.0])
        error = np.sqrt(prob * (1 - prob) / N)
        self.assertLess(abs(x.mean(dtype=np.float64) - prob), 5 * error)

    def test_bernoulli_at_the_ends(self) -> None:
        with words(0, 2**32 - 1):
            self.assertAllEqual(random.bernoulli(key(), [2], 0.0), [0, 0])
            self.assertAllEqual(random.bernoulli(key(), [2], 1.0), [1, 1])
            self.assertAllEqual(random.bernoulli(key(), [2], 2.0**-32), [1, 0])
            self.assertAllEqual(random.bernoulli(key(), [2], 1 - 2.0**-32), [1, 0])
            self.assertAllEqual(random.bernoulli(key(), [2], 1 - 2.0**-53), [1, 0])

    @parameterized.parameters("float16", "bfloat16", "float32", "float64")
    def test_rademacher(self, dtype: Any) -> None:
        """Signs of a float uniform have second moment 7/3 (a trap of edward2's flipout)."""
        x = tf.cast(random.rademacher(key(), [N], dtype), tf.float64).numpy()
        self.assertAllEqual(np.unique(x), [-1.0, 1.0])
        self.assertAllEqual(np.mean(x**2), 1.0)
        self.assertLess(abs(x.mean()), 5 / np.sqrt(N))


class KeysTest(tf.test.TestCase):
    """Streams of different keys are independent; what goes by different names has other keys."""

    def keys(self) -> Any:
        seed = random.Seed(9)
        base = (key(), key(KEY + 1), key(KEY + 2**32), key(-KEY), key(0))
        folded = [random.fold_in(k, i) for k in base[:2] for i in range(4)]
        nested = [random.fold_in(random.fold_in(key(), i), j) for i, j in ((0, 1), (1, 0), (1, 1))]
        training = [seed.next() for _ in range(3)]
        draws = [seed.at(make_draw(s, i)) for s in (0, 1, 7) for i in (0, 1)]
        other = [random.Seed(10).at(make_draw(0, 0)), random.Seed(10).next()]
        return [*base, *folded, *nested, *training, *draws, *other]

    def test_streams_are_uncorrelated(self) -> None:
        n = 20_000
        z = np.stack([random.normal(k, [n]) for k in self.keys()]).astype(np.float64)
        off = (z @ z.T / n)[~np.eye(len(z), dtype=bool)]
        self.assertLess(np.abs(off).max(), 5.5 / np.sqrt(n))
        squares = (z**2 - 1) / np.sqrt(2)
        off = (squares @ squares.T / n)[~np.eye(len(z), dtype=bool)]
        self.assertLess(np.abs(off).max(), 5.5 / np.sqrt(n))

    def test_equal_keys_give_equal_noise(self) -> None:
        self.assertAllEqual(random.bits(key(), [99]), random.bits(key(), [99]))

    def test_known_answers_of_splitmix(self) -> None:
        expected = [value for row in SPLITMIX for value in row]
        self.assertAllEqual(random.split(key(1234567), 5).numpy().view(np.uint64), expected)

    def test_splitting_is_folding(self) -> None:
        self.assertAllEqual(random.split(key(), 9), [random.fold_in(key(), i) for i in range(9)])

    def test_every_bit_of_a_key_and_of_what_is_folded_in_counts(self) -> None:
        """One bit changes half of the bits of the key, and of the noise."""
        bits = [1 << i for i in range(64)]
        for change in (
            lambda bit: random.fold_in(key(random.word(KEY ^ bit)), 3),
            lambda bit: random.fold_in(key(), random.word(3 ^ bit)),
            lambda bit: random.key_of(KEY ^ bit, "test"),
        ):
            keys = np.array([int(change(bit)) for bit in (0, *bits)]).view(np.uint64)
            self.assertLen(set(keys), 65)
            changed = [int(k ^ keys[0]).bit_count() for k in keys[1:]]
            self.assertBetween(min(changed), 14, 32)
            self.assertLess(abs(np.mean(changed) - 32), 5 * 4 / 8)
        first = random.bits(key(), [256]).numpy()
        for bit in bits:
            other = random.bits(key(random.word(KEY ^ bit)), [256]).numpy()
            share = np.unpackbits((first ^ other).view(np.uint8)).mean()
            self.assertLess(abs(share - 0.5), 5 * 0.5 / np.sqrt(32 * 256))

    def test_keys_collide_nowhere(self) -> None:
        """Layers with seeds in a row: steps, replicas, streams; draws of many seeds; the VAE."""

        def folded(keys: Any, *numbers: Any) -> Any:
            for n in numbers:
                keys = random._sub_stream(keys[:, None], tf.range(n[0], n[1], dtype=tf.int64))
                keys = tf.reshape(keys, [-1])
            return keys

        seeds = [*range(8), -1, 2**31, 2**32, 2**63]
        layers = tf.stack([random.Seed(s).state.value[0] for s in seeds])
        draws = folded(layers, (-1, 0))
        steps = folded(layers, (0, 10_000), (0, 4))
        sets = [
            steps,
            folded(steps, (0, 5)),
            folded(draws, (0, 50), (0, 200)),
            folded(draws, (0, 50), (0, 200), (0, 5)),
            folded(draws[:1], (0, 1), (0, 1), (0, 60), (0, 5001)),
            *[random.key_of(s, "optimizer")[None] for s in seeds],
        ]
        keys = np.concatenate([np.asarray(part) for part in sets])
        self.assertGreater(len(keys), 3_000_000)
        self.assertLen(np.unique(keys), len(keys))
        self.assertEqual(
            int(steps[4 * 7 + 2]), int(random.fold_in(random.fold_in(layers[0], 7), 2))
        )


class SeedTest(tf.test.TestCase, parameterized.TestCase):
    def next_keys(self, seed: int, n: int = 3) -> Any:
        return np.stack([seed.next() for _ in range(n)])

    @parameterized.named_parameters(*MODES)
    def test_next_never_repeats(self, mode: Any) -> None:
        seed = random.Seed(3)
        step = mode(seed.next)
        keys = {int(step()) for _ in range(50)}
        self.assertLen(keys, 50)
        self.assertAllEqual(seed.state.value, [random.key_of(3, "layer"), 50])

    def test_next_in_a_loop_inside_a_graph(self) -> None:
        seed = random.Seed(3)

        @tf.function
        def loop() -> Any:
            keys = tf.TensorArray(tf.int64, 20)
            for i in tf.range(20):
                keys = keys.write(i, seed.next())
            return keys.stack()

        keys = np.concatenate([loop(), loop()])
        self.assertLen(np.unique(keys, axis=0), 40)

    def test_key(self) -> None:
        seed = random.Seed(3)
        self.assertIsNone(seed.key(False, None))
        draw = make_draw(4, 2)
        self.assertAllEqual(seed.key(True, draw), seed.at(draw))
        self.assertAllEqual(seed.key(False, draw), seed.at(draw))
        self.assertAllEqual(seed.state.value[1], 0)
        first = seed.key(True, None)
        self.assertAllEqual(seed.state.value[1], 1)
        self.assertAllEqual(first, self.next_keys(random.Seed(3), 1)[0])

    def test_a_draw_decides_alone(self) -> None:
        """Whatever was drawn before, and in training."""
        seed = random.Seed(3)
        before = seed.at(make_draw(0, 5))
        self.next_keys(seed)
        self.assertAllEqual(seed.at(make_draw(0, 5)), before)

    def test_draws_have_keys_of_their_own(self) -> None:
        seed = random.Seed(3)
        draws = list(itertools.product((*SEEDS, 2, 1000), range(20)))
        keys = [int(seed.at(make_draw(*draw))) for draw in draws]
        keys += list(self.next_keys(seed, 20))
        self.assertLen(set(keys), len(draws) + 20)

    @parameterized.parameters(*SEEDS, np.int32(-5), np.uint64(2**64 - 5))
    def test_any_integer_of_64_bits_is_a_seed(self, value: Any) -> None:
        first, second = random.Seed(value), random.Seed(value)
        self.assertAllEqual(self.next_keys(first), self.next_keys(second))
        config = json.loads(json.dumps(first.get_config()))
        self.assertEqual(random.Seed.from_config(config).seed, value)
        self.assertAllEqual(first.at(make_draw(value, 1)), second.at(make_draw(int(value), 1)))

    def test_all_bits_of_a_seed_count(self) -> None:
        self.assertLen({tuple(self.next_keys(random.Seed(value))) for value in SEEDS}, len(SEEDS))

    @parameterized.parameters(2**64, -(2**63) - 1, 1.0, True, "1")
    def test_nothing_else_is_a_seed(self, value: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^seed=.* must be an integer of 64 bits$"):
            random.Seed(value)

    def test_set_random_seed(self) -> None:
        keys = []
        for _ in range(2):
            keras.utils.set_random_seed(11)
            keys.append([self.next_keys(random.Seed()) for _ in range(2)])
        self.assertAllEqual(keys[0], keys[1])
        self.assertNotEqual(keys[0][0][0], keys[0][1][0])

    @parameterized.parameters("keras", "weights", "checkpoint")
    def test_state_is_saved(self, route: Any) -> None:
        def make() -> Any:
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
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.noise = random.Seed()

    def call(self, x: Any) -> Any:
        return x


class ReplicasTest(tf.test.TestCase):
    def test_noise_differs_in_training_and_agrees_in_a_draw(self) -> None:
        strategy = two_replicas.strategy()
        with strategy.scope():
            seed = random.Seed(3)

        @tf.function
        def noise() -> Any:
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
