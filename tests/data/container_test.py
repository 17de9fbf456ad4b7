#!/usr/bin/python3
"""Programs written for SageMaker's containers run unchanged below `spotter pipe --root`.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH.
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pipe_test import NO_DATA, SPOTTER, Pipe  # noqa: E402

# What the documentation asks of an algorithm container's `train` program: fixed paths, texts as
# hyperparameters, the reason of a failure in a file.
TRAIN = """#!/usr/bin/python3
import json, os, sys, traceback
prefix = "/opt/ml/"
failure = os.path.join(prefix, "output/failure")
try:
    with open(os.path.join(prefix, "input/config/hyperparameters.json")) as file:
        hyperparameters = json.load(file)
    with open(os.path.join(prefix, "input/config/inputdataconfig.json")) as file:
        channels = json.load(file)
    with open(os.path.join(prefix, "input/config/resourceconfig.json")) as file:
        resources = json.load(file)
    assert resources["current_host"] in resources["hosts"]
    words = 0
    for name, channel in sorted(channels.items()):
        folder = os.path.join(prefix, "input/data", name)
        if channel["TrainingInputMode"] == "Pipe":
            for epoch in range(int(hyperparameters["epochs"])):
                with open(f"{folder}_{epoch}", "rb") as fifo:
                    words += len(fifo.read().split())
        else:
            for each in os.listdir(folder):
                with open(os.path.join(folder, each), "rb") as file:
                    words += len(file.read().split())
    if hyperparameters.get("fail") == "true":
        raise ValueError("as was asked for")
    with open(os.path.join(prefix, "checkpoints", "last"), "w") as file:
        file.write("half way")
    with open(os.path.join(prefix, "model", "words"), "w") as file:
        file.write(f"{words} {os.environ['TRAINING_JOB_NAME']}")
except Exception as error:
    trace = traceback.format_exc()
    with open(failure, "w") as file:
        file.write("Exception during training: " + str(error) + "\\n" + trace)
    print("Exception during training: " + str(error) + "\\n" + trace, file=sys.stderr)
    sys.exit(255)
sys.exit(0)
"""


class Containers(Pipe):
    def setUp(self):
        super().setUp()
        self.root = self.scratch / "opt/ml"
        self.root.mkdir(parents=True)
        self.put("files/a", b"one two")
        self.put("files/b", b"three")
        self.put("flow/a", b"four five six ")

    def container(self, command, parameters=None, status=0, options=(), **more):
        words = [SPOTTER, "pipe", "--root", str(self.root),
                 "--channel", f"train-set=s3://bucket/{self.prefix}/files/,mode=file,"
                              "content_type=text/plain",
                 "--channel", f"flow=s3://bucket/{self.prefix}/flow/", *options]
        if parameters is not None:
            path = self.scratch / "parameters.json"
            path.write_text(json.dumps(parameters))
            words += ["--hyperparameters", str(path)]
        done = subprocess.run([*words, "--", *command], env=self.environment(**more), timeout=600,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def variables(self, *rest, **more):
        out = self.container([sys.executable, "-c",
                              "import json, os; print(json.dumps(dict(os.environ)))"],
                             *rest, **more).stdout
        return json.loads(out)


class Surroundings(Containers):
    def test_the_documents_are_there(self):
        config = self.root / "input/config"
        self.container(["true"], {"epochs": 3, "activation": "relu", "layers": [1, 2]})
        read = {path.name: json.loads(path.read_text()) for path in config.iterdir()}
        self.assertEqual(read["hyperparameters.json"],
                         {"epochs": "3", "activation": "relu", "layers": "[1,2]"})
        self.assertEqual(read["inputdataconfig.json"], {
            "flow": {"TrainingInputMode": "Pipe", "S3DistributionType": "FullyReplicated",
                     "RecordWrapperType": "None"},
            "train-set": {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated",
                          "RecordWrapperType": "None", "ContentType": "text/plain"}})
        resources = read["resourceconfig.json"]
        self.assertEqual((resources["current_host"], resources["hosts"]), ("algo-1", ["algo-1"]))
        self.assertTrue(resources["network_interface_name"])
        for name in ("model", "checkpoints", "output/data"):
            self.assertTrue((self.root / name).is_dir(), name)

    def test_the_variables_are_there(self):
        root = str(self.root)
        all_ = self.variables({"batch-size": 256, "name": "relu"}, SPOTTER_JOB="a-job")
        for name, value in {
                "TRAINING_JOB_NAME": "a-job", "SM_MODEL_DIR": root + "/model",
                "SM_OUTPUT_DIR": root + "/output", "SM_OUTPUT_DATA_DIR": root + "/output/data",
                "SM_INPUT_DIR": root + "/input", "SM_INPUT_CONFIG_DIR": root + "/input/config",
                "SM_CHANNEL_TRAIN-SET": root + "/input/data/train-set",
                "SM_CHANNEL_TRAIN_SET": root + "/input/data/train-set",
                "SM_CHANNEL_FLOW": root + "/input/data/flow",
                "SM_CURRENT_HOST": "algo-1", "SM_HP_BATCH-SIZE": "256", "SM_HP_BATCH_SIZE": "256",
                "SM_HP_NAME": "relu", "SAGEMAKER_BASE_DIR": root}.items():
            self.assertEqual(all_.get(name), value, name)
        for name, value in {"SM_CHANNELS": ["flow", "train-set"], "SM_HOSTS": ["algo-1"],
                            "SM_HPS": {"batch-size": 256, "name": "relu"},
                            "SM_USER_ARGS": ["--batch-size", "256", "--name", "relu"]}.items():
            self.assertEqual(json.loads(all_[name]), value, name)
        self.assertEqual(int(all_["SM_NUM_CPUS"]), len(os.sched_getaffinity(0)))
        self.assertGreaterEqual(int(all_["SM_NUM_GPUS"]), 0)
        self.assertEqual(json.loads(all_["SM_TRAINING_ENV"])["model_dir"], root + "/model")

    def test_hyperparameters_are_read_as_the_toolkit_reads_them(self):
        # As the SDK sends them, JSON in JSON. The expected texts are the toolkit's own.
        all_ = self.variables({
            "act": '"relu"', "layers": "[10, 20]", "names": '["a", "it\'s"]', "amp": "true",
            "none": "null", "lr": "1e-3", "map": '{"b": 1, "a": "x"}', "plain": "plain text",
            "sagemaker_program": '"train.py"', "sagemaker_container_log_level": "30",
            "sagemaker_mpi_enabled": "true", "f": "0.5", "": "3", "a": "NaN",
            "b": "[-Infinity, 1e15, \"\\ud83d\", 18446744073709551616]", "c": "1" * 30,
            "d": r'["\r\u0001\\", {"z": 1, "a": NaN}]', "e": "1e16",
            "_tuning_objective_metric": "loss", "default_user_module_name": '"train"'})
        for name, value in {
                "SM_HP_ACT": "relu", "SM_HP_LAYERS": "[10,20]", "SM_HP_AMP": "true",
                "SM_HP_NONE": "", "SM_HP_LR": "0.001", "SM_HP_PLAIN": "plain text",
                "SM_HP_MAP": '{"a":"x","b":1}', "SM_USER_ENTRY_POINT": "train.py",
                "SM_LOG_LEVEL": "30", "SM_FRAMEWORK_PARAMS": '{"sagemaker_mpi_enabled":true}',
                "SM_MODULE_NAME": "train", "SM_FRAMEWORK_MODULE": "", "SM_IS_HETERO": "false",
                "SM_NUM_NEURONS": "0", "SM_INSTANCE_GROUPS": "[]", "SM_INSTANCE_GROUPS_DICT": "{}",
                "SM_CURRENT_INSTANCE_GROUP_HOSTS": "[]", "SM_DISTRIBUTION_INSTANCE_GROUPS": "[]",
                "SM_HP_A": "NaN", "SM_HP_C": "1" * 30, "SM_HP_E": "1e+16",
                "SM_HP_B": '[-Infinity,1000000000000000.0,"\\ufffd",18446744073709551616]',
                "SM_HP_D": r'["\r\u0001\\",{"a":NaN,"z":1}]',
                "SM_CURRENT_INSTANCE_GROUP": "homogeneousCluster"}.items():
            self.assertEqual(all_[name], value, name)
        self.assertEqual(json.loads(all_["SM_USER_ARGS"]), [
            "", "3", "-a", "nan", "--act", "relu", "--amp", "True",
            "-b", "[-inf, 1000000000000000.0, '\ufffd', 18446744073709551616]", "-c", "1" * 30,
            "-d", r"['\r\x01\\', {'z': 1, 'a': nan}]", "-e", "1e+16", "-f", "0.5",
            "--layers", "[10, 20]", "--lr", "0.001",
            "--map", "a=x,b=1", "--names", "['a', \"it's\"]", "--none", "",
            "--plain", "plain text"])
        self.assertFalse([name for name in all_ if name.startswith("SM_HP_SAGEMAKER_")])
        self.assertNotIn("sagemaker_program", json.loads(all_["SM_HPS"]))
        self.assertNotIn("TUNING_OBJECTIVE", "".join(all_) + all_["SM_FRAMEWORK_PARAMS"])
        every = json.loads(all_["SM_TRAINING_ENV"])
        self.assertEqual(every["additional_framework_parameters"], {"sagemaker_mpi_enabled": True})
        self.assertEqual((every["topology"], every["distribution_hosts"], every["is_hetero"]),
                         ([], ["algo-1"], False))
        self.assertNotIn("SM_TOPOLOGY", all_)
        file = json.loads((self.root / "input/config/hyperparameters.json").read_text())
        self.assertEqual(file["sagemaker_program"], '"train.py"', "as CreateTrainingJob has it")
        self.assertEqual(self.variables({})["SM_MODULE_NAME"], "None")

    def test_the_jobs_own_checkpoints_and_parameters(self):
        checkpoints = self.scratch / "volume/checkpoints"
        checkpoints.mkdir(parents=True)
        (self.root / "checkpoints").symlink_to("/where/another/instance/had/it")
        out = self.container(["sh", "-c", f"echo x >{self.root}/checkpoints/y; echo $SM_HP_A"],
                             SPOTTER_CHECKPOINTS=str(checkpoints),
                             SPOTTER_PARAMETERS='{"a": 5}').stdout
        self.assertEqual(out, "5\n")
        self.assertEqual((checkpoints / "y").read_text(), "x\n")

    def test_checkpoints_that_are_not_there_yet(self):
        for place in (self.scratch / "to be/made", self.root / "checkpoints"):
            self.container(["touch", str(self.root / "checkpoints/y")],
                           SPOTTER_CHECKPOINTS=str(place))
            self.assertTrue((place / "y").exists())
            if (self.root / "checkpoints").is_symlink():
                (self.root / "checkpoints").unlink()

    def test_parameters_may_be_a_file_as_trainers_take_them(self):
        path = self.scratch / "p.json"
        path.write_text('{"a": 6}')
        self.assertEqual(self.variables(SPOTTER_PARAMETERS=str(path))["SM_HP_A"], "6")

    def test_without_a_root_nothing_but_the_channels_is_given(self):
        self.put("a", b"x")
        out, _ = self.run_pipe(",mode=file", "sh", "-c", "env | grep -c ^SM_")
        self.assertEqual(out, b"2\n")

    def test_the_hosts_are_the_members_of_the_array(self):
        def hosts(options=(), **array):
            given = self.variables(options=options, **array)
            file = json.loads((self.root / "input/config/resourceconfig.json").read_text())
            self.assertEqual((given["SM_CURRENT_HOST"], json.loads(given["SM_HOSTS"])),
                             (file["current_host"], file["hosts"]))
            self.assertEqual(json.loads(given["SM_RESOURCE_CONFIG"]), file)
            every = json.loads(given["SM_TRAINING_ENV"])
            self.assertEqual((every["current_host"], every["hosts"], every["master_hostname"]),
                             (file["current_host"], file["hosts"], "algo-1"))
            self.assertEqual(every["is_master"], file["current_host"] == "algo-1")
            self.assertEqual(given["SM_NUM_CPUS"], str(every["num_cpus"]))
            return file["current_host"], file["hosts"]
        three = ["algo-1", "algo-2", "algo-3"]
        self.assertEqual(hosts(), ("algo-1", ["algo-1"]))
        self.assertEqual(hosts(AWS_BATCH_JOB_ARRAY_INDEX="2", AWS_BATCH_JOB_ARRAY_SIZE="3"),
                         ("algo-3", three))
        self.assertEqual(hosts(SLURM_ARRAY_TASK_ID="1", SLURM_ARRAY_TASK_MIN="1",
                               SLURM_ARRAY_TASK_COUNT="3"), ("algo-1", three))
        self.assertEqual(hosts(("--shard", "1/3")), ("algo-2", three))
        # As many as AWS Batch allows: what says all of them twice is longer than a variable may be.
        given = self.variables(AWS_BATCH_JOB_ARRAY_INDEX="9999", AWS_BATCH_JOB_ARRAY_SIZE="10000")
        self.assertEqual(given["SM_CURRENT_HOST"], "algo-10000")
        self.assertNotIn("SM_TRAINING_ENV", given)
        # Nothing is shared out by it.
        self.assertEqual(hosts(AWS_BATCH_JOB_ARRAY_INDEX="2"), ("algo-1", ["algo-1"]))

    def test_bad_parameters(self):
        self.container(["true"], [1], status=2)

    def test_a_member_of_an_array_has_its_shard(self):
        folder = self.root / "input/data"

        def shard(status=0, **array):
            done = self.container(["ls", str(folder / "part")], status=status, options=(
                "--channel", f"part=s3://bucket/{self.prefix}/files/,mode=file,sharded"), **array)
            for path in folder.glob("part/*"):
                path.unlink()
            return done.stdout.split()
        self.assertEqual(shard(), ["a", "b"])
        self.assertEqual(shard(AWS_BATCH_JOB_ARRAY_INDEX="1", AWS_BATCH_JOB_ARRAY_SIZE="2"), ["b"])
        self.assertEqual(shard(SLURM_ARRAY_TASK_ID="5", SLURM_ARRAY_TASK_MIN="5",
                               SLURM_ARRAY_TASK_STEP="3", SLURM_ARRAY_TASK_COUNT="2"), ["a"])
        shard(status=2, AWS_BATCH_JOB_ARRAY_INDEX="2", AWS_BATCH_JOB_ARRAY_SIZE="2")
        shard(status=2, AWS_BATCH_JOB_ARRAY_INDEX="2")


class Programs(Containers):
    """In a mount namespace of its own, where /opt is ours."""

    def train(self, parameters, status):
        program = self.scratch / "train"
        program.write_text(TRAIN)
        program.chmod(0o755)
        enter = ["unshare", "--mount", "--propagation", "private"]
        if os.geteuid() != 0:
            enter[1:1] = ["--user", "--map-root-user"]
        if subprocess.run([*enter, "mount", "--bind", str(self.scratch / "opt"), "/opt"],
                          capture_output=True, check=False).returncode:
            self.skipTest("no mount namespaces here")
        path = self.scratch / "parameters.json"
        path.write_text(json.dumps(parameters))
        command = [SPOTTER, "pipe", "--hyperparameters", str(path),
                   "--channel", f"train=s3://bucket/{self.prefix}/files/,mode=file",
                   "--channel", f"flow=s3://bucket/{self.prefix}/flow/", "--", str(program)]
        done = subprocess.run(
            [*enter, "sh", "-c", 'mount --bind "$0" /opt && exec "$@"',
             str(self.scratch / "opt"), *command],
            env=self.environment(TRAINING_JOB_NAME="the-job"), capture_output=True, text=True,
            timeout=600, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def test_one_written_to_the_documentation_runs_unchanged(self):
        self.train({"epochs": 2}, 0)
        self.assertEqual((self.root / "model/words").read_text(), "9 the-job")
        self.assertEqual((self.root / "checkpoints/last").read_text(), "half way")

    def test_its_reason_of_failure_is_shown(self):
        words = self.train({"epochs": 1, "fail": "true"}, 255)
        self.assertIn("the trainer says: Exception during training: as was asked for", words)
        words = self.train({"epochs": 1}, 0)
        self.assertNotIn("the trainer says", words)

    def test_no_data_has_its_own_status(self):
        (self.bucket / self.prefix / "files/a").unlink()
        (self.bucket / self.prefix / "files/b").unlink()
        self.assertIn("channel train: there is nothing", self.train({"epochs": 1}, NO_DATA))


if __name__ == "__main__":
    unittest.main()
