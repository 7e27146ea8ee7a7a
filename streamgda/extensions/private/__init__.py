"""Differentially private statistics: sums of clipped rows, with calibrated noise.

In come rows, from any source; out comes an ordinary state with noise, which says how private it is.

- `statistics`: `private_statistics`, which reads the rows. Open it first.
- `state`: the state that it returns, and the record of its privacy.
- `release`: the numbers that get noise, and moments of the noisy ones.
- `clipping`: what one row may add to the sums.
- `noise`: the scale of the noise, and its draws by OpenDP.
"""
