"""The codecs that serve in the tests of image files; makes the modules beside this file importable."""

import sys
from pathlib import Path

import pytest

from flambeau.vision.io import _native

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module", params=["native", "pillow"])
def image_codec(request):
    """Which codec serves: what a test says of image files holds with each."""
    if request.param == "native" and _native.LIBRARY.load() is None:
        pytest.skip(f"The image codecs were not built: {_native.LIBRARY.reason}.")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLAMBEAU_IMAGE_CODECS", "pillow" if request.param == "pillow" else "auto")
        yield request.param
