"""Pie charts."""

from matplotlib.patches import Wedge

from .common import header, rounded

# matplotlib computes the angles of a pie with 32 bits: half of the last bit of 360.
_ANGLE_NOISE = 1.6e-5


def describe_pie(axes):
    chart = header(axes, "pie")
    for wedge in axes.patches:
        if isinstance(wedge, Wedge):
            angle = abs(float(wedge.theta2) - float(wedge.theta1))
            chart["elements"].append(
                {"label": str(wedge.get_label()), "angle": rounded(angle, _ANGLE_NOISE), "radius": rounded(wedge.r)}
            )
    return chart
