"""A trial function of a few milliseconds: exact arithmetic, real checkpoints, faults on
demand.

The state is the sum, over epochs and the N logical workers, of small whole numbers, so
any number of processes gives the same bits. Files in the trial's folder order a fault,
once: `kill` ("rank epoch": SIGKILL before that epoch's report), `raise` ("rank epoch",
rank -1: all). `slow` holds seconds per epoch.
"""

import json
import os
import signal
import time

import torch
from safetensors.torch import save_file

from trainables.cards import card as cards
from trainables.config.calibrate import resolve
from trainables.dp.accounting import choose
from trainables.dp.seeding import generator
from trainables.result import EpochReport, TrialResult
from trainables.system import checkpoint
from trainables.system.checkpoint import Checkpoint

NUM_RECORDS = 90
PRIVATE = "my account number is 12345"


def run(config, *, folder, comm, report, data_dir, cache_dir):
    kept = checkpoint.load(folder)
    saved = comm.broadcast(kept and kept.state)
    state, epoch = (saved["state"], saved["epoch"]) if saved else (0.0, 0)
    go_on = True
    if saved:
        go_on = comm.broadcast(comm.rank == 0 and report(_epoch(epoch, state)))
    while go_on and epoch < config.training.epochs:
        _fault(folder, comm.rank, epoch)
        started = time.perf_counter()
        mine = torch.zeros((), dtype=torch.float64)
        for worker in range(comm.rank, config.training.num_workers, comm.world_size):
            draw = generator(config.training.seed, "worker", worker, "epoch", epoch)
            mine += int(draw.integers(1_000_000))
        comm.all_reduce_sum(mine)
        state += float(mine) * config.training.learning_rate
        epoch += 1
        if comm.rank == 0:
            with (folder / "trained.txt").open("a") as lines:
                seen = os.environ.get("CUDA_VISIBLE_DEVICES")
                lines.write(
                    f"{epoch} {os.getpid()} {comm.world_size} {comm.device} {seen}\n"
                )
            fresh = Checkpoint(tensors={}, state={"state": state, "epoch": epoch})
            checkpoint.save(folder, fresh)
        slow = folder / "slow"
        if slow.exists():
            time.sleep(float(slow.read_text()))
        seconds = time.perf_counter() - started
        go_on = comm.broadcast(comm.rank == 0 and report(_epoch(epoch, state, seconds)))
    if comm.rank == 0:
        _save_model(config, folder / "model", state)
    return TrialResult(
        trial_id=config.id,
        epochs_done=epoch,
        stopped_early=epoch < config.training.epochs,
        metrics={
            "ser": state,
            "validation_ser": state,
            "threads": float(torch.get_num_threads()),
        },
        privacy=_privacy(config, epoch),
    )


def _save_model(config, folder, state):
    """A model folder as an export reads it; nothing can be built from it."""
    folder.mkdir(exist_ok=True)
    save_file({"state": torch.tensor([state])}, str(folder / "weights.safetensors"))
    about = {
        "model": config.model.model_dump(mode="json"),
        "intents": ["call", "text"],
        "slots": ["contact"],
        "schema_source": "the toy's own",
    }
    (folder / "model.json").write_text(json.dumps(about))


def _privacy(config, epochs):
    """The card of the mechanism that the planner accounted for."""
    if not epochs:
        return None
    number = config.data.num_records or NUM_RECORDS
    mechanism = resolve(config, num_records=number)[1].first(epochs)
    summary = choose.account(mechanism, accountant=config.privacy.accountant)
    return cards.make(mechanism, summary, trial_id=config.id, corpus=config.data.name)


def _epoch(epoch, state, seconds=0.0):
    return EpochReport(
        epochs_done=epoch, seconds=seconds, metrics={"validation_ser": state}
    )


def _fault(folder, rank, epoch):
    for name in ("kill", "raise"):
        order = folder / name
        if not order.exists():
            continue
        who, when = (int(word) for word in order.read_text().split())
        if when != epoch or who not in (rank, -1):
            continue
        if name == "raise":
            raise ValueError(f"bad utterance: {PRIVATE}")
        order.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
