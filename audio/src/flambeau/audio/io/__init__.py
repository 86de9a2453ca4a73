"""Streaming media: reading chunk by chunk, writing, effects and codecs on waveforms, playing.

`StreamReader` and `StreamWriter` are also there under their newer names, `StreamingMediaDecoder` and
`StreamingMediaEncoder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

# isort: off
if TYPE_CHECKING:
    from flambeau.audio.io._chunks import ChunkTensor as ChunkTensor
    from flambeau.audio.io._errors import (
        MediaError as MediaError,
        MediaFileNotFoundError as MediaFileNotFoundError,
        MediaTimeoutError as MediaTimeoutError,
        MediaValueError as MediaValueError,
        MissingFFmpegError as MissingFFmpegError,
    )
    from flambeau.audio.io._streams import (
        OutputAudioStream as OutputAudioStream,
        OutputStream as OutputStream,
        OutputVideoStream as OutputVideoStream,
        SourceAudioStream as SourceAudioStream,
        SourceStream as SourceStream,
        SourceVideoStream as SourceVideoStream,
    )
    from flambeau.audio.io.codec_config import CodecConfig as CodecConfig
    from flambeau.audio.io.effector import AudioEffector as AudioEffector
    from flambeau.audio.io.playback import play_audio as play_audio
    from flambeau.audio.io.stream_reader import (
        StreamReader as StreamReader,
        StreamingMediaDecoder as StreamingMediaDecoder,
    )
    from flambeau.audio.io.stream_writer import (
        StreamWriter as StreamWriter,
        StreamingMediaEncoder as StreamingMediaEncoder,
    )
# isort: on

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_chunks": ("ChunkTensor",),
        "_errors": (
            "MediaError", "MediaFileNotFoundError", "MediaTimeoutError", "MediaValueError", "MissingFFmpegError",
        ),
        "_streams": (
            "OutputAudioStream", "OutputStream", "OutputVideoStream", "SourceAudioStream", "SourceStream",
            "SourceVideoStream",
        ),
        "codec_config": ("CodecConfig",),
        "effector": ("AudioEffector",),
        "playback": ("play_audio",),
        "stream_reader": ("StreamReader", "StreamingMediaDecoder"),
        "stream_writer": ("StreamWriter", "StreamingMediaEncoder"),
    },
)  # fmt: skip
