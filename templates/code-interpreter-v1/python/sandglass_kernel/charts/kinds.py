"""Which kind of chart the artists of one axes make."""

import numpy
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle, Wedge


def artists_of(axes):
    """Everything that was drawn into the axes, without texts, frame, ticks and legend."""
    return [*axes.lines, *axes.patches, *axes.collections, *axes.images, *axes.tables, *axes.artists]


def kind_of(axes):
    """The first match wins. An axes without artists counts as lines."""
    artists = artists_of(axes)
    if _all_are(artists, Line2D):
        return "line"
    if _all_are(artists, (PathPatch, Line2D)):
        return "box_and_whisker"
    artists = [artist for artist in artists if not is_grid_like(artist)]
    for kind, artist_type in (("scatter", PathCollection), ("pie", Wedge), ("bar", Rectangle)):
        if artists and _all_are(artists, artist_type):
            return kind
    return "unknown"


def _all_are(artists, artist_type):
    return all(isinstance(artist, artist_type) for artist in artists)


def is_grid_like(artist):
    """Whether this is a line of two points that is horizontal or vertical."""
    if not isinstance(artist, Line2D):
        return False
    x, y = (numpy.atleast_1d(data) for data in artist.get_data())
    if len(x) != 2 or len(y) != 2:
        return False
    return bool(x[0] == x[1] or y[0] == y[1])
