// Pictures of bytes seen through a map: each pixel of the result is the nearest one to the place it comes from, or a
// mean of four. Places are given, or those of an affine map: then they are computed as torch's formula and its
// `grid_sample` do it (not aligned to corners), in float32 and in the same order, so that the same pixel is nearest.

#include <flambeau/kernel.h>
#include <math.h>

#include "workspace.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define VISION_AVX2 1
#include <immintrin.h>
#define VISION_FOR_AVX2 __attribute__((target("avx2")))
#endif

namespace vision {
namespace {

constexpr int64_t chunk = 256;

inline int64_t smaller(int64_t a, int64_t b) noexcept { return a < b ? a : b; }

struct Map {
    float across_x, across_y, across, down_x, down_y, down;  // from centred pixels to [-1, 1]
    int64_t height, width;                                   // of the source
    const float* grid;                                       // or places (x, y) in [-1, 1]; null: the map's
};

struct Places {
    float x[chunk], y[chunk];
};

// Where pixels [begin, begin + count) of a row come from, in pixels of the source.
FB_CLONES void locate(const Map& map, float first, float row, int64_t begin, int64_t count, Places& places) noexcept {
    const float across = row * map.across_y + map.across, down = row * map.down_y + map.down;
    const float wide = float(map.width) * 0.5f, high = float(map.height) * 0.5f;
    for (int64_t i = 0; i < count; ++i) {
        const float column = float(int32_t(begin + i)) + first;
        places.x[i] = (column * map.across_x + across + 1) * wide - 0.5f;
        places.y[i] = (column * map.down_x + down + 1) * high - 0.5f;
    }
}

FB_CLONES void locate(const Map& map, const float* grid, int64_t count, Places& places) noexcept {
    const float wide = float(map.width) * 0.5f, high = float(map.height) * 0.5f;
    for (int64_t i = 0; i < count; ++i) {
        places.x[i] = (grid[2 * i] + 1) * wide - 0.5f;
        places.y[i] = (grid[2 * i + 1] + 1) * high - 0.5f;
    }
}

// Offsets of the nearest pixels, -1 outside.
FB_CLONES void nearest(const Map& map, const Places& places, int64_t row_step, int64_t step, int64_t count,
                       int32_t* offsets) noexcept {
    const float right = float(map.width - 1), bottom = float(map.height - 1);
    for (int64_t i = 0; i < count; ++i) {
        const float x = rintf(places.x[i]), y = rintf(places.y[i]);
        const bool inside = (x >= 0) & (x <= right) & (y >= 0) & (y <= bottom);
        const float near_x = inside ? x : 0, near_y = inside ? y : 0;
        const int32_t offset = int32_t(near_y) * int32_t(row_step) + int32_t(near_x) * int32_t(step);
        offsets[i] = inside ? offset : -1;
    }
}

// The nearest pixels of one channel.
void take_one(const uint8_t* __restrict pixels, const int32_t* __restrict offsets, int64_t count, uint8_t outside,
              int64_t step, uint8_t* __restrict row) noexcept {
    if (step == 1)
        for (int64_t i = 0; i < count; ++i) row[i] = offsets[i] >= 0 ? pixels[offsets[i]] : outside;
    else
        for (int64_t i = 0; i < count; ++i) row[i * step] = offsets[i] >= 0 ? pixels[offsets[i]] : outside;
}

// The nearest pixels of three channels side by side, whole: two moves for a pixel instead of three.
void take_three(const uint8_t* pixels, const int32_t* offsets, int64_t count, const uint8_t* outside,
                uint8_t* row) noexcept {
    for (int64_t i = 0; i < count; ++i, row += 3) {
        const uint8_t* const from = offsets[i] >= 0 ? pixels + offsets[i] : outside;
        memcpy(row, from, 2);
        row[2] = from[2];
    }
}

// Of the four pixels around each place: their offsets, some pixel's for those outside, and weights, 0 for those.
struct Four {
    int32_t offset[4][chunk];
    float weight[4][chunk];
};
FB_CLONES void around(const Map& map, const Places& places, int64_t row_step, int64_t step, int64_t count,
                      Four& four) noexcept {
    const float right = float(map.width - 1), bottom = float(map.height - 1);
    for (int64_t i = 0; i < count; ++i) {
        const float left = floorf(places.x[i]), top = floorf(places.y[i]);
        const float east = places.x[i] - left, south = places.y[i] - top;
        const float west = 1 - east, north = 1 - south;
        const bool in_west = (left >= 0) & (left <= right), in_east = (left >= -1) & (left <= right - 1);
        const bool in_north = (top >= 0) & (top <= bottom), in_south = (top >= -1) & (top <= bottom - 1);
        const int32_t x0 = in_west ? int32_t(in_west ? left : 0) * int32_t(step) : 0;
        const int32_t x1 = in_east ? int32_t((in_east ? left : 0) + 1) * int32_t(step) : 0;
        const int32_t y0 = in_north ? int32_t(in_north ? top : 0) * int32_t(row_step) : 0;
        const int32_t y1 = in_south ? int32_t((in_south ? top : 0) + 1) * int32_t(row_step) : 0;
        four.offset[0][i] = y0 + x0;
        four.offset[1][i] = y0 + x1;
        four.offset[2][i] = y1 + x0;
        four.offset[3][i] = y1 + x1;
        four.weight[0][i] = in_north & in_west ? north * west : 0;
        four.weight[1][i] = in_north & in_east ? north * east : 0;
        four.weight[2][i] = in_south & in_west ? south * west : 0;
        four.weight[3][i] = in_south & in_east ? south * east : 0;
    }
}

FB_CLONES void round_levels(const float* values, int64_t count, uint8_t* levels) noexcept {
    for (int64_t i = 0; i < count; ++i) levels[i] = uint8_t(int32_t(rintf(values[i])));
}

#if defined(VISION_AVX2)

// Up to four channels of a pixel in four bytes: one load brings them all.
void pack(const uint8_t* picture, int64_t pixels, int64_t channels, int64_t plane, int64_t step,
          uint8_t* packed) noexcept {
    for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < pixels; ++i) packed[4 * i + c] = picture[c * plane + i * step];
}

VISION_FOR_AVX2 inline __m128 pixel(const uint8_t* packed, int32_t offset) noexcept {
    int32_t bytes;
    memcpy(&bytes, packed + 4 * int64_t(offset), sizeof bytes);
    return _mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes)));
}

// Means of four pixels, rounded; `four` counts pixels. Sums in the order of the loop for any machine.
VISION_FOR_AVX2 void mean_of_four(const uint8_t* packed, const Four& four, const float* fill, int64_t count,
                                  uint8_t* levels) noexcept {
    const __m128 outside = fill ? _mm_loadu_ps(fill) : _mm_setzero_ps();
    for (int64_t i = 0; i < count; ++i) {
        const __m128 w0 = _mm_set1_ps(four.weight[0][i]), w1 = _mm_set1_ps(four.weight[1][i]);
        const __m128 w2 = _mm_set1_ps(four.weight[2][i]), w3 = _mm_set1_ps(four.weight[3][i]);
        __m128 value = _mm_mul_ps(pixel(packed, four.offset[0][i]), w0);
        value = _mm_add_ps(value, _mm_mul_ps(pixel(packed, four.offset[1][i]), w1));
        value = _mm_add_ps(value, _mm_mul_ps(pixel(packed, four.offset[2][i]), w2));
        value = _mm_add_ps(value, _mm_mul_ps(pixel(packed, four.offset[3][i]), w3));
        if (fill) {
            const __m128 inside = _mm_add_ps(_mm_add_ps(_mm_add_ps(w0, w1), w2), w3);
            value = _mm_add_ps(_mm_mul_ps(_mm_sub_ps(value, outside), inside), outside);
        }
        const __m128i whole = _mm_cvtps_epi32(value), words = _mm_packs_epi32(whole, whole);
        const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
        memcpy(levels + 4 * i, &bytes, sizeof bytes);
    }
}

#endif

struct Job {
    Map map;
    const uint8_t* source;
    uint8_t* result;
    int64_t images, channels, new_height, new_width;
    bool last, bilinear;
    const float* fill;  // of each channel, or null: 0, which does not blend the edge
};

#if defined(VISION_AVX2)

// Bilinear, up to four channels; false when there is no memory for the packed pictures.
bool run_packed(const Job& job, int32_t nthreads) noexcept {
    const Map& map = job.map;
    const int64_t step = job.last ? job.channels : 1, pixels = map.height * map.width;
    const int64_t plane = job.last ? 1 : pixels, new_plane = job.last ? 1 : job.new_height * job.new_width;
    const float first_x = float(1 - job.new_width) * 0.5f, first_y = float(1 - job.new_height) * 0.5f;
    Array<uint8_t> packed;
    if (!packed.make(job.images * pixels * 4)) return false;
    fb::parallel_for(0, job.images * map.height, 1, nthreads, [&](int64_t from, int64_t to) noexcept {
        for (int64_t n = from; n < to; ++n)
            pack(job.source + n / map.height * job.channels * pixels + n % map.height * map.width * step, map.width,
                 job.channels, plane, step, packed.get() + n * map.width * 4);
    });
    float fill[4] = {};
    for (int64_t c = 0; job.fill && c < job.channels; ++c) fill[c] = job.fill[c];
    fb::parallel_for(0, job.images * job.new_height, 1, nthreads, [&](int64_t from, int64_t to) noexcept {
        Places places;
        Four four;
        uint8_t levels[4 * chunk];
        for (int64_t n = from; n < to; ++n) {
            const int64_t image = n / job.new_height, y = n % job.new_height;
            uint8_t* result = job.result + image * job.channels * job.new_height * job.new_width +
                              y * job.new_width * step;
            for (int64_t begin = 0; begin < job.new_width; begin += chunk) {
                const int64_t count = smaller(chunk, job.new_width - begin);
                if (map.grid)
                    locate(map, map.grid + 2 * (y * job.new_width + begin), count, places);
                else
                    locate(map, first_x, float(int32_t(y)) + first_y, begin, count, places);
                around(map, places, map.width, 1, count, four);
                mean_of_four(packed.get() + image * pixels * 4, four, job.fill ? fill : nullptr, count, levels);
                for (int64_t c = 0; c < job.channels; ++c) {
                    uint8_t* row = result + c * new_plane + begin * step;
                    for (int64_t i = 0; i < count; ++i) row[i * step] = levels[4 * i + c];
                }
            }
        }
    });
    return true;
}

#endif

void run(const Job& job, int32_t nthreads) noexcept {
    const Map& map = job.map;
#if defined(VISION_AVX2)
    if (job.bilinear && job.channels > 1 && job.channels <= 4 && __builtin_cpu_supports("avx2") &&
        run_packed(job, nthreads))
        return;
#endif
    const int64_t step = job.last ? job.channels : 1;
    const int64_t plane = job.last ? 1 : map.height * map.width;
    const int64_t new_plane = job.last ? 1 : job.new_height * job.new_width;
    const float first_x = float(1 - job.new_width) * 0.5f, first_y = float(1 - job.new_height) * 0.5f;
    uint8_t outside[3] = {};
    for (int64_t c = 0; job.fill && c < smaller(job.channels, 3); ++c) outside[c] = uint8_t(int32_t(job.fill[c]));
    fb::parallel_for(0, job.images * job.new_height, 1, nthreads, [&](int64_t from, int64_t to) noexcept {
        Places places;
        Four four;
        int32_t offsets[chunk];
        float values[chunk];
        uint8_t levels[chunk];
        for (int64_t n = from; n < to; ++n) {
            const int64_t image = n / job.new_height, y = n % job.new_height;
            const uint8_t* source = job.source + image * job.channels * map.height * map.width;
            uint8_t* result = job.result + image * job.channels * job.new_height * job.new_width +
                              y * job.new_width * step;
            for (int64_t begin = 0; begin < job.new_width; begin += chunk) {
                const int64_t count = smaller(chunk, job.new_width - begin);
                if (map.grid)
                    locate(map, map.grid + 2 * (y * job.new_width + begin), count, places);
                else
                    locate(map, first_x, float(int32_t(y)) + first_y, begin, count, places);
                if (!job.bilinear) {
                    nearest(map, places, map.width * step, step, count, offsets);
                    if (job.last && job.channels == 3) {
                        take_three(source, offsets, count, outside, result + begin * step);
                        continue;
                    }
                    for (int64_t c = 0; c < job.channels; ++c) {
                        const uint8_t beyond = job.fill ? uint8_t(int32_t(job.fill[c])) : 0;
                        take_one(source + c * plane, offsets, count, beyond, step,
                                 result + c * new_plane + begin * step);
                    }
                    continue;
                }
                around(map, places, map.width * step, step, count, four);
                for (int64_t c = 0; c < job.channels; ++c) {
                    const uint8_t* pixels = source + c * plane;
                    uint8_t* row = result + c * new_plane + begin * step;
                    for (int64_t i = 0; i < count; ++i)
                        values[i] = float(pixels[four.offset[0][i]]) * four.weight[0][i] +
                                    float(pixels[four.offset[1][i]]) * four.weight[1][i] +
                                    float(pixels[four.offset[2][i]]) * four.weight[2][i] +
                                    float(pixels[four.offset[3][i]]) * four.weight[3][i];
                    if (job.fill) {
                        const float fill = job.fill[c];
                        for (int64_t i = 0; i < count; ++i) {
                            const float inside =
                                four.weight[0][i] + four.weight[1][i] + four.weight[2][i] + four.weight[3][i];
                            values[i] = (values[i] - fill) * inside + fill;
                        }
                    }
                    round_levels(values, count, levels);
                    for (int64_t i = 0; i < count; ++i) row[i * step] = levels[i];
                }
            }
        }
    });
}

}  // namespace
}  // namespace vision

namespace {

// Channels last without gaps. A single picture may say anything of the distance to the next.
bool is_last(const fb::Tensor& image) noexcept {
    if (image.dim != 4 || image.contiguous()) return false;
    const int64_t *sizes = image.sizes, *strides = image.strides;
    return strides[1] == 1 && strides[3] == sizes[1] && strides[2] == sizes[1] * sizes[3] &&
           (sizes[0] == 1 || strides[0] == sizes[1] * sizes[2] * sizes[3]);
}

// The same sentences as `_check` in `flambeau/vision/ops/_affine.py`.
void map_pictures(fb::Call& call, const char* op, const fb::Tensor& image, vision::Map map, int64_t height,
                  int64_t width, bool bilinear, const fb::Tensor& fill) noexcept {
    if (image.dim != 4)
        return call.fail("%s: image has shape %s, expected (N, C, H, W).", op, fb::Shape(image).text);
    if (image.dtype != fb::DType::UInt8)
        return call.fail("%s: image has dtype %s, expected torch.uint8; convert it.", op, fb::name(image.dtype));
    if (height < 1 || width < 1 || image.numel() == 0 || image.numel() / image.sizes[0] > INT32_MAX)
        return call.fail("%s: pictures of %s cannot be mapped to (%lld, %lld).", op, fb::Shape(image).text,
                         static_cast<long long>(height), static_cast<long long>(width));
    if (fill.dim != 1 || fill.dtype != fb::DType::Float32 || (fill.sizes[0] != 0 && fill.sizes[0] != image.sizes[1]))
        return call.fail("%s: fill has to be float32, empty or of one number for each channel.", op);
    const bool last = is_last(image);
    const fb::Tensor source = last ? call.borrow(image) : call.contiguous(image), fills = call.contiguous(fill);
    if (!source.defined() || !fills.defined()) return;
    const int64_t n = image.sizes[0], channels = image.sizes[1];
    const int64_t sizes[] = {n, channels, height, width};
    const int64_t strides[] = {channels * height * width, last ? 1 : height * width, last ? width * channels : width,
                               last ? channels : 1};
    fb::Tensor result = call.empty(fb::DType::UInt8, sizes, strides, 4);
    if (!result.defined()) return;
    map.height = image.sizes[2];
    map.width = image.sizes[3];
    vision::run({map, source.as<uint8_t>(), result.as<uint8_t>(), n, channels, height, width, last, bilinear,
                 fill.sizes[0] ? fills.as<float>() : nullptr},
                fb::threads(n * channels * height * width / (bilinear ? 8 : 16)));
    call.give(result);
}

void affine(fb::Call& call, const fb::Tensor& image, double a, double b, double c, double d, double e, double f,
            int64_t height, int64_t width, bool bilinear, const fb::Tensor& fill) noexcept {
    const double wide = image.dim == 4 ? double(image.sizes[3]) : 1, high = image.dim == 4 ? double(image.sizes[2]) : 1;
    const vision::Map map{float(2 * a / wide), float(2 * b / wide), float(2 * c / wide), float(2 * d / high),
                          float(2 * e / high), float(2 * f / high), 0, 0, nullptr};
    map_pictures(call, "_affine", image, map, height, width, bilinear, fill);
}

void sample(fb::Call& call, const fb::Tensor& image, const fb::Tensor& grid, bool bilinear,
            const fb::Tensor& fill) noexcept {
    const char* op = "_sample";
    if (grid.dim != 3 || grid.sizes[2] != 2 || grid.dtype != fb::DType::Float32)
        return call.fail("%s: grid has shape %s and dtype %s, expected (H, W, 2) and torch.float32.", op,
                         fb::Shape(grid).text, fb::name(grid.dtype));
    const fb::Tensor places = call.contiguous(grid);
    if (!places.defined()) return;
    vision::Map map{};
    map.grid = places.as<float>();
    map_pictures(call, op, image, map, grid.sizes[0], grid.sizes[1], bilinear, fill);
}

FB_OPERATOR("_sample", sample);
FB_OPERATOR("_affine", affine);

}  // namespace
