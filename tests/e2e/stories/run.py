"""`spotter run -- COMMAND`: a task of somebody else's engine, without EC2 and without a service."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import emulator
import fake_trainer
import harness
import terminal
from emulator import LIMIT, wait

TRAINER = pathlib.Path(fake_trainer.__file__)


class RunCase(unittest.TestCase):
    """A folder as the storage, and commands run on it."""

    steps = 40

    def setUp(self):
        self.place = emulator.own_place(self, "run")
        self.storage = self.place / "storage"
        self.storage.mkdir()
        self.journal = self.place / "journal"
        self.journal.mkdir()
        # A home of its own: the trainer's login shell would read this user's profile. No metadata
        # service listens there.
        self.environment = {**os.environ, "HOME": str(self.place),
                            "SPOTTER_RUN": str(self.place / "run"),
                            "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9",
                            "STEPS": str(self.steps), "PACE": "0.1", "FORMAT": "spotter",
                            "JOURNAL": str(self.journal)}
        self.output = self.place / "output"

    def start(self, *words, options=(), **environment):
        command = words or ("/usr/bin/python3", str(TRAINER))
        with open(self.output, "ab") as output:
            return subprocess.Popen(
                [f"{harness.BINARIES}/spotter", "run", "--storage", str(self.storage), *options,
                 "--", *command],
                env={**self.environment, **environment}, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True)

    def end(self, process):
        try:
            return process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.fail(f"it did not end:\n{self.output.read_text()}")

    def last_line(self):
        return self.output.read_text(errors="replace").splitlines()[-1]

    def said(self, words):
        return words in self.output.read_text(errors="replace")

    def steps_done(self):
        return [int(line.split()[1]) for path in sorted(self.journal.iterdir())
                for line in path.read_text().splitlines()]


class Run(RunCase):
    def test_it_is_interrupted_and_run_again_and_finishes(self):
        first = self.start()
        wait("some steps", lambda: len(self.steps_done()) >= 5, 60)
        first.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(first), 75)
        self.assertTrue(self.said("stopped at step"), "what the trainer prints is shown")
        self.assertRegex(self.last_line(), "stopped as asked: run it again, .* checkpoint of step")
        self.assertEqual(self.end(self.start()), 0)
        self.assertRegex(self.last_line(), "finished: the result is durable")
        self.assertEqual(self.steps_done(), list(range(1, self.steps + 1)), "each step once")
        home = self.storage / "run"
        self.assertEqual((home / "result" / "weights.bin").read_text(),
                         fake_trainer.result_of(self.steps))
        self.assertEqual(json.loads((home / "DONE").read_text())["job"], "run")
        # Done is done: nothing is trained again.
        self.assertEqual(self.end(self.start()), 0)
        self.assertEqual(len(self.steps_done()), self.steps)
        self.assertNotIn("metadata: ", self.output.read_text(), "it need be no instance of EC2")

    def test_who_one_is_at_aws_stays_as_it_is(self):
        given = {"AWS_ACCESS_KEY_ID": "AKIAMINE", "AWS_SECRET_ACCESS_KEY": "mine",
                 "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/mine"}
        seen = self.place / "seen"
        self.assertEqual(self.end(self.start("sh", "-c", f"env >{seen}", **given)), 0)
        has = {line.split("=", 1)[0]: line.split("=", 1)[1]
               for line in seen.read_text().splitlines() if line.startswith("AWS_")}
        had = {name: value for name, value in {**self.environment, **given}.items()
               if name.startswith("AWS_")}
        self.assertEqual(has, had)

    def test_the_jobs_environment_is_before_the_callers(self):
        python = self.place / "env/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\necho $VIRTUAL_ENV $SPOTTER_LIBRARY >seen\n")
        python.chmod(0o755)
        job = self.place / "job.yaml"
        job.write_text("job: run\nstorage: {folder: {path: /}}\n"
                       "trainer: {command: python, environment: venv env}\n")
        for words in ((), ("python",)):
            done = subprocess.run(
                [f"{harness.BINARIES}/spotter", "run", "--job", str(job), "--storage",
                 str(self.storage), *(("--", *words) if words else ())], cwd=self.place,
                check=False, env={**self.environment, "VIRTUAL_ENV": "/callers",
                                  "SPOTTER_LIBRARY": "/mine"}, timeout=60)
            self.assertEqual(done.returncode, 0)
            self.assertEqual((self.place / "seen").read_text(), f"{self.place}/env /mine\n")
            (self.place / "seen").unlink()
            shutil.rmtree(self.storage / "run")

    def test_a_failure_is_its_own_exit_status_and_not_tried_again(self):
        count = self.place / "count"
        status = self.end(self.start("/bin/sh", "-c", f"echo x >>{count}; exit 9"))
        self.assertEqual(status, 9)
        self.assertRegex(self.last_line(), "gave up: .* exit status 9 "
                         r"\(on_failure.attempts_without_progress: 1\)")
        self.assertEqual(count.read_text(), "x\n")
        self.assertEqual(self.end(self.start("/bin/sh", "-c", "kill -SEGV $$")), 128 + 11)

    def test_lost_before_each_first_checkpoint_it_gives_up_and_says_by_which_limit(self):
        job = self.place / "job.yaml"
        job.write_text("job: run\nstorage: {folder: {path: /}}\ntrainer: {command: x}\n"
                       "on_failure: {attempts_without_progress: 1, starts_per_attempt: 2, "
                       "then: hold}\n")
        count = self.place / "count"
        command = ("/bin/sh", "-c", f"echo x >>{count}; exec sleep 1000")
        for begun in ("x\n", "x\nx\n"):
            lost = self.start(*command, options=("--job", str(job)))
            wait("the trainer", lambda: count.exists() and count.read_text() == begun, 60)
            lost.kill()
            emulator.sweep(self.place)
            self.end(lost)
            wait("the machine's end", lambda: not emulator.leftovers(self.place, 0), 60)
        self.assertEqual(self.end(self.start(*command, options=("--job", str(job)))), 1)
        self.assertRegex(self.last_line(),
                         "gave up: the trainer was started 2 times .*starts_per_attempt: 2.*raise")
        history = (self.storage / "run/.spotter/history.jsonl").read_text()
        self.assertIn("gave-up-starts-in-vain", history)
        self.assertEqual(count.read_text(), "x\nx\n")

    def test_what_it_is_given_is_checked_before_anything_starts(self):
        job = self.place / "job.yaml"
        job.write_text("job: UPPER\nstorage: {folder: {path: /}}\ntrainer: {command: x}\n")
        self.assertEqual(self.end(self.start(options=("--job", str(job)))), 2)
        self.assertTrue(self.said("is not a job's name"))
        for wrong, why in ((str(self.place / "no/where"), "no/where is no folder"),
                           ("s3:/bucket/x", "s3://bucket/prefix has two slashes")):
            refused = subprocess.run(
                [f"{harness.BINARIES}/spotter", "run", "--storage", wrong, "--", "true"],
                check=False, env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(why, refused.stderr)
        job.write_text("job: a\nstorage: {ebs: {tag: {Name: v}}}\ntrainer: {command: x}\n")
        bare = subprocess.run([f"{harness.BINARIES}/spotter", "run", "--job", str(job)],
                              check=False, env=self.environment, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(bare.returncode, 2)
        self.assertIn("--storage", bare.stderr)

    def test_one_at_a_time_on_a_machine(self):
        first = self.start()
        wait("some steps", lambda: len(self.steps_done()) >= 2, 60)
        self.assertEqual(self.end(self.start()), 1)
        self.assertTrue(self.said("another agent is at work"))
        self.assertEqual(self.end(first), 0)

    def wait_beside_another(self, start):
        """What is left of the killed agent may hold its lock for a moment."""
        self.output.write_text("")
        tried = [start()]

        def waits():
            if tried[-1].poll() is not None:
                tried.append(start())
            return self.said("a trainer of job one runs here (pid ")

        wait("it to say whose trainer runs", waits, 60)
        return tried[-1]

    def test_a_trainer_of_another_job_is_not_taken_over(self):
        pid, go = self.place / "pid", self.place / "go"

        def start(name, command):
            job = self.place / f"{name}.yaml"
            job.write_text(f"job: {name}\nstorage: {{folder: {{path: {self.storage}}}}}\n"
                           "trainer: {command: x}\n")
            return self.start("/bin/sh", "-c", command, options=("--job", str(job)))

        agent = start("one", f"echo $$ >{pid}.new; mv {pid}.new {pid}; "
                             f"while [ ! -e {go} ]; do sleep 0.1; done; touch {pid}.by-itself")
        wait("its trainer", pid.exists, 60)
        agent.kill()
        agent.wait()
        other = self.place / "other"
        try:
            waiting = self.wait_beside_another(lambda: start("other", f"touch {other}"))
            waiting.terminate()
            self.assertEqual(self.end(waiting), 75, "it waits for nothing when it is to leave")
            waiting = self.wait_beside_another(lambda: start("other", f"touch {other}"))
            self.assertFalse(other.exists())
        finally:
            go.touch()
        self.assertEqual(self.end(waiting), 0)
        self.assertTrue(other.exists(), "its own trainer")
        self.assertTrue((self.place / "pid.by-itself").exists(), "the other one was left alone")

    def test_a_trainer_that_hears_nothing_is_killed_in_time(self):
        first = self.start(BEHAVIOUR="deaf", STEPS="100000")
        wait("some steps", lambda: len(self.steps_done()) >= 2, 60)
        first.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(first), 75)
        self.assertEqual(self.end(self.start()), 0)
        done = self.steps_done()
        self.assertEqual(len(done) - len(set(done)), 0, "a durable step was done again")


class AtATerminal(RunCase):
    """A person's laptop: a terminal, and no folder for the run but the usual one."""

    def setUp(self):
        super().setUp()
        self.runtime = self.place / "runtime"
        self.runtime.mkdir()
        del self.environment["SPOTTER_RUN"]
        self.environment.update(XDG_RUNTIME_DIR=str(self.runtime), TMPDIR=str(self.runtime),
                                AWS_EC2_METADATA_DISABLED="true")

    def tell(self, *words):
        return subprocess.run([f"{harness.BINARIES}/spotter", *words], env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=60, check=False)

    def run_at_terminal(self, *command, **environment):
        return terminal.Terminal(self, [f"{harness.BINARIES}/spotter", "run", "--storage",
                                        str(self.storage), "--", *command],
                                 env={**self.environment, **environment})

    def train(self, **environment):
        before = len(self.steps_done())
        me = self.run_at_terminal("/usr/bin/python3", str(TRAINER), **environment)
        me.until(lambda _: len(self.steps_done()) >= before + 3)
        return me

    def test_ctrl_c_is_a_notice_and_three_of_them_wait_for_nothing(self):
        me = self.train(BEHAVIOUR="deaf", STEPS="100000")
        me.type(terminal.INTERRUPT)
        me.until(lambda shown: "Ctrl-C twice more stops at once" in shown)
        me.type(terminal.INTERRUPT)
        me.until(lambda shown: "Ctrl-C once more stops at once" in shown)
        me.type(terminal.INTERRUPT)
        self.assertEqual(me.ended(), 75, me.shown)
        self.assertIn("no checkpoint is waited for", me.shown)
        self.assertNotIn("metadata service:", me.shown)
        self.assertEqual(list(self.runtime.iterdir()), [])
        again = self.train()
        again.type(terminal.INTERRUPT)
        self.assertEqual(again.ended(), 75)
        self.assertIn("stopped at step", again.shown)

    def test_a_terminal_that_closes_is_a_notice(self):
        me = self.train()
        status = self.tell("status")
        self.assertEqual(status.returncode, 0, status.stdout)
        self.assertIn("run", status.stdout)
        me.close()
        self.assertEqual(me.process.wait(LIMIT), 75)
        self.assertEqual(list(self.runtime.iterdir()), [])
        self.assertEqual(self.end(self.start()), 0)
        self.assertEqual(self.steps_done(), list(range(1, self.steps + 1)), "each step once")

    def test_another_command_under_the_same_name_is_refused(self):
        me = self.run_at_terminal("sh", "-c", "exit 3")
        self.assertEqual(me.ended(), 3)  # a mistake in the command: the next one may be another
        me = self.run_at_terminal("true")
        self.assertEqual(me.ended(), 0, me.shown)
        for more in ((), ("--new-command",)):
            refused = self.tell("run", "--storage", self.storage, *more, "--", "echo", "an other")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("it has finished `true`, and this is `echo 'an other'`", refused.stdout)
            self.assertNotIn("finished: the result is durable", refused.stdout)
        named = self.tell("run", "--storage", self.storage, "--name", "b", "--", "echo", "an other")
        self.assertEqual(named.returncode, 0, named.stdout)
        self.assertIn("an other", named.stdout)
        self.assertEqual(list(self.runtime.iterdir()), [])

    def test_a_command_that_has_trained_here_is_not_followed_by_another(self):
        me = self.train()
        me.type(terminal.INTERRUPT)
        self.assertEqual(me.ended(), 75, me.shown)
        refused = self.tell("run", "--storage", self.storage, "--", "true")
        self.assertEqual(refused.returncode, 2)
        self.assertIn(f"it has run `/usr/bin/python3 {TRAINER}`, and this is `true`",
                      refused.stdout)
        went_on = self.tell("run", "--storage", self.storage, "--new-command", "--", "true")
        self.assertEqual(went_on.returncode, 0, went_on.stdout)


if __name__ == "__main__":
    harness.main()
