// Rooms that are boxes with one corner at 0: impulse responses from image sources, and energy over time by rays.
//
// The reference is in `flambeau.audio.prototype.functional`: image_sources.py and rays.py.

#include <flambeau/kernel.h>
#include <math.h>
#include <string.h>

#include <new>
#include <vector>

namespace {

constexpr double pi = 3.14159265358979323846;

// A pulse that arrives between two samples, as a sinc in a Hann window: value of tap k for a pulse `part` after the
// middle tap, part in (-1, 0]. Sines and cosines of neighbouring taps follow from one another.
template <typename T>
void add_pulse(T* response, int64_t taps, double part, double amplitude) noexcept {
    const int64_t half = taps / 2;
    const double span = 2.0 * double(half);
    double x = -double(half) - part;
    const double step_cos = cos(2 * pi / span), step_sin = sin(2 * pi / span);
    double window_cos = cos(2 * pi * x / span), window_sin = sin(2 * pi * x / span);
    double sine = sin(pi * x);
    for (int64_t k = 0; k < taps; ++k, x += 1.0) {
        if (fabs(x) <= double(half)) {
            const double sinc = fabs(x) < 1e-9 ? 1.0 : sine / (pi * x);
            response[k] += T(amplitude * sinc * 0.5 * (1.0 + window_cos));
        }
        sine = -sine;
        const double turned = window_cos * step_cos - window_sin * step_sin;
        window_sin = window_sin * step_cos + window_cos * step_sin;
        window_cos = turned;
    }
}

template <typename T>
void impulse_response(const T* amplitude, const T* delay, int64_t bands, int64_t images, int64_t mics, int64_t taps,
                      T* response, int64_t length) noexcept {
    fb::parallel_for(0, bands * mics, 1, fb::threads(bands * mics * images * taps),
                     [&](int64_t begin, int64_t end) noexcept {
                         for (int64_t row = begin; row < end; ++row) {
                             const int64_t band = row / mics, mic = row % mics;
                             T* out = response + row * length;
                             memset(out, 0, size_t(length) * sizeof(T));
                             for (int64_t image = 0; image < images; ++image) {
                                 const double at = double(delay[image * mics + mic]), first = ceil(at);
                                 if (!(first >= 0) || first + double(taps) > double(length)) continue;
                                 add_pulse(out + int64_t(first), taps, at - first,
                                           double(amplitude[(band * images + image) * mics + mic]));
                             }
                         }
                     });
}

struct Scene {
    const double* room;        // (3,)
    const double* source;      // (3,)
    const double* mics;        // (count, 3)
    const double* reflection;  // (bands, 6): share of energy that walls send back; walls in pairs at 0 and at the end
    const double* scattering;  // (bands, 6): share of it that goes in all directions
    int64_t mic_count, bands, rays, bins;
    double radius, speed, least_energy, most_time, bin;
    bool scatters;
};

// The share of a sphere that a microphone covers at a distance, times 2.
double covered(double radius, double distance) noexcept {
    const double squared = radius * radius, r = distance * distance;
    return 1.0 - sqrt(1.0 - squared / (r > squared ? r : squared));
}

// Where microphone `mic` records what has travelled `distance`; null when that is too late.
double* place(const Scene& scene, double* histogram, int64_t mic, double distance) noexcept {
    const int64_t bin = int64_t(distance / scene.speed / scene.bin);
    return bin < scene.bins ? histogram + mic * scene.bands * scene.bins + bin : nullptr;
}

void record(const Scene& scene, double* histogram, int64_t mic, double distance, const double* energy,
            double share) noexcept {
    double* at = place(scene, histogram, mic, distance);
    if (!at) return;
    const double scale = share / (distance * distance * covered(scene.radius, distance));
    for (int64_t band = 0; band < scene.bands; ++band) at[band * scene.bins] += energy[band] * scale;
}

// What a wall scatters goes straight to every microphone, by Lambert's law.
void scatter(const Scene& scene, double* histogram, const double* point, int64_t axis, int64_t wall, double travelled,
             const double* energy, double* part) noexcept {
    for (int64_t band = 0; band < scene.bands; ++band) part[band] = energy[band] * scene.scattering[band * 6 + wall];
    for (int64_t mic = 0; mic < scene.mic_count; ++mic) {
        double squared = 0;
        for (int64_t i = 0; i < 3; ++i) {
            const double d = scene.mics[mic * 3 + i] - point[i];
            squared += d * d;
        }
        const double hop = sqrt(squared);
        const double cosine = hop > 0 ? fabs(scene.mics[mic * 3 + axis] - point[axis]) / hop : 0;
        record(scene, histogram, mic, travelled + hop, part, 2 * cosine * covered(scene.radius, hop));
    }
}

void trace(const Scene& scene, int64_t ray, double* histogram, double* energy, double* part) noexcept {
    // Directions are spread evenly by a spiral.
    const double offset = 2.0 / double(scene.rays);
    const double z = double(ray) * offset - 1.0 + offset / 2;
    const double rho = sqrt(1.0 - z * z), phi = double(ray) * (pi * (3.0 - sqrt(5.0)));
    double direction[3] = {cos(phi) * rho, sin(phi) * rho, z};
    double point[3] = {scene.source[0], scene.source[1], scene.source[2]};
    for (int64_t band = 0; band < scene.bands; ++band) energy[band] = 2.0 / double(scene.rays);
    const double least = scene.least_energy * 2.0 / double(scene.rays);
    double travelled = 0;
    while (travelled < scene.speed * scene.most_time) {
        int64_t axis = 0;
        double hop = INFINITY;
        for (int64_t i = 0; i < 3; ++i) {
            if (direction[i] == 0) continue;
            const double way = ((direction[i] > 0 ? scene.room[i] : 0) - point[i]) / direction[i];
            if (way < hop) {
                hop = way;
                axis = i;
            }
        }
        for (int64_t mic = 0; mic < scene.mic_count; ++mic) {
            double along = 0, squared = 0;
            for (int64_t i = 0; i < 3; ++i) {
                const double d = scene.mics[mic * 3 + i] - point[i];
                along += d * direction[i];
                squared += d * d;
            }
            if (along < 0 || along >= hop || squared - along * along > scene.radius * scene.radius) continue;
            if (travelled + along > 0) record(scene, histogram, mic, travelled + along, energy, 1.0);
        }
        const int64_t wall = 2 * axis + (direction[axis] > 0);
        for (int64_t i = 0; i < 3; ++i) point[i] += hop * direction[i];
        point[axis] = direction[axis] > 0 ? scene.room[axis] : 0;
        travelled += hop;
        for (int64_t band = 0; band < scene.bands; ++band) energy[band] *= scene.reflection[band * 6 + wall];
        if (scene.scatters) scatter(scene, histogram, point, axis, wall, travelled, energy, part);
        double most = 0;
        for (int64_t band = 0; band < scene.bands; ++band) {
            energy[band] *= 1.0 - scene.scattering[band * 6 + wall];
            if (energy[band] > most) most = energy[band];
        }
        if (!(most > least)) return;
        direction[axis] = -direction[axis];
    }
}

// Rays are traced in this many groups, whose histograms are added up in order: sums do not depend on threads.
constexpr int64_t groups = 8;

bool trace_all(const Scene& scene, double* histogram) noexcept {
    const int64_t size = scene.mic_count * scene.bands * scene.bins;
    std::vector<double> parts, energies;
    try {
        parts.assign(size_t(groups * size), 0.0);
        energies.assign(size_t(groups * 2 * scene.bands), 0.0);
    } catch (const std::bad_alloc&) {
        return false;
    }
    fb::parallel_for(0, groups, 1, fb::threads(scene.rays * 1024), [&](int64_t begin, int64_t end) noexcept {
        for (int64_t group = begin; group < end; ++group) {
            double* energy = energies.data() + group * 2 * scene.bands;
            for (int64_t ray = group; ray < scene.rays; ray += groups)
                trace(scene, ray, parts.data() + group * size, energy, energy + scene.bands);
        }
    });
    memset(histogram, 0, size_t(size) * sizeof(double));
    for (int64_t group = 0; group < groups; ++group)
        for (int64_t i = 0; i < size; ++i) histogram[i] += parts[size_t(group * size + i)];
    return true;
}

}  // namespace

// amplitude (bands, images, mics), delay (images, mics) in samples -> response (bands, mics, length): the sum of pulses
// whose middle is `taps / 2` after their delay; one that does not fit in is left out.
FB_EXPORT void fb_impulse_response_f32(const float* amplitude, const float* delay, int64_t bands, int64_t images,
                                       int64_t mics, int64_t taps, float* response, int64_t length) noexcept {
    impulse_response(amplitude, delay, bands, images, mics, taps, response, length);
}
FB_EXPORT void fb_impulse_response_f64(const double* amplitude, const double* delay, int64_t bands, int64_t images,
                                       int64_t mics, int64_t taps, double* response, int64_t length) noexcept {
    impulse_response(amplitude, delay, bands, images, mics, taps, response, length);
}

// See `Scene` for the arguments; histogram (mics, bands, bins). Returns 0, or -1 when there is no memory.
FB_EXPORT int64_t fb_trace_rays_f64(const double* room, const double* source, const double* mics, int64_t mic_count,
                                    const double* reflection, const double* scattering, int64_t bands, int64_t rays,
                                    double radius, double speed, double least_energy, double most_time, double bin,
                                    double* histogram, int64_t bins) noexcept {
    bool scatters = false;
    for (int64_t i = 0; i < bands * 6; ++i) scatters |= scattering[i] > 0;
    const Scene scene{room, source, mics, reflection, scattering, mic_count, bands, rays, bins,
                      radius, speed, least_energy, most_time, bin, scatters};
    return trace_all(scene, histogram) ? 0 : -1;
}

namespace {

// The same sentences as `_check` in image_sources.py.
void impulse_response_op(fb::Call& call, const fb::Tensor& amplitude, const fb::Tensor& delay, int64_t taps,
                         int64_t length) noexcept {
    const char* op = "_impulse_response";
    if (amplitude.dim != 3 || delay.dim != 2 || amplitude.sizes[1] != delay.sizes[0] ||
        amplitude.sizes[2] != delay.sizes[1])
        return call.fail("%s: amplitude has shape %s and delay %s, expected (bands, images, mics) and (images, mics).",
                         op, fb::Shape(amplitude).text, fb::Shape(delay).text);
    if ((amplitude.dtype != fb::DType::Float32 && amplitude.dtype != fb::DType::Float64) ||
        delay.dtype != amplitude.dtype)
        return call.fail("%s: amplitude is %s and delay %s, expected float32 or float64 twice.", op,
                         fb::name(amplitude.dtype), fb::name(delay.dtype));
    if (taps < 3 || taps % 2 == 0 || length < 0)
        return call.fail("%s: taps is %lld and length %lld, expected an odd number from 3 on and one from 0 on.", op,
                         static_cast<long long>(taps), static_cast<long long>(length));
    const fb::Tensor a = call.contiguous(amplitude), d = call.contiguous(delay);
    fb::Tensor result = call.empty(amplitude.dtype, {amplitude.sizes[0], amplitude.sizes[2], length});
    if (!a.defined() || !d.defined() || !result.defined()) return;
    const int64_t bands = a.sizes[0], images = a.sizes[1], mics = a.sizes[2];
    if (a.dtype == fb::DType::Float32)
        impulse_response(a.as<float>(), d.as<float>(), bands, images, mics, taps, result.as<float>(), length);
    else
        impulse_response(a.as<double>(), d.as<double>(), bands, images, mics, taps, result.as<double>(), length);
    call.give(result);
}

// The same sentences as `_check` in rays.py.
void trace_rays_op(fb::Call& call, const fb::Tensor& room, const fb::Tensor& source, const fb::Tensor& mics,
                   const fb::Tensor& reflection, const fb::Tensor& scattering, int64_t rays, int64_t bins, double radius,
                   double speed, double least_energy, double most_time, double bin) noexcept {
    const char* op = "_trace_rays";
    for (const fb::Tensor* one : {&room, &source, &mics, &reflection, &scattering})
        if (one->dtype != fb::DType::Float64)
            return call.fail("%s: a tensor is %s, expected float64.", op, fb::name(one->dtype));
    if (room.dim != 1 || room.sizes[0] != 3 || source.dim != 1 || source.sizes[0] != 3 || mics.dim != 2 ||
        mics.sizes[1] != 3)
        return call.fail("%s: room, source and mics have shapes %s, %s and %s; expected (3,), (3,) and (mics, 3).", op,
                         fb::Shape(room).text, fb::Shape(source).text, fb::Shape(mics).text);
    if (reflection.dim != 2 || reflection.sizes[1] != 6 || scattering.dim != 2 || scattering.sizes[1] != 6 ||
        scattering.sizes[0] != reflection.sizes[0])
        return call.fail("%s: reflection and scattering have shapes %s and %s, expected (bands, 6) twice.", op,
                         fb::Shape(reflection).text, fb::Shape(scattering).text);
    const fb::Tensor r = call.contiguous(room), s = call.contiguous(source), m = call.contiguous(mics);
    const fb::Tensor back = call.contiguous(reflection), spread = call.contiguous(scattering);
    fb::Tensor result = call.empty(fb::DType::Float64, {mics.sizes[0], reflection.sizes[0], bins});
    if (!r.defined() || !s.defined() || !m.defined() || !back.defined() || !spread.defined() || !result.defined())
        return;
    if (fb_trace_rays_f64(r.as<double>(), s.as<double>(), m.as<double>(), m.sizes[0], back.as<double>(),
                          spread.as<double>(), back.sizes[0], rays, radius, speed, least_energy, most_time, bin,
                          result.as<double>(), bins) != 0)
        return call.fail("%s: no memory left for %lld histograms.", op, static_cast<long long>(groups));
    call.give(result);
}

FB_OPERATOR("_impulse_response", impulse_response_op);
FB_OPERATOR("_trace_rays", trace_rays_op);

}  // namespace
