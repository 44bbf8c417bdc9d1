"""The guide on scaling out: its script on two workers, and the addresses of clusters."""

import os
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import tensorflow as tf
import worker_pair
from absl.testing import absltest
from pages import BLOCK, ROOT

import tfbdl

GUIDE = ROOT / "docs" / "guides" / "scale.md"
BLOCKS = [code for language, code in BLOCK.findall(GUIDE.read_text()) if language == "python"]
NETWORK = re.sub(r"^mirrored = .*", "", BLOCKS[0], flags=re.S | re.M)


def block(text: Any) -> Any:
    (code,) = (code for code in BLOCKS if text in code)
    return code


def script(folder: Any) -> Any:
    """The guide's script, on this worker; what it leaves, and its history."""
    os.chdir(folder)
    names: dict[Any, Any] = {}
    with mock.patch.object(tf.distribute, "MultiWorkerMirroredStrategy", worker_pair.strategy):
        exec(NETWORK + block("should_checkpoint"), names)
    return sorted(path.name for path in Path(folder).iterdir()), names["history"]


def files(folder: Any) -> Any:
    """Training on the guide's files, which both workers write and each reads its part of."""
    os.chdir(folder)
    names: dict[Any, Any] = {}
    code = block("TFRecordWriter").replace("network()", "model")
    with worker_pair.strategy().scope():
        exec(NETWORK + "model = network()", names)
    exec(code.replace("tfbdl.train(", "history = tfbdl.train("), names)
    return names["history"]


class GuideTest(absltest.TestCase):
    def test_on_two_workers(self) -> None:
        chief, other = (self.enter_context(tempfile.TemporaryDirectory()) for _ in range(2))
        folders = [{"folder": chief}, {"folder": other}]
        with worker_pair.WorkerPair() as pair:
            (written, history), (nothing, same) = pair.call(script, each=folders)
            self.assertEqual(written, ["model.keras", "run"])
            self.assertEqual(nothing, [])
            self.assertEqual(history, same)
            epochs = tfbdl.read_log(Path(chief) / "run" / "train.log").epochs
            self.assertEqual(epochs.tolist(), [1, 2, 3, 4, 5])
            of_files = pair.call(files, each=folders)
            self.assertEqual(of_files[0], of_files[1])
            self.assertLen(of_files[0]["loss"], 3)

    def test_slurm(self) -> None:
        slurm = {
            "SLURM_PROCID": "1",
            "SLURM_STEP_NUM_TASKS": "4",
            "SLURM_STEP_NODELIST": "node[01-04]",
            "SLURM_STEP_TASKS_PER_NODE": "1(x4)",
        }
        counting = "tensorflow.python.distribute.cluster_resolver.slurm_cluster_resolver"
        names = {"tf": tf}
        exec(block("SlurmClusterResolver()"), names)
        with (
            mock.patch.dict(os.environ, slurm),
            mock.patch(f"{counting}.get_num_gpus", return_value=4),
            mock.patch.object(tf.distribute, "MultiWorkerMirroredStrategy") as made,
        ):
            names["on_slurm"]()
            resolver = made.call_args.kwargs["cluster_resolver"]
            workers = [f"node{i:02d}:8888" for i in range(1, 5)]
            self.assertEqual(resolver.cluster_spec().as_dict(), {"worker": workers})
            self.assertEqual(resolver.get_task_info(), ("worker", 1))
            self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], "0,1,2,3")

    def test_slurm_without_gpus(self) -> None:
        slurm = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}
        slurm |= {"SLURM_STEP_NODELIST": "node[01-02]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
        arguments = re.search(r"`(gpus_per_node=.*?)`", GUIDE.read_text())[1]
        with mock.patch.dict(os.environ, slurm):
            resolver = eval(
                f"tf.distribute.cluster_resolver.SlurmClusterResolver({arguments})", {"tf": tf}
            )
            self.assertLen(resolver.cluster_spec().as_dict()["worker"], 2)

    def test_kubernetes(self) -> None:
        names = {"tf": tf}
        exec(block("JOB_COMPLETION_INDEX"), names)
        with (
            mock.patch.dict(os.environ, JOB_COMPLETION_INDEX="2"),
            mock.patch.object(tf.distribute, "MultiWorkerMirroredStrategy"),
        ):
            names["on_kubernetes"]()
            resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
            self.assertEqual((resolver.task_type, resolver.task_id), ("worker", 2))
            workers = [f"train-{i}.train:2222" for i in range(4)]
            self.assertEqual(resolver.cluster_spec().as_dict(), {"worker": workers})


if __name__ == "__main__":
    absltest.main()
