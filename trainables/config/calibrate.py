"""From a config with a target to one whose noise multiplier meets it."""

from dataclasses import replace

from trainables.config.mechanism import build, with_noise
from trainables.config.trial import TrialConfig
from trainables.dp.engines.configs import Target
from trainables.dp.mechanism import Mechanism


def resolve(
    config: TrialConfig,
    *,
    num_records: int,
    undeclared: tuple[str, ...] = (),
    certified: bool = True,
) -> tuple[TrialConfig, Mechanism]:
    """A config whose noise multiplier is a number, and its mechanism.

    A target becomes the smallest noise multiplier that meets it by
    `privacy.accountant` or the tightest sound accountant; a number stays as it is.
    `certified`: see `noise_for`. Noise on held-out figures follows from that of
    training (`held_out_noise`).

    Raises: InvalidInput where the mechanism is refused or no noise reaches the target.
    """
    target = config.privacy.noise_multiplier
    if not isinstance(target, Target):
        made = build(config, num_records=num_records, undeclared=undeclared)
        return config, _with_held_out_noise(made)
    # Reading a config must not load scipy.
    from trainables.dp.accounting.calibration import noise_for, noise_for_risk

    trial = build(
        with_noise(config, 1.0), num_records=num_records, undeclared=undeclared
    )
    named = config.privacy.accountant
    if target.target_epsilon is not None:
        z = noise_for(
            trial,
            target_epsilon=target.target_epsilon,
            accountant=named,
            certified=certified,
        )
    else:
        z = noise_for_risk(trial, target, accountant=named, certified=certified)
    made = replace(trial, noise_multiplier=z)
    return with_noise(config, z), _with_held_out_noise(made)


def _with_held_out_noise(mechanism: Mechanism) -> Mechanism:
    """With the noise of its held-out figures, where the guarantee covers these."""
    if not mechanism.split:
        return mechanism
    from trainables.dp.accounting.calibration import held_out_noise

    return replace(mechanism, held_out_noise=held_out_noise(mechanism))
