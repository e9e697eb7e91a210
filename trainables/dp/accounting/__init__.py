"""From a mechanism to its epsilon. Import from the modules; this one loads nothing.

- `releases.release(mechanism)`: what an accountant reads, as plain data that a ledger
  can keep.
- `certification.certify(releases, delta=...)`: the epsilon of a release, or of all
  trials of a sweep.
- `choose.account(mechanism, exact=...)`: every figure of one trial;
  `choose.epsilon_after` and `bounds_after`: the running total; `choose.certify_by`: the
  accountant of that name.
- `composition.Account`: releases as they come, and whether one more fits.
- `calibration.noise_for(mechanism, target_epsilon=...)`: the smallest noise multiplier
  for a target; `trainables.config.calibrate.resolve` does so for a config.
- `values.values_of(mechanism)`: all that the figures depend on, the key of the cache of
  figures.
"""
