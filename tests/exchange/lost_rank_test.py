#!/usr/bin/env python3
"""A rank is killed, ends, throws, stands still or is slow at random moments of training, and the job is started again.

    lost_rank_test.py PROGRAM TRIALS LAUNCHER ...   PROGRAM is lost_rank; `LAUNCHER ... PROGRAM` runs it on RANKS ranks, and
                                                    leaves the other ranks alone where one is lost
    lost_rank_test.py PROGRAM TRIAL+ LAUNCHER ...   that trial alone, as 17+

In each trial every rank that is left must report one error, in time, which names the call, or none; all means must be
those of an undisturbed run; and the new job must end with its weights.
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

RANKS, STEPS = 4, 12
FAULTS = ["kill", "stop", "exit", "throw", "slow"]
CODECS = ["ef(top_k(0.1)|qsgd<8>)", "ef(power_sgd(2))", "ef(two_shot(scaled_sign,ef(scaled_sign)))",
          "ef(reduce_scatter(qsgd<8>))", "identity", "ef(ring(qsgd<8>),unverified)", "g_top_k(0.1)",
          "ef(hierarchical(qsgd<8>,ef(top_k(0.1)),2))"]
TIMEOUT, PATIENCE = 0.5, 60.0  # seconds of a call of a job that loses a rank, and of any other
SLACK = 10.0  # seconds that a machine with other work may be late
PAUSE = 0.3  # seconds that a slow rank stands still
LATE = re.compile(r"pith::mpi_communicator: (\w+) did not end within 0\.5 s: (a rank has|rank \d has|ranks \d(, \d)+ have)"
                  r" run out of batches, or (is|are) gone or stuck: give all ranks equally many batches")
FAILED = re.compile(r"pith::mpi_communicator: \w+: .+")  # as MPI saw it by itself


class Job:
    """A run of PROGRAM and what each rank said, a list of words a line."""

    def __init__(self, command, states, timeout, codec, fault=None, rank=0, step=0, after=0):
        self.fault, self.rank = fault, rank
        with tempfile.TemporaryDirectory() as said:
            self.said = pathlib.Path(said)
            words = [str(states), said, str(timeout), codec]
            if fault:
                words += ["stop" if fault == "slow" else fault, str(rank), str(step), str(after)]
            job = subprocess.Popen(command + words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                self.wake_stopped(job)
                job.wait(timeout=PATIENCE)
            finally:
                job.kill()
            self.lines = [self.read(r) for r in range(RANKS)]

    def read(self, rank):
        path = self.said / f"rank.{rank}"
        return [line.split(" ", 2) for line in path.read_text().splitlines()] if path.exists() else []

    def wake_stopped(self, job):
        """Lets a rank that stands still go on: a slow one soon, a stuck one once the others have given it up."""
        stopped = self.said / "stopped"
        while job.poll() is None and self.fault in ("stop", "slow"):
            time.sleep(0.02)
            if not stopped.exists() or not stopped.read_text().endswith("\n"):
                continue
            others = [self.read(r) for r in range(RANKS) if r != self.rank]
            if self.fault == "stop" and any(not lines or lines[-1][0] not in ("error", "ended") for lines in others):
                continue
            if self.fault == "slow":
                time.sleep(PAUSE)
            os.kill(int(stopped.read_text()), signal.SIGCONT)
            return

    def means(self, rank):
        return {int(line[1]): line[2] for line in self.lines[rank] if line[0] == "step"}

    def ends(self, rank):
        return [line for line in self.lines[rank] if line[0] in ("error", "ended")]

    def begin(self):
        begins = {line[1] for lines in self.lines for line in lines if line[0] == "begins"}
        check(len(begins) == 1, f"ranks begin at steps {begins}")
        return int(begins.pop())


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def check_undisturbed(job, expected):
    """All ranks end, with the weights of `expected`, a job too."""
    for r in range(RANKS):
        check([line[0] for line in job.ends(r)] == ["ended"], f"rank {r} said {job.ends(r)}")
        check(job.ends(r) == expected.ends(r), f"rank {r} has other weights")
        check(set(job.means(r).items()) <= set(expected.means(r).items()), f"rank {r} received other means")


def check_end(job, rank):
    """The one error of a rank, or that it came to the end before the fault."""
    ends = job.ends(rank)
    check(len(ends) == 1, f"rank {rank} said {ends}")
    if ends[0][0] == "ended" or (job.fault == "throw" and rank == job.rank and ends[0][2] == "backward threw"):
        return
    found, late = LATE.fullmatch(ends[0][2]), float(ends[0][1]) - TIMEOUT
    check(found or FAILED.fullmatch(ends[0][2]), f"rank {rank} said {ends}")
    check(late < SLACK or rank == job.rank, f"rank {rank} was {late} s late")
    if found:
        check(late >= 0, f"rank {rank} was early: {ends}")
        check(found[1] != "send_recv" or found[2] != "a rank is", f"rank {rank} names no rank: {ends}")


def last_saved(states):
    """The last step of which each rank has left a state; a rank that was killed may have no state of its last one."""
    saved = {path.name for path in pathlib.Path(states).iterdir()}
    return max((s for s in range(STEPS + 1) if all(f"state.{s}.{r}" in saved for r in range(RANKS))), default=0)


def check_disturbed(job, expected, states):
    """Returns the step from which the next job must go on."""
    for r in range(RANKS):
        check(set(job.means(r).items()) <= set(expected.means(r).items()), f"rank {r} received other means")
    # MPI may end a rank that stood still until the others were gone, before it says anything.
    says = job.fault == "throw" or job.fault == "stop" and job.ends(job.rank)
    lives = [r for r in range(RANKS) if r != job.rank or says]
    for r in lives:
        check_end(job, r)
    done = [max(job.means(r), default=0) for r in range(RANKS)]
    check(max(done) - min(done) <= 1, f"ranks ended after steps {done}")
    if len(lives) == RANKS:
        check(last_saved(states) == min(done), f"ranks ended after steps {done} and saved {last_saved(states)}")
    return last_saved(states)


def run_trial(command, number, undisturbed):
    draw = random.Random(number)
    fault, codec = FAULTS[number % len(FAULTS)], draw.choice(CODECS)
    rank, step, after = draw.randrange(RANKS), draw.randrange(STEPS), draw.randrange(4000)
    print(f"{number}: {fault} rank {rank} {after} us after the begin of step {step} of {codec}", flush=True)
    if codec not in undisturbed:
        with tempfile.TemporaryDirectory() as states:
            undisturbed[codec] = Job(command, states, PATIENCE, codec)
            check_undisturbed(undisturbed[codec], undisturbed[codec])
    expected = undisturbed[codec]
    with tempfile.TemporaryDirectory() as states:
        job = Job(command, states, PATIENCE if fault == "slow" else TIMEOUT, codec, fault, rank, step, after)
        if fault == "slow":
            return check_undisturbed(job, expected)
        begin = check_disturbed(job, expected, states)
        again = Job(command, states, PATIENCE, codec)
        check_undisturbed(again, expected)
        check(again.begin() == begin, f"the new job began at step {again.begin()}, not {begin}")


def main():
    program, trials, launcher = sys.argv[1], sys.argv[2], sys.argv[3:]
    version = subprocess.run([launcher[0], "--version"], capture_output=True, text=True).stdout
    command = launcher + [program]
    if "HYDRA" in version:  # it ends all ranks where one is killed, whatever it is told: so a shell hides that
        command = launcher + ["sh", "-c", 'trap "" USR1; "$0" "$@" || true', program]
    numbers = [int(trials[:-1])] if trials.endswith("+") else range(int(trials))
    undisturbed, failed = {}, 0
    for number in numbers:
        try:
            run_trial(command, number, undisturbed)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print(f"{number} FAILED: {error}", flush=True)
            failed += 1
    print(f"{len(numbers)} trials, {failed} failed")
    sys.exit(failed > 0)


main()
