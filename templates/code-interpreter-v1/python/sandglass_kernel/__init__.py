"""What Sandglass adds to ipykernel: bounded output, rich results, charts."""


def reseed():
    """Gives every random generator of this process a new seed. See randomness.py."""
    from . import randomness

    randomness.reseed()
