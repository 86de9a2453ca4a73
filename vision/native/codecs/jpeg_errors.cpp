#include "jpeg_errors.h"

#include "codecs.h"

#include <string.h>

#include <jerror.h>
// A second time for the texts: the header's way to make a table of them. The first two are about the library itself.
#define JCOPYRIGHT_SHORT ""
#define JVERSION ""
#define JMESSAGE(code, text) text,
static const char* const messages[] = {
#include <jerror.h>
};

namespace fb::codecs {
namespace {

JpegErrors& of(j_common_ptr info) { return *reinterpret_cast<JpegErrors*>(info->err); }

[[noreturn]] void leave(j_common_ptr info) { longjmp(of(info).place, 1); }

void warn(j_common_ptr info, int level) {
    if (level < 0) ++info->err->num_warnings;  // damage that libjpeg repairs; above 0 are remarks
}

void stay_silent(j_common_ptr) {}

void format(j_common_ptr info, char* text) { describe_error(of(info), text, JMSG_LENGTH_MAX); }

void reset(j_common_ptr info) {
    info->err->num_warnings = 0;
    info->err->msg_code = 0;
    of(info).said = nullptr;
}

}  // namespace

jpeg_error_mgr* jpeg_errors(JpegErrors& errors) noexcept {
    memset(&errors.manager, 0, sizeof errors.manager);
    errors.said = nullptr;
    errors.manager.error_exit = leave;
    errors.manager.emit_message = warn;
    errors.manager.output_message = stay_silent;
    errors.manager.format_message = format;
    errors.manager.reset_error_mgr = reset;
    return &errors.manager;
}

void describe_error(const JpegErrors& errors, char* text, size_t bytes) noexcept {
    const jpeg_error_mgr& manager = errors.manager;
    const int known = int(sizeof messages / sizeof *messages);
    const char* message = manager.msg_code >= 0 && manager.msg_code < known ? messages[manager.msg_code] : "unknown";
    const int* number = manager.msg_parm.i;
    if (errors.said)
        snprintf(text, bytes, "%s", errors.said);
    else if (strstr(message, "%s"))
        snprintf(text, bytes, message, manager.msg_parm.s);
    else
        snprintf(text, bytes, message, number[0], number[1], number[2], number[3], number[4], number[5]);
}

#define TEXT_OF(symbol) TEXT(symbol)
#define TEXT(characters) #characters
const char* jpeg_version() noexcept { return TEXT_OF(LIBJPEG_TURBO_VERSION); }

void give_up(j_common_ptr info, const char* why) {
    of(info).said = why;
    leave(info);
}

}  // namespace fb::codecs
