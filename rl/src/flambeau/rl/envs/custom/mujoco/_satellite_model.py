"""A satellite with control moment gyroscopes, as an MJCF model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

__all__ = ["TARGET_FRAME", "satellite_xml"]

TARGET_FRAME = "target_attitude_frame"
_COLOURS = ("1 0.2 0.2 0.8", "0.2 1 0.2 0.8", "0.3 0.4 1 0.8")


def satellite_xml(gimbal_axes: Tensor, rotor_axes: Tensor, places: Tensor, edge: float) -> str:
    """A box without gravity, with a gyroscope in each place: a gimbal, whose rate is controlled, and a rotor in it.

    Coordinates are those of the free box (7), then of the gimbal and the rotor of each gyroscope; controls are the
    rates of all gimbals, then of all rotors, in radians a second.

    Args:
        gimbal_axes: (3, N).
        rotor_axes: (3, N), perpendicular to these.
        places: centers of the gyroscopes in the box, (3, N), meters.
        edge: of the box, in meters; it has 100 kg a cubic meter.
    """
    numbers = range(1, gimbal_axes.shape[1] + 1)
    gyroscopes = "".join(
        _gyroscope(number, places[:, number - 1], gimbal_axes[:, number - 1], rotor_axes[:, number - 1])
        for number in numbers
    )
    gimbals = "".join(f'<velocity name="gimbal{n}_act" joint="gimbal{n}" kv="50"/>' for n in numbers)
    rotors = "".join(f'<velocity name="rotor{n}_act" joint="rotor{n}" kv="0.1"/>' for n in numbers)
    return f"""
<mujoco model="satellite">
  <compiler autolimits="true"/>
  <option timestep="0.001" gravity="0 0 0" integrator="implicitfast"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <light pos="2 -2 3" dir="-0.5 0.5 -0.7" directional="true"/>
    <camera name="side" pos="0 {-4 * edge} {2 * edge}" xyaxes="1 0 0 0 0.45 0.9"/>
    <body name="{TARGET_FRAME}">{_frame("target", 1.6 * edge)}</body>
    <body name="bus">
      <freejoint name="root"/>
      <geom name="bus" type="box" size="{edge / 2} {edge / 2} {edge / 2}" density="100" rgba="0.7 0.7 0.75 0.5"/>
      {_frame("satellite_body", 1.1 * edge)}{gyroscopes}
    </body>
  </worldbody>
  <actuator>{gimbals}{rotors}</actuator>
</mujoco>
"""


def _gyroscope(number: int, place: Tensor, gimbal: Tensor, rotor: Tensor) -> str:
    half = 0.02 * rotor
    return f"""
      <body name="cmg{number}" pos="{_numbers(place)}">
        <joint name="gimbal{number}" type="hinge" axis="{_numbers(gimbal)}" armature="0.01" damping="0.1"/>
        <geom name="gimbal{number}" type="sphere" size="0.03" mass="0.2" rgba="0.3 0.3 0.3 1"/>
        <body name="rotor{number}">
          <joint name="rotor{number}" type="hinge" axis="{_numbers(rotor)}"/>
          <geom name="rotor{number}" type="cylinder" fromto="{_numbers(-half)} {_numbers(half)}" size="0.15" mass="4"
                rgba="0.9 0.6 0.2 1"/>
        </body>
      </body>"""


def _frame(name: str, length: float) -> str:
    """The three axes of a body, to be seen alone."""
    ends = (f"{length} 0 0", f"0 {length} 0", f"0 0 {length}")
    return "".join(
        f'<site name="{name}_{axis}_axis" type="capsule" fromto="0 0 0 {end}" size="{length / 40}" rgba="{colour}"/>'
        for axis, end, colour in zip("xyz", ends, _COLOURS, strict=True)
    )


def _numbers(values: Sequence[float] | Tensor) -> str:
    return " ".join(f"{float(value):.9g}" for value in values)
