"""Pictures of PIL: as results, and when the code calls show() or save()."""

import io
import sys

from .imports import when_loaded

# Modes that a PNG file can hold. Pictures in other modes are converted to the first of them that PIL can convert to.
_PNG_MODES = ("RGBA", "RGB", "LA", "L", "I;16", "I", "P", "1")
_TRANSPARENT_MODES = ("PA", "La", "RGBa")


def install(shell):
    """Registers the formatters and the functions that follow when PIL is loaded."""
    formatters = shell.display_formatter.formatters
    formatters["image/png"].for_type_by_name("PIL.Image", "Image", png_of)
    # PIL itself would add a JPEG of the same picture.
    formatters["image/jpeg"].for_type_by_name("PIL.Image", "Image", lambda image: None)
    when_loaded("PIL.Image", _extend)


def png_of(image):
    """The picture as the bytes of a PNG file; None if the picture cannot be shown, for example an empty one."""
    try:
        file = io.BytesIO()
        _plain_save(image)(_for_png(image), file, "PNG")
        return file.getvalue()
    except Exception:
        return None


def _for_png(image):
    if image.mode in _PNG_MODES:
        return image
    for mode in _PNG_MODES[0 if image.mode in _TRANSPARENT_MODES else 1 :]:
        try:
            return image.convert(mode)
        except ValueError:
            pass
    return image


def _plain_save(image):
    save = type(image).save
    return getattr(save, "__wrapped__", save)


def _extend(module):
    """Makes Image.show display the picture, and Image.save display what it saves into a file."""
    import functools

    from IPython.display import display

    original_save = module.Image.save

    def show(self, title=None):
        """Displays this picture as a result of the code."""
        display(self)

    @functools.wraps(original_save)
    def save(self, fp, format=None, **params):
        if isinstance(fp, str) and not _called_by_matplotlib():
            display(self)
        return original_save(self, fp, format, **params)

    module.Image.show = show
    module.Image.save = save


def _called_by_matplotlib():
    # savefig() uses PIL to write its file. The figure itself is displayed anyway.
    caller = sys._getframe(2).f_globals.get("__name__", "")
    return caller.split(".")[0] == "matplotlib"
