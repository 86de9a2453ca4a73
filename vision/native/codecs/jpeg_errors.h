// How libjpeg reports an error: its error manager must not return, and what is jumped over must need no destructor.
//
// libjpeg's own manager (jpeg_std_error) prints to stderr and is left out of the link altogether.

#pragma once

#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>

#include <jpeglib.h>

namespace fb::codecs {

struct JpegErrors {
    jpeg_error_mgr manager;  // first, so that a pointer to it is a pointer to the whole
    jmp_buf place;
    const char* said;  // by us and not by libjpeg
};

// Prepares a manager; the caller sets `place` next.
jpeg_error_mgr* jpeg_errors(JpegErrors& errors) noexcept;

// The last error's text.
void describe_error(const JpegErrors& errors, char* text, size_t bytes) noexcept;

// Ends the decoding or encoding with an error of our own.
[[noreturn]] void give_up(j_common_ptr info, const char* why);

}  // namespace fb::codecs
