"""Encodes images as data URLs, for self-contained pages."""

import base64
import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from PIL.Image import Image

DATA_URL_JPEG_QUALITY: Final = 85


def encode_data_url(picture: "Image") -> str:
    """Encode an image as a JPEG data URL."""
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=DATA_URL_JPEG_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"
