"""Rigid motion of a thigh and of the sensor in its pocket: orientation path to specific force and angular rate.

Frames, all right-handed: world (x north, y west, z up); thigh (x out of its front, y left, z up along the bone of a
standing person); sensor (fixed in the pocket, any way round). One orientation path gives both sensors, so that the
gyroscope is the derivative of the rotation that gravity shows in the accelerometer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_occ.samples import STANDARD_GRAVITY_MS2, FloatArray

_MIN_TONES = 12
YAW, PITCH, ROLL, AXIAL = 0, 1, 2, 3  # columns of Motion.angles


@dataclass(slots=True, eq=False)
class Motion:
    """A stretch of movement on a uniform grid of `rate_hz`, to be filled in place.

    angles (n, 4) rad: yaw about world z, then pitch about y (negative lifts the front: sitting is about -pi/2), roll
    about x and axial rotation about the bone. wobble (n, 3) rad: rotation vector of the sensor in its pocket.
    hip_ms2 (n, 3): acceleration of the hip joint without gravity; x forward in the heading of yaw, y left, z up.
    jolt_ms2 (n, 3): acceleration of the sensor in its pocket on top of that, thigh frame.
    """

    rate_hz: float
    angles: FloatArray
    wobble: FloatArray
    hip_ms2: FloatArray
    jolt_ms2: FloatArray

    @classmethod
    def at_rest(cls, duration_s: float, rate_hz: float, angles: FloatArray) -> Motion:
        """Stands still in one orientation for round(duration_s * rate_hz) grid points."""
        n = max(1, round(duration_s * rate_hz))
        start = np.asarray(angles, dtype=np.float64)
        return cls(rate_hz, np.tile(start, (n, 1)), np.zeros((n, 3)), np.zeros((n, 3)), np.zeros((n, 3)))

    @property
    def t_s(self) -> FloatArray:
        """Grid instants from 0, s."""
        return np.arange(len(self.angles)) / self.rate_hz

    def calm_edges(self, edge_s: float) -> None:
        """Lets forces and rocking begin and end at nothing, so that the next stretch can go on from here."""
        t = self.t_s
        fade = minimum_jerk(t, 0.0, edge_s) * (1 - minimum_jerk(t, t[-1] - edge_s, edge_s))
        for values in (self.wobble, self.hip_ms2, self.jolt_ms2):
            values *= fade[:, None]

    @property
    def duration_s(self) -> float:
        """Number of grid points over their rate, s."""
        return len(self.angles) / self.rate_hz


def rotation_about(axis: int, angle: FloatArray) -> FloatArray:
    """Rotation matrices (n, 3, 3) about coordinate axis 0, 1 or 2 by `angle` (n,) rad, right hand rule."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out = np.zeros((len(angle), 3, 3))
    out[:, axis, axis] = 1.0
    out[:, i, i] = out[:, j, j] = np.cos(angle)
    out[:, j, i] = np.sin(angle)
    out[:, i, j] = -out[:, j, i]
    return out


def rotation_from_vector(vector: FloatArray) -> FloatArray:
    """Rotation matrices (n, 3, 3) of rotation vectors (n, 3) rad: Rodrigues' formula, exact at 0."""
    angle = np.linalg.norm(vector, axis=1)
    sine = np.sinc(angle / np.pi)[:, None, None]  # sin(a) / a
    half = np.sinc(angle / (2 * np.pi))[:, None, None]
    cross = _cross_matrix(vector)
    out: FloatArray = np.eye(3) + sine * cross + 0.5 * half**2 * (cross @ cross)
    return out


def _cross_matrix(vector: FloatArray) -> FloatArray:
    """Matrices K (n, 3, 3) with K @ x = vector x x."""
    out = np.zeros((len(vector), 3, 3))
    x, y, z = vector.T
    out[:, 0, 1], out[:, 0, 2], out[:, 1, 2] = -z, y, -x
    out[:, 1, 0], out[:, 2, 0], out[:, 2, 1] = z, -y, x
    return out


def body_rate(rotations: FloatArray, rate_hz: float) -> FloatArray:
    """Angular rate (n, 3) rad/s in the moving frame of a path of rotations (n, 3, 3) from moving frame to world.

    Central differences of the path, one-sided at both ends: log(R_{k-1}' R_{k+1}) / (2 / rate_hz).
    """
    n = len(rotations)
    if n < 2:
        return np.zeros((n, 3))
    ahead, behind = np.minimum(np.arange(n) + 1, n - 1), np.maximum(np.arange(n) - 1, 0)
    step = np.swapaxes(rotations[behind], 1, 2) @ rotations[ahead]
    skew = np.stack([step[:, 2, 1] - step[:, 1, 2], step[:, 0, 2] - step[:, 2, 0], step[:, 1, 0] - step[:, 0, 1]], 1)
    sine = np.linalg.norm(skew, axis=1) / 2
    cosine = (np.trace(step, axis1=1, axis2=2) - 1) / 2
    angle = np.arctan2(sine, cosine)
    factor = np.where(sine > 1e-9, angle / np.where(sine > 1e-9, sine, 1.0), 1.0) / 2
    out: FloatArray = skew * factor[:, None] * (rate_hz / (ahead - behind))[:, None]
    return out


def sense(motion: Motion, mounting: FloatArray, lever_m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Specific force (n, 3) m/s2, gravity included, and angular rate (n, 3) rad/s of an ideal sensor in the pocket.

    mounting (3, 3) rotates sensor coordinates into the thigh's; lever_m (3,) is the pocket seen from the hip joint in
    the thigh frame, so that swinging the leg adds its tangential and centripetal acceleration.
    """
    heading = rotation_about(2, motion.angles[:, YAW])
    thigh = heading @ rotation_about(1, motion.angles[:, PITCH]) @ rotation_about(0, motion.angles[:, ROLL])
    thigh = thigh @ rotation_about(2, motion.angles[:, AXIAL])
    rate = body_rate(thigh, motion.rate_hz)
    swing = np.gradient(rate, 1.0 / motion.rate_hz, axis=0) if len(rate) > 1 else np.zeros_like(rate)
    local = np.cross(swing, lever_m) + np.cross(rate, np.cross(rate, lever_m)) + motion.jolt_ms2
    world = (heading @ motion.hip_ms2[:, :, None])[:, :, 0]
    world[:, 2] += STANDARD_GRAVITY_MS2
    in_thigh = (np.swapaxes(thigh, 1, 2) @ world[:, :, None])[:, :, 0] + local
    pocket = rotation_from_vector(motion.wobble) @ mounting
    acc: FloatArray = (np.swapaxes(pocket, 1, 2) @ in_thigh[:, :, None])[:, :, 0]
    return acc, body_rate(thigh @ pocket, motion.rate_hz)


def minimum_jerk(t_s: FloatArray, start_s: float, duration_s: float) -> FloatArray:
    """Smooth step from 0 to 1 within [start_s, start_s + duration_s]: 10 u^3 - 15 u^4 + 6 u^5."""
    u = np.clip((t_s - start_s) / max(duration_s, 1e-9), 0.0, 1.0)
    out: FloatArray = u**3 * (10 - 15 * u + 6 * u**2)
    return out


def minimum_jerk_acceleration(t_s: FloatArray, start_s: float, duration_s: float) -> FloatArray:
    """Second derivative of `minimum_jerk`, 1/s2: (60 u - 180 u^2 + 120 u^3) / duration^2, 0 outside."""
    u = np.clip((t_s - start_s) / max(duration_s, 1e-9), 0.0, 1.0)
    out: FloatArray = (60 * u - 180 * u**2 + 120 * u**3) / max(duration_s, 1e-9) ** 2
    return out


def hann_pulse(t_s: FloatArray, centre_s: float, width_s: float) -> FloatArray:
    """Bump of height 1 and total width width_s around centre_s: cos^2; its area is width_s / 2."""
    u = (t_s - centre_s) / width_s
    out: FloatArray = np.where(np.abs(u) < 0.5, np.cos(np.pi * u) ** 2, 0.0)
    return out


def ringing(t_s: FloatArray, start_s: float, frequency_hz: float, decay_s: float) -> FloatArray:
    """Damped oscillation exp(-t / decay) sin(2 pi f t) from start_s on, 0 before."""
    u = np.maximum(t_s - start_s, 0.0)
    out: FloatArray = np.exp(-u / decay_s) * np.sin(2 * np.pi * frequency_hz * u)
    return out


def drift(rng: np.random.Generator, t_s: FloatArray, low_hz: float, high_hz: float) -> FloatArray:
    """Smooth Gaussian random signal of root mean square about 1 within a band of frequencies.

    Made by one inverse FFT, over a stretch long enough to hold _MIN_TONES frequencies of the band.
    """
    n = len(t_s)
    if n < 2:
        return np.zeros(n)
    rate_hz = (n - 1) / float(t_s[-1] - t_s[0])
    n_fft = 1 << int(np.ceil(np.log2(max(n, _MIN_TONES * rate_hz / (high_hz - low_hz)))))
    first, last = int(np.ceil(low_hz * n_fft / rate_hz)), int(high_hz * n_fft / rate_hz)
    spectrum = np.zeros(n_fft // 2 + 1, dtype=np.complex128)
    n_tones = last - first + 1
    spectrum[first : last + 1] = rng.standard_normal(n_tones) + 1j * rng.standard_normal(n_tones)
    out: FloatArray = np.fft.irfft(spectrum, n_fft)[:n] * (n_fft / (2 * np.sqrt(n_tones)))
    return out
