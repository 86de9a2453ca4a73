// WebP where libwebp was not found: all of it is left to another codec.

#include "codecs.h"

namespace fb::codecs {

void describe_webp(Picture& picture) noexcept { refuse(picture, Unsupported, "this build reads no WebP"); }

void decode_webp(Picture& picture, bool) noexcept { describe_webp(picture); }

const char* webp_version() noexcept { return nullptr; }

}  // namespace fb::codecs
