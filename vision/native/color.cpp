// Colours of pictures: brightness, contrast, saturation, hue, gray, solarizing, posterizing, autocontrast, equalizing,
// sharpness. uint8 and float32, channels first or last.
//
// Pixels go through in chunks that stay in the first cache: levels become float32, one array for each channel, small
// loops that compilers vectorise do the arithmetic of the torch formulas in
// `flambeau.vision.transforms.v2.functional`, in its order, and the result is cut to the range and, for uint8,
// truncated.

#include <flambeau/kernel.h>
#include <math.h>

#include "workspace.h"

// Arguments of fb_color_<dtype>, in the order that `_color.py` declares them to ctypes.
struct fb_color {
    const void* image;
    void* result;
    int64_t images, channels, height, width;
    double factor;
    int32_t channels_last;  // layout of both, without gaps
    int32_t kind, nthreads;
};

namespace vision {
namespace {

// As in `_color.py`.
enum Kind : int32_t {
    brightness, contrast, saturation, hue, gray, solarize, posterize, autocontrast, equalize, sharpness, kinds
};

constexpr int64_t done = 0;
constexpr int64_t no_memory = -1;
constexpr int64_t chunk = 512;

inline int64_t smaller(int64_t a, int64_t b) noexcept { return a < b ? a : b; }

// --- small loops ----------------------------------------------------------------------------------------------------

FB_CLONES void widen(const uint8_t* from, int64_t step, int64_t count, float* to) noexcept {
    if (step == 1)
        for (int64_t i = 0; i < count; ++i) to[i] = float(from[i]);
    else
        for (int64_t i = 0; i < count; ++i) to[i] = float(from[i * step]);
}
FB_CLONES void widen(const float* from, int64_t step, int64_t count, float* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}

// Three channels that lie beside each other, apart.
FB_CLONES void widen_three(const uint8_t* from, int64_t count, float* red, float* green, float* blue) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        red[i] = float(from[3 * i]);
        green[i] = float(from[3 * i + 1]);
        blue[i] = float(from[3 * i + 2]);
    }
}
FB_CLONES void widen_three(const float* from, int64_t count, float* red, float* green, float* blue) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        red[i] = from[3 * i];
        green[i] = from[3 * i + 1];
        blue[i] = from[3 * i + 2];
    }
}
// And together.
FB_CLONES void join_three(const uint8_t* red, const uint8_t* green, const uint8_t* blue, int64_t count,
                          uint8_t* to) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        to[3 * i] = red[i];
        to[3 * i + 1] = green[i];
        to[3 * i + 2] = blue[i];
    }
}
FB_CLONES void join_three(const float* red, const float* green, const float* blue, int64_t count, float* to) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        to[3 * i] = red[i];
        to[3 * i + 1] = green[i];
        to[3 * i + 2] = blue[i];
    }
}

// Cut to the range; a NaN stays one where there are any.
FB_CLONES void narrow(const float* from, int64_t count, uint8_t* to) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        const float value = from[i] < 0 ? 0 : from[i];
        to[i] = uint8_t(int32_t(value > 255 ? 255 : value));
    }
}
FB_CLONES void narrow(const float* from, int64_t count, float* to) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        const float value = from[i] < 0 ? 0 : from[i];
        to[i] = value > 1 ? 1 : value;
    }
}

FB_CLONES void scale(float* values, float factor, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i) values[i] = values[i] * factor;
}
FB_CLONES void blend(float* values, const float* other, float factor, float rest, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i) values[i] = values[i] * factor + other[i] * rest;
}
FB_CLONES void blend(float* values, float share, float factor, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i) values[i] = values[i] * factor + share;
}
FB_CLONES void luma(const float* red, const float* green, const float* blue, bool whole, int64_t count,
                    float* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i] = red[i] * 0.2989f + green[i] * 0.587f + blue[i] * 0.114f;
    if (whole)
        for (int64_t i = 0; i < count; ++i) to[i] = float(int32_t(to[i]));
}
// The sum of values, in eight shares that do not depend on the machine.
FB_CLONES double sum(const float* values, int64_t count) noexcept {
    double shares[8] = {};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int j = 0; j < 8; ++j) shares[j] += double(values[i + j]);
    for (; i < count; ++i) shares[0] += double(values[i]);
    double total = 0;
    for (const double share : shares) total += share;
    return total;
}

FB_CLONES void posterized(float* values, float levels, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        const float level = floorf(values[i] * levels), inside = level < 0 ? 0 : level;
        values[i] = (inside > levels - 1 ? levels - 1 : inside) / levels;
    }
}
FB_CLONES void stretched(const float* values, int64_t step, float low, float scale, float most, int64_t count,
                         float* to) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        const float value = (values[i * step] - low) / scale, above = value < 0 ? 0 : value;
        to[i * step] = above > most ? most : above;
    }
}
FB_CLONES void solarized(const uint8_t* from, float threshold, int64_t count, uint8_t* to) noexcept {
    // As an integer: what is at or above the threshold.
    const int32_t least = threshold <= 0 ? 0 : int32_t(ceilf(threshold));
    for (int64_t i = 0; i < count; ++i) to[i] = uint8_t(from[i] >= least ? 255 - from[i] : from[i]);
}
FB_CLONES void solarized(const float* from, float threshold, int64_t count, float* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i] >= threshold ? 1 - from[i] : from[i];
}

// Red, green and blue in [0, 1] with their hue turned by `shift` of a turn (Smith 1978).
FB_CLONES void turned(float* red, float* green, float* blue, float shift, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        const float r = red[i], g = green[i], b = blue[i];
        const float rg = r > g ? r : g, value = rg > b ? rg : b;
        const float least = r < g ? r : g, low = least < b ? least : b;
        const float chroma = value - low;
        const bool is_gray = chroma == 0;
        const float part = chroma / (is_gray ? 1 : value), divisor = is_gray ? 1 : chroma;
        const float saturation = is_gray ? 0 : part;
        const float above = value == r ? 0.0f : value == g ? 2.0f : 4.0f;
        const float difference = value == r ? g - b : value == g ? b - r : r - g;
        const float sector = (above + difference / divisor) / 6;
        float place = sector - floorf(sector);
        place = place + shift;
        place = (place - floorf(place)) * 6;
        const float strength = value * saturation;
        const auto channel = [&](float offset) noexcept {
            const float at = place + offset, around = at >= 6 ? at - 6 : at, back = 4 - around;
            const float depth = around < back ? around : back, inside = depth < 0 ? 0 : depth;
            return value - strength * (inside > 1 ? 1 : inside);
        };
        red[i] = channel(5);
        green[i] = channel(3);
        blue[i] = channel(1);
    }
}

FB_CLONES void scaled(float* values, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i) values[i] = values[i] / 255;
}
// [0, 1] as levels: each stands for an interval of the same length.
FB_CLONES void leveled(float* values, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        const float value = values[i] < 0 ? 0 : values[i];
        values[i] = (value > 1 ? 1 : value) * 255.999f;
    }
}

// --- by chunks of pixels --------------------------------------------------------------------------------------------

// How one picture lies in memory.
struct Layout {
    int64_t pixels, channels, plane, step;
    explicit Layout(const fb_color& given) noexcept
        : pixels(given.height * given.width), channels(given.channels),
          plane(given.channels_last ? 1 : given.height * given.width),
          step(given.channels_last ? given.channels : 1) {}
};

template <typename T>
constexpr bool is_levels = sizeof(T) == 1;

// Work on `body(image, begin, count)` for chunks of all pictures.
template <typename Body>
void chunks(const fb_color& given, const Body& body) noexcept {
    const int64_t pixels = given.height * given.width, each = (pixels + chunk - 1) / chunk;
    fb::parallel_for(0, given.images * each, 1, given.nthreads, [&](int64_t from, int64_t to) noexcept {
        for (int64_t task = from; task < to; ++task) {
            const int64_t begin = task % each * chunk;
            body(task / each, begin, smaller(chunk, pixels - begin));
        }
    });
}

template <typename T>
void load(const T* picture, const Layout& layout, int64_t begin, int64_t count, float (*values)[chunk]) noexcept {
    if (layout.step == 3)
        return widen_three(picture + begin * 3, count, values[0], values[1], values[2]);
    for (int64_t c = 0; c < layout.channels; ++c) widen(picture + c * layout.plane + begin, 1, count, values[c]);
}
template <typename T>
void save(const float (*values)[chunk], const Layout& layout, int64_t begin, int64_t count, T* picture) noexcept {
    if (layout.step == 3) {
        T apart[3][chunk];
        for (int c = 0; c < 3; ++c) narrow(values[c], count, apart[c]);
        return join_three(apart[0], apart[1], apart[2], count, picture + begin * 3);
    }
    for (int64_t c = 0; c < layout.channels; ++c) narrow(values[c], count, picture + c * layout.plane + begin);
}

// Every value by itself; channels do not matter, so neither does their layout.
template <typename T>
void each_value(const fb_color& given) noexcept {
    const int64_t total = given.images * given.channels * given.height * given.width;
    const T* image = static_cast<const T*>(given.image);
    T* result = static_cast<T*>(given.result);
    const float factor = float(given.factor);
    fb::parallel_for(0, total, 4 * chunk, given.nthreads, [&](int64_t from, int64_t to) noexcept {
        if (given.kind == solarize) return solarized(image + from, factor, to - from, result + from);
        float values[chunk];
        for (int64_t begin = from; begin < to; begin += chunk) {
            const int64_t count = smaller(chunk, to - begin);
            widen(image + begin, 1, count, values);
            if (given.kind == brightness)
                scale(values, factor, count);
            else
                posterized(values, factor, count);
            narrow(values, count, result + begin);
        }
    });
}

// The gray values of a chunk, and its channels in `values`; `alone`: those may be left out.
template <typename T>
void gray_of(const T* picture, const Layout& layout, int64_t begin, int64_t count, float (*values)[chunk], bool alone,
             float* to) noexcept {
    if (!is_levels<T> && layout.channels == 3 && layout.step == 1 && alone) {
        const float* from = reinterpret_cast<const float*>(picture) + begin;
        return luma(from, from + layout.plane, from + 2 * layout.plane, false, count, to);
    }
    load(picture, layout, begin, count, values);
    if (layout.channels == 1)
        memcpy(to, values[0], size_t(count) * sizeof(float));
    else
        luma(values[0], values[1], values[2], is_levels<T>, count, to);
}

template <typename T>
int64_t contrasted(const fb_color& given) noexcept {
    const Layout layout(given);
    const int64_t size = layout.pixels * layout.channels, each = (layout.pixels + chunk - 1) / chunk;
    Array<double> sums;
    if (!sums.make(given.images * each)) return no_memory;
    chunks(given, [&](int64_t image, int64_t begin, int64_t count) noexcept {
        float values[3][chunk], levels[chunk];
        gray_of(static_cast<const T*>(given.image) + image * size, layout, begin, count, values, true, levels);
        sums[image * each + begin / chunk] = sum(levels, count);
    });
    for (int64_t image = 0; image < given.images; ++image) {
        double total = 0;
        for (int64_t i = 0; i < each; ++i) total += sums[image * each + i];
        sums[image * each] = total / double(layout.pixels);
    }
    const float factor = float(given.factor), rest = float(1.0 - given.factor);
    chunks(given, [&](int64_t image, int64_t begin, int64_t count) noexcept {
        const float share = float(sums[image * each]) * rest;
        float values[3][chunk];
        load(static_cast<const T*>(given.image) + image * size, layout, begin, count, values);
        for (int64_t c = 0; c < layout.channels; ++c) blend(values[c], share, factor, count);
        save(values, layout, begin, count, static_cast<T*>(given.result) + image * size);
    });
    return done;
}

template <typename T>
void saturated(const fb_color& given) noexcept {
    const Layout layout(given);
    const int64_t size = layout.pixels * layout.channels;
    const float factor = float(given.factor), rest = float(1.0 - given.factor);
    chunks(given, [&](int64_t image, int64_t begin, int64_t count) noexcept {
        float values[3][chunk], levels[chunk];
        gray_of(static_cast<const T*>(given.image) + image * size, layout, begin, count, values, false, levels);
        for (int64_t c = 0; c < layout.channels; ++c) blend(values[c], levels, factor, rest, count);
        save(values, layout, begin, count, static_cast<T*>(given.result) + image * size);
    });
}

template <typename T>
void hue_turned(const fb_color& given) noexcept {
    const Layout layout(given);
    const int64_t size = layout.pixels * layout.channels;
    chunks(given, [&](int64_t image, int64_t begin, int64_t count) noexcept {
        float values[3][chunk];
        load(static_cast<const T*>(given.image) + image * size, layout, begin, count, values);
        if (is_levels<T>)
            for (float* each : values) scaled(each, count);
        turned(values[0], values[1], values[2], float(given.factor), count);
        if (is_levels<T>)
            for (float* each : values) leveled(each, count);
        save(values, layout, begin, count, static_cast<T*>(given.result) + image * size);
    });
}

// Three channels to `factor`, 1 or 3. Floating point is not cut to the range.
template <typename T>
void grayed(const fb_color& given) noexcept {
    const Layout layout(given);
    const int64_t copies = int64_t(given.factor), size = layout.pixels * copies;
    chunks(given, [&](int64_t image, int64_t begin, int64_t count) noexcept {
        float values[3][chunk], levels[chunk];
        const T* picture = static_cast<const T*>(given.image) + image * layout.pixels * 3;
        gray_of(picture, layout, begin, count, values, true, levels);
        T whole[chunk];
        if constexpr (is_levels<T>)
            narrow(levels, count, whole);
        else
            memcpy(whole, levels, size_t(count) * sizeof(float));
        T* to = static_cast<T*>(given.result) + image * size;
        if (given.channels_last && copies == 3) return join_three(whole, whole, whole, count, to + begin * 3);
        for (int64_t c = 0; c < copies; ++c) memcpy(to + c * layout.pixels + begin, whole, size_t(count) * sizeof(T));
    });
}

// --- by planes ------------------------------------------------------------------------------------------------------

FB_CLONES void extremes(const uint8_t* values, int64_t step, int64_t count, float& low, float& high) noexcept {
    uint8_t least = 255, most = 0;
    if (step == 1)
        for (int64_t i = 0; i < count; ++i) {
            least = values[i] < least ? values[i] : least;
            most = values[i] > most ? values[i] : most;
        }
    else
        for (int64_t i = 0; i < count; ++i) {
            least = values[i * step] < least ? values[i * step] : least;
            most = values[i * step] > most ? values[i * step] : most;
        }
    low = least;
    high = most;
}
FB_CLONES void extremes(const float* values, int64_t step, int64_t count, float& low, float& high) noexcept {
    float least[16], most[16];
    for (int j = 0; j < 16; ++j) least[j] = most[j] = values[0];
    int64_t i = 0;
    if (step == 1)
        for (; i + 16 <= count; i += 16)
            for (int j = 0; j < 16; ++j) {
                least[j] = values[i + j] < least[j] ? values[i + j] : least[j];
                most[j] = values[i + j] > most[j] ? values[i + j] : most[j];
            }
    for (; i < count; ++i) {
        least[0] = values[i * step] < least[0] ? values[i * step] : least[0];
        most[0] = values[i * step] > most[0] ? values[i * step] : most[0];
    }
    low = least[0];
    high = most[0];
    for (int j = 1; j < 16; ++j) {
        low = least[j] < low ? least[j] : low;
        high = most[j] > high ? most[j] : high;
    }
}

void look_up(const uint8_t* from, const uint8_t* table, int64_t step, int64_t count, uint8_t* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i * step] = table[from[i * step]];
}

void stretch_plane(const uint8_t* from, int64_t step, int64_t count, float low, float scale, uint8_t* to) noexcept {
    float values[256];
    uint8_t table[256];
    for (int i = 0; i < 256; ++i) values[i] = float(i);
    stretched(values, 1, low, scale, 255, 256, values);
    narrow(values, 256, table);
    look_up(from, table, step, count, to);
}
void stretch_plane(const float* from, int64_t step, int64_t count, float low, float scale, float* to) noexcept {
    stretched(from, step, low, scale, 1, count, to);
}

template <typename T>
void autocontrasted(const T* from, int64_t step, int64_t count, T* to) noexcept {
    float low, high;
    extremes(from, step, count, low, high);
    if (low == high) {
        for (int64_t i = 0; i < count; ++i) to[i * step] = from[i * step];
        return;
    }
    stretch_plane(from, step, count, low, (high - low) / (is_levels<T> ? 255.0f : 1.0f), to);
}

void equalized(const uint8_t* from, int64_t step, int64_t count, uint8_t* to) noexcept {
    // Four counts at a time: neighbouring pixels are often alike, and would wait for each other.
    int32_t counts[4][256] = {};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int j = 0; j < 4; ++j) ++counts[j][from[(i + j) * step]];
    for (; i < count; ++i) ++counts[0][from[i * step]];
    int64_t totals[256], highest = 0;
    for (int level = 0; level < 256; ++level) {
        totals[level] = int64_t(counts[0][level]) + counts[1][level] + counts[2][level] + counts[3][level];
        if (totals[level]) highest = level;
    }
    // Pillow's rule: the pixels of the highest level are left out, so that it becomes full intensity.
    const int64_t part = (count - totals[highest]) / 255;
    uint8_t table[256];
    int64_t below = 0;
    for (int level = 0; level < 256; ++level) {
        const int64_t place = part ? (below + part / 2) / part : level;
        table[level] = uint8_t(place > 255 ? 255 : place);
        below += totals[level];
    }
    look_up(from, table, step, count, to);
}
void equalized(const float*, int64_t, int64_t, float*) noexcept {}

template <typename T>
void planes(const fb_color& given) noexcept {
    const Layout layout(given);
    fb::parallel_for(0, given.images * given.channels, 1, given.nthreads, [&](int64_t from, int64_t to) noexcept {
        for (int64_t n = from; n < to; ++n) {
            const int64_t place =
                n / layout.channels * layout.channels * layout.pixels + n % layout.channels * layout.plane;
            const T* source = static_cast<const T*>(given.image) + place;
            T* target = static_cast<T*>(given.result) + place;
            if (given.kind == autocontrast)
                autocontrasted(source, layout.step, layout.pixels, target);
            else
                equalized(source, layout.step, layout.pixels, target);
        }
    });
}

// --- sharpness ------------------------------------------------------------------------------------------------------

// Nine values, the middle one five times, divided by 13; of levels the nearest, between which 13ths never lie halfway.
FB_CLONES void smooth(const uint8_t* above, const uint8_t* row, const uint8_t* below, int64_t step, int64_t count,
                      float* to) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        const int32_t sum = above[i - step] + above[i] + above[i + step] + row[i - step] + 5 * row[i] + row[i + step] +
                            below[i - step] + below[i] + below[i + step];
        to[i] = float(int32_t(float(sum) * (1 / 13.0f) + 0.5f));
    }
}
FB_CLONES void smooth(const float* above, const float* row, const float* below, int64_t step, int64_t count,
                      float* to) noexcept {
    constexpr float side = 1 / 13.0f, middle = 5 / 13.0f;
    for (int64_t i = 0; i < count; ++i)
        to[i] = side * (above[i - step] + above[i] + above[i + step] + row[i - step] + row[i + step] + below[i - step] +
                        below[i] + below[i + step]) + middle * row[i];
}
FB_CLONES void toward(const float* smooth, float rest, int64_t count, float* values) noexcept {
    for (int64_t i = 0; i < count; ++i) values[i] = values[i] + (smooth[i] - values[i]) * rest;
}

template <typename T>
void sharpened(const fb_color& given) noexcept {
    const Layout layout(given);
    const int64_t step = layout.step, line = given.width * step, parts = given.images * given.channels / step;
    const float rest = float(1.0 - given.factor);
    fb::parallel_for(0, parts * given.height, 1, given.nthreads, [&](int64_t from, int64_t to) noexcept {
        float smoothed[chunk], values[chunk];
        for (int64_t n = from; n < to; ++n) {
            const T* row = static_cast<const T*>(given.image) + n * line;
            T* target = static_cast<T*>(given.result) + n * line;
            const int64_t y = n % given.height;
            const bool inside = y > 0 && y + 1 < given.height;
            for (int64_t begin = 0; begin < line; begin += chunk) {
                const int64_t count = smaller(chunk, line - begin);
                widen(row + begin, 1, count, values);
                // The outermost pixels stay as they are.
                const int64_t first = begin < step ? step - begin : 0;
                const int64_t end = smaller(count, line - step - begin);
                if (inside && first < end) {
                    const T* at = row + begin + first;
                    smooth(at - line, at, at + line, step, end - first, smoothed);
                    toward(smoothed, rest, end - first, values + first);
                }
                narrow(values, count, target + begin);
            }
        }
    });
}

template <typename T>
int64_t run(const fb_color& given) noexcept {
    if (given.images * given.channels * given.height * given.width == 0) return done;
    switch (given.kind) {
        case brightness:
        case solarize:
        case posterize: each_value<T>(given); break;
        case contrast: return contrasted<T>(given);
        case saturation: saturated<T>(given); break;
        case hue: hue_turned<T>(given); break;
        case gray: grayed<T>(given); break;
        case autocontrast:
        case equalize: planes<T>(given); break;
        default: sharpened<T>(given);
    }
    return done;
}

}  // namespace
}  // namespace vision

// void fb_look_up_u8(image, table, count, result, nthreads): count bytes, each replaced by what 256 bytes say for it
FB_EXPORT void fb_look_up_u8(const uint8_t* image, const uint8_t* table, int64_t count, uint8_t* result,
                             int32_t nthreads) noexcept {
    fb::parallel_for(0, count, 4096, nthreads, [&](int64_t from, int64_t to) noexcept {
        vision::look_up(image + from, table, 1, to - from, result + from);
    });
}

// int64_t fb_color_<dtype>(arguments) -> 0, or -1 when there is no memory
FB_EXPORT int64_t fb_color_u8(const fb_color* given) noexcept { return vision::run<uint8_t>(*given); }
FB_EXPORT int64_t fb_color_f32(const fb_color* given) noexcept { return vision::run<float>(*given); }

namespace {

// Channels last without gaps: of the last three dimensions, with at most one before them.
bool is_last(const fb::Tensor& image) noexcept {
    if (image.dim < 3 || image.dim > 4 || image.contiguous()) return false;
    const int64_t* sizes = image.sizes + image.dim - 3;
    const int64_t* strides = image.strides + image.dim - 3;
    return strides[0] == 1 && strides[2] == sizes[0] && strides[1] == sizes[0] * sizes[2] &&
           (image.dim == 3 || image.strides[0] == sizes[0] * sizes[1] * sizes[2]);
}

// The same sentences as `_check` in `flambeau/vision/ops/_color.py`.
bool valid(fb::Call& call, const char* op, const fb::Tensor& image, int64_t kind) noexcept {
    const bool levels = image.dtype == fb::DType::UInt8;
    const int64_t channels = image.dim >= 3 ? image.sizes[image.dim - 3] : 0;
    const bool coloured = kind == vision::saturation || kind == vision::hue || kind == vision::gray;
    if (kind < 0 || kind >= vision::kinds)
        call.fail("%s: kind is %lld, expected 0 to %d.", op, static_cast<long long>(kind), int(vision::kinds) - 1);
    else if (image.dim < 3)
        call.fail("%s: image has shape %s, expected (..., C, H, W).", op, fb::Shape(image).text);
    else if (!levels && (image.dtype != fb::DType::Float32 || kind == vision::equalize))
        call.fail("%s: image has dtype %s, expected torch.uint8 or torch.float32; convert it.", op,
                  fb::name(image.dtype));
    else if ((coloured && channels != 3) || (kind == vision::contrast && channels != 1 && channels != 3))
        call.fail("%s: image has shape %s, expected 3 channels.", op, fb::Shape(image).text);
    else
        return true;
    return false;
}

void color(fb::Call& call, const fb::Tensor& image, int64_t kind, double factor) noexcept {
    const char* op = "_color";
    if (!valid(call, op, image, kind)) return;
    const bool last = is_last(image);
    const fb::Tensor source = last ? call.borrow(image) : call.contiguous(image);
    if (!source.defined()) return;
    int64_t sizes[16], strides[16];
    if (image.dim > 16) return call.fail("%s: image has %lld dimensions.", op, static_cast<long long>(image.dim));
    memcpy(sizes, image.sizes, size_t(image.dim) * sizeof(int64_t));
    const int64_t at = image.dim - 3, channels = sizes[at], height = sizes[at + 1], width = sizes[at + 2];
    int64_t images = 1;
    for (int64_t i = 0; i < at; ++i) images *= sizes[i];
    if (kind == vision::gray) sizes[at] = int64_t(factor);
    if (last) {
        strides[at] = 1;
        strides[at + 2] = sizes[at];
        strides[at + 1] = sizes[at] * width;
        if (at) strides[0] = sizes[at] * width * height;
    }
    fb::Tensor result =
        last ? call.empty(image.dtype, sizes, strides, image.dim) : call.empty(image.dtype, sizes, image.dim);
    if (!result.defined()) return;
    const fb_color given{source.data, result.data, images, channels, height, width, factor, last, int32_t(kind),
                         fb::threads(images * channels * height * width / 16)};
    const int64_t status =
        image.dtype == fb::DType::UInt8 ? vision::run<uint8_t>(given) : vision::run<float>(given);
    if (status == vision::done)
        call.give(result);
    else
        call.fail("%s: no memory left.", op);
}

void look_up(fb::Call& call, const fb::Tensor& image, const fb::Tensor& table) noexcept {
    const char* op = "_look_up";
    if (image.dtype != fb::DType::UInt8 || table.dtype != fb::DType::UInt8)
        return call.fail("%s: image has dtype %s and table %s, expected torch.uint8.", op, fb::name(image.dtype),
                         fb::name(table.dtype));
    if (table.dim != 1 || table.sizes[0] != 256)
        return call.fail("%s: table has shape %s, expected (256,).", op, fb::Shape(table).text);
    const fb::Tensor source = call.contiguous(image), entries = call.contiguous(table);
    if (!source.defined() || !entries.defined()) return;
    fb::Tensor result = call.empty(fb::DType::UInt8, image.sizes, image.dim);
    if (!result.defined()) return;
    fb_look_up_u8(source.as<uint8_t>(), entries.as<uint8_t>(), image.numel(), result.as<uint8_t>(),
                  fb::threads(image.numel() / 16));
    call.give(result);
}

FB_OPERATOR("_color", color);
FB_OPERATOR("_look_up", look_up);

}  // namespace
