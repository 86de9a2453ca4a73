// Power spectra of overlapping frames, eight frames at a time; Kaldi's features; filters over frequencies.
//
// The schemas and the references are in `flambeau/audio/functional/_spectra.py`.

#include "filter_bank.h"
#include "fourier.h"

namespace {

using fourier::Lane;
using filter_bank::Bands;

constexpr int64_t tile = 32;  // frames that filters pass over at once

// Copies `count` samples of eight signals so that the eight samples of one moment lie side by side.
FB_INLINE void interleave(const float* const (&x)[lanes], int64_t count, Eight* y) noexcept {
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        Eight rows[lanes];
        for (int64_t l = 0; l < lanes; ++l) memcpy(&rows[l], x[l] + i, sizeof rows[l]);
        transpose(rows);
        for (int64_t l = 0; l < lanes; ++l) y[i + l] = rows[l];
    }
    for (; i < count; ++i)
        for (int64_t l = 0; l < lanes; ++l) y[i][l] = x[l][i];
}

FB_INLINE void take_roots(Eight* values, int64_t count) noexcept {
    for (int64_t k = 0; k < count; ++k)
        for (int64_t l = 0; l < lanes; ++l) values[k][l] = sqrtf(values[k][l]);
}

// Samples of eight frames, and what their transform needs.
class Scratch {
  public:
    explicit Scratch(int64_t n) noexcept
        // One frequency more than pairs of samples.
        : memory_(malloc(2 * size_t(n + 2) * lanes * sizeof(float) + 64)) {
        const size_t at = (reinterpret_cast<size_t>(memory_) + 63) & ~size_t(63);
        first_ = reinterpret_cast<Lane*>(at);
        second_ = first_ + n / 2 + 1;
    }
    Scratch(const Scratch&) = delete;
    ~Scratch() { free(memory_); }

    explicit operator bool() const noexcept { return memory_ != nullptr; }
    Lane* first() const noexcept { return first_; }
    Eight* samples() const noexcept { return reinterpret_cast<Eight*>(first_); }

    // Powers of the samples' n / 2 + 1 frequencies; the samples are gone.
    FB_INLINE Eight* powers(int64_t n, const fourier::Number* turns) const noexcept {
        Lane* spectrum = fourier::transform(first_, second_, n / 2, turns);
        Eight* result = reinterpret_cast<Eight*>(spectrum == first_ ? second_ : first_);
        fourier::powers(spectrum, n / 2, turns, result);
        return result;
    }

  private:
    void* memory_;
    Lane *first_, *second_;
};

struct Frames {
    int64_t rows, stride, count, hop;  // `count` frames of each row, which begin `hop` samples apart

    // Where the frames from `frame` on begin; those beyond the last are the last once more.
    FB_INLINE int64_t at(const float* x, int64_t row, int64_t frame, const float* (&starts)[lanes]) const noexcept {
        const int64_t here = count - frame < lanes ? count - frame : lanes;
        for (int64_t l = 0; l < lanes; ++l)
            starts[l] = x + row * stride + (frame + (l < here ? l : here - 1)) * hop;
        return here;
    }
    int64_t groups() const noexcept { return (count + lanes - 1) / lanes; }
};

// Calls `work(scratch, row, frame)` for every eight frames; false where memory ran out.
template <typename Work>
bool over(const Frames& frames, int64_t n, int32_t nthreads, const Work& work) noexcept {
    std::atomic<bool> failed{false};
    const int64_t groups = frames.groups();
    fb::parallel_for(0, frames.rows * groups, 8, nthreads, [&](int64_t begin, int64_t end) noexcept {
        const Scratch scratch(n);
        if (!scratch) {
            failed = true;
            return;
        }
        for (int64_t i = begin; i < end; ++i) work(scratch, i / groups, i % groups * lanes);
    });
    return !failed;
}

struct Spectrogram {
    const float* x;
    const float* window;
    const fourier::Number* turns;
    Frames frames;
    int64_t n;
    bool root;
    float* y;
};

FB_CLONES void spectrogram_of(const Spectrogram& job, const Scratch& scratch, int64_t row, int64_t frame) noexcept {
    const float* starts[lanes];
    const int64_t here = job.frames.at(job.x, row, frame, starts), n = job.n, count = job.frames.count;
    Eight* samples = scratch.samples();
    interleave(starts, n, samples);
    for (int64_t i = 0; i < n; ++i) samples[i] = job.window[i] * samples[i];
    Eight* powers = scratch.powers(n, job.turns);
    if (job.root) take_roots(powers, n / 2 + 1);
    float* y = job.y + row * (n / 2 + 1) * count + frame;
    if (here == lanes)
        for (int64_t k = 0; k <= n / 2; ++k) memcpy(y + k * count, &powers[k], sizeof(Eight));
    else
        for (int64_t k = 0; k <= n / 2; ++k) memcpy(y + k * count, &powers[k], sizeof(float) * size_t(here));
}

struct Kaldi {
    const float* x;
    const float* window;
    const fourier::Number* turns;
    const Bands* bands;  // null for frequencies as they are
    Frames frames;
    int64_t n, size, width;
    float preemphasis;
    bool remove_mean, raw_energy, root;
    float *y, *energy;
};

// Two sums side by side: one would wait for itself.
FB_INLINE void energies(const Eight* samples, int64_t size, Eight& sums) noexcept {
    Eight even = {}, odd = {};
    for (int64_t i = 0; i + 1 < size; i += 2) {
        even += samples[i] * samples[i];
        odd += samples[i + 1] * samples[i + 1];
    }
    if (size % 2) even += samples[size - 1] * samples[size - 1];
    sums = even + odd;
}

FB_INLINE void without_mean(Eight* samples, int64_t size) noexcept {
    Eight even = {}, odd = {};
    for (int64_t i = 0; i + 1 < size; i += 2) {
        even += samples[i];
        odd += samples[i + 1];
    }
    if (size % 2) even += samples[size - 1];
    const Eight mean = (1.0f / float(size)) * (even + odd);
    for (int64_t i = 0; i < size; ++i) samples[i] -= mean;
}

// The `width` features of eight frames, or of the first `here` of them, go to their rows.
FB_INLINE void deal(const Kaldi& job, const Eight* powers, int64_t here, float* y) noexcept {
    for (int64_t b = 0; b < job.width; b += lanes) {
        const int64_t count = job.width - b < lanes ? job.width - b : lanes;
        Eight features[lanes] = {};
        for (int64_t i = 0; i < count; ++i) {
            if (job.bands)
                filter_bank::pass<lanes>((*job.bands)[b + i], reinterpret_cast<const float*>(powers), lanes,
                                         reinterpret_cast<float*>(&features[i]));
            else
                features[i] = powers[b + i];
        }
        transpose(features);
        for (int64_t l = 0; l < here; ++l)
            if (count == lanes)
                memcpy(y + l * job.width + b, &features[l], sizeof(Eight));
            else
                memcpy(y + l * job.width + b, &features[l], size_t(count) * sizeof(float));
    }
}

FB_CLONES void kaldi_of(const Kaldi& job, const Scratch& scratch, int64_t row, int64_t frame) noexcept {
    const float* starts[lanes];
    const int64_t here = job.frames.at(job.x, row, frame, starts), size = job.size, n = job.n;
    Eight* samples = scratch.samples();
    Eight energy;
    interleave(starts, size, samples);
    if (job.remove_mean) without_mean(samples, size);
    if (job.raw_energy) energies(samples, size, energy);
    Eight before = samples[0];  // the first sample follows itself
    for (int64_t i = 0; i < size; ++i) {
        const Eight sample = samples[i];
        samples[i] = job.window[i] * (sample - job.preemphasis * before);
        before = sample;
    }
    if (!job.raw_energy) energies(samples, size, energy);
    memset(static_cast<void*>(samples + size), 0, size_t(n - size) * sizeof *samples);
    Eight* powers = scratch.powers(n, job.turns);
    if (job.root) take_roots(powers, n / 2 + 1);
    deal(job, powers, here, job.y + (row * job.frames.count + frame) * job.width);
    memcpy(job.energy + row * job.frames.count + frame, &energy, size_t(here) * sizeof(float));
}

struct Filtering {
    const float* x;
    const Bands& bands;
    int64_t frequencies, frames, count;
    float* y;
};

FB_CLONES void filter_tile(const Filtering& job, int64_t row, int64_t frame) noexcept {
    const float* x = job.x + row * job.frequencies * job.frames + frame;
    float* y = job.y + row * job.count * job.frames + frame;
    for (int64_t b = 0; b < job.count; ++b) {
        float sums[tile];
        filter_bank::pass<tile>(job.bands[b], x, job.frames, sums);
        memcpy(y + b * job.frames, sums, sizeof sums);
    }
}

// The frames that are left over, fewer than a tile.
FB_CLONES void filter_rest(const Filtering& job, int64_t row, int64_t frame) noexcept {
    const float* x = job.x + row * job.frequencies * job.frames + frame;
    float* y = job.y + row * job.count * job.frames + frame;
    const int64_t here = job.frames - frame;
    for (int64_t b = 0; b < job.count; ++b) {
        const filter_bank::Band& band = job.bands[b];
        float sums[tile] = {};
        for (int64_t k = band.begin; k < band.end; ++k) {
            const float weight = band.weights[k - band.begin];
            for (int64_t l = 0; l < here; ++l) sums[l] += weight * x[k * job.frames + l];
        }
        memcpy(y + b * job.frames, sums, size_t(here) * sizeof(float));
    }
}

}  // namespace

// bool fb_power_spectrogram_f32(x, stride, rows, frames, hop, window, n, root, y, nthreads)
//
// x        rows of samples, row r at r * stride; frame t of a row begins at its sample t * hop
// window   n factors; `fourier::fits(n)`
// y        receives rows x (n / 2 + 1) x frames: squared magnitudes, or with `root` magnitudes
//
// False where memory ran out.
FB_EXPORT bool fb_power_spectrogram_f32(const float* x, int64_t stride, int64_t rows, int64_t frames, int64_t hop,
                                        const float* window, int64_t n, bool root, float* y,
                                        int32_t nthreads) noexcept {
    const fourier::Turns turns(n);
    if (!turns) return false;
    const Spectrogram job{x, window, turns.get(), {rows, stride, frames, hop}, n, root, y};
    return over(job.frames, n, nthreads, [&](const Scratch& scratch, int64_t row, int64_t frame) noexcept {
        spectrogram_of(job, scratch, row, frame);
    });
}

// bool fb_kaldi_spectra_f32(x, stride, rows, frames, hop, window, size, n, filters, frequencies, width, preemphasis,
//                           remove_mean, raw_energy, root, y, energy, nthreads)
//
// window    size factors, size <= n
// filters   frequencies x width, or null for width = n / 2 + 1 frequencies as they are
// y         receives rows x frames x width
// energy    receives rows x frames sums of squares: before pre-emphasis where `raw_energy`, else after the window
FB_EXPORT bool fb_kaldi_spectra_f32(const float* x, int64_t stride, int64_t rows, int64_t frames, int64_t hop,
                                    const float* window, int64_t size, int64_t n, const float* filters,
                                    int64_t frequencies, int64_t width, double preemphasis, bool remove_mean,
                                    bool raw_energy, bool root, float* y, float* energy, int32_t nthreads) noexcept {
    const fourier::Turns turns(n);
    const Bands bands(filters, filters ? frequencies : 0, filters ? width : 0, width);
    if (!turns || !bands) return false;
    const Kaldi job{x,     window,     turns.get(), filters ? &bands : nullptr, {rows, stride, frames, hop}, n, size,
                    width, float(preemphasis), remove_mean, raw_energy, root, y, energy};
    return over(job.frames, n, nthreads, [&](const Scratch& scratch, int64_t row, int64_t frame) noexcept {
        kaldi_of(job, scratch, row, frame);
    });
}

// bool fb_filter_bank_f32(x, rows, frequencies, frames, filters, count, y, nthreads)
//
// x         rows x frequencies x frames
// filters   frequencies x count
// y         receives rows x count x frames
FB_EXPORT bool fb_filter_bank_f32(const float* x, int64_t rows, int64_t frequencies, int64_t frames,
                                  const float* filters, int64_t count, float* y, int32_t nthreads) noexcept {
    const Bands bands(filters, frequencies, count, count);
    if (!bands) return false;
    const Filtering job{x, bands, frequencies, frames, count, y};
    const int64_t tiles = (frames + tile - 1) / tile;
    fb::parallel_for(0, rows * tiles, 4, nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / tiles, frame = i % tiles * tile;
            if (frame + tile <= frames)
                filter_tile(job, row, frame);
            else
                filter_rest(job, row, frame);
        }
    });
    return true;
}

namespace {

// The same sentences as in `flambeau/audio/functional/_spectra.py`.
bool framed(fb::Call& call, const char* op, const fb::Tensor& waveform, const fb::Tensor& window, int64_t n,
            int64_t hop) noexcept {
    if (waveform.dim != 2 || waveform.dtype != fb::DType::Float32)
        call.fail("%s: waveform is %s of shape %s, expected float32 (rows, time).", op, fb::name(waveform.dtype),
                  fb::Shape(waveform).text);
    else if (!fourier::fits(n))
        call.fail("%s: n_fft is %lld, expected an even number whose half is a product of 2, 3 and 5.", op,
                  static_cast<long long>(n));
    else if (window.dim != 1 || window.dtype != fb::DType::Float32 || window.sizes[0] < 1 || window.sizes[0] > n)
        call.fail("%s: window is %s of shape %s, expected float32 of at most n_fft factors.", op,
                  fb::name(window.dtype), fb::Shape(window).text);
    else if (hop < 1 || waveform.sizes[1] < window.sizes[0])
        call.fail("%s: hop is %lld and the waveform has %lld samples, expected at least 1 and the window's %lld.", op,
                  static_cast<long long>(hop), static_cast<long long>(waveform.sizes[1]),
                  static_cast<long long>(window.sizes[0]));
    else
        return true;
    return false;
}

bool bank(fb::Call& call, const char* op, const fb::Tensor& filters, int64_t most) noexcept {
    if (filters.dim == 2 && filters.dtype == fb::DType::Float32 && filters.sizes[0] <= most) return true;
    call.fail("%s: filters are %s of shape %s, expected float32 (frequencies, filters) of at most %lld frequencies.",
              op, fb::name(filters.dtype), fb::Shape(filters).text, static_cast<long long>(most));
    return false;
}

fb::Tensor rows_of(fb::Call& call, const fb::Tensor& waveform) noexcept {
    return waveform.strides[1] == 1 || waveform.sizes[1] <= 1 ? call.borrow(waveform) : call.contiguous(waveform);
}

void power_spectrogram(fb::Call& call, const fb::Tensor& waveform, const fb::Tensor& window, int64_t n, int64_t hop,
                       bool root) noexcept {
    if (!framed(call, "power_spectrogram", waveform, window, n, hop)) return;
    if (window.sizes[0] != n)
        return call.fail("power_spectrogram: window has shape %s, expected n_fft, %lld, factors.",
                         fb::Shape(window).text, static_cast<long long>(n));
    const fb::Tensor x = rows_of(call, waveform), factors = call.contiguous(window);
    const int64_t rows = waveform.sizes[0], frames = 1 + (waveform.sizes[1] - n) / hop;
    fb::Tensor result = call.empty(fb::DType::Float32, {rows, n / 2 + 1, frames});
    if (!x.defined() || !factors.defined() || !result.defined()) return;
    if (!fb_power_spectrogram_f32(x.as<float>(), x.strides[0], rows, frames, hop, factors.as<float>(), n, root,
                                  result.as<float>(), fb::threads(rows * frames * n)))
        return call.fail("power_spectrogram: out of memory.");
    call.give(result);
}

void kaldi_spectra(fb::Call& call, const fb::Tensor& waveform, const fb::Tensor& window,
                   const fb::OptionalTensor& filters, int64_t n, int64_t hop, double preemphasis, bool remove_mean,
                   bool raw_energy, bool root) noexcept {
    if (!framed(call, "kaldi_spectra", waveform, window, n, hop)) return;
    if (filters.defined() && !bank(call, "kaldi_spectra", filters, n / 2 + 1)) return;
    const fb::Tensor x = rows_of(call, waveform), factors = call.contiguous(window);
    const fb::Tensor dense = filters.defined() ? call.contiguous(filters) : fb::Tensor();
    const int64_t rows = waveform.sizes[0], size = window.sizes[0], frames = 1 + (waveform.sizes[1] - size) / hop;
    const int64_t width = filters.defined() ? filters.sizes[1] : n / 2 + 1;
    fb::Tensor result = call.empty(fb::DType::Float32, {rows, frames, width});
    fb::Tensor energy = call.empty(fb::DType::Float32, {rows, frames});
    if (!x.defined() || !factors.defined() || !result.defined() || !energy.defined()) return;
    if (filters.defined() && !dense.defined()) return;
    if (!fb_kaldi_spectra_f32(x.as<float>(), x.strides[0], rows, frames, hop, factors.as<float>(), size, n,
                              dense.defined() ? dense.as<float>() : nullptr, dense.defined() ? dense.sizes[0] : 0,
                              width, preemphasis, remove_mean, raw_energy, root, result.as<float>(),
                              energy.as<float>(), fb::threads(rows * frames * n)))
        return call.fail("kaldi_spectra: out of memory.");
    call.give(result);
    call.give(energy);
}

void apply_filters(fb::Call& call, const fb::Tensor& spectrogram, const fb::Tensor& filters) noexcept {
    if (spectrogram.dim != 3 || spectrogram.dtype != fb::DType::Float32)
        return call.fail("filter_bank: spectrogram is %s of shape %s, expected float32 (rows, frequencies, frames).",
                         fb::name(spectrogram.dtype), fb::Shape(spectrogram).text);
    if (!bank(call, "filter_bank", filters, spectrogram.sizes[1])) return;
    if (filters.sizes[0] != spectrogram.sizes[1])
        return call.fail("filter_bank: filters have shape %s, expected one row for each of %lld frequencies.",
                         fb::Shape(filters).text, static_cast<long long>(spectrogram.sizes[1]));
    const fb::Tensor x = call.contiguous(spectrogram), dense = call.contiguous(filters);
    const int64_t rows = x.sizes[0], frequencies = x.sizes[1], frames = x.sizes[2], count = filters.sizes[1];
    fb::Tensor result = call.empty(fb::DType::Float32, {rows, count, frames});
    if (!x.defined() || !dense.defined() || !result.defined()) return;
    if (!fb_filter_bank_f32(x.as<float>(), rows, frequencies, frames, dense.as<float>(), count, result.as<float>(),
                            fb::threads(rows * frequencies * frames)))
        return call.fail("filter_bank: out of memory.");
    call.give(result);
}

FB_OPERATOR("power_spectrogram", power_spectrogram);
FB_OPERATOR("kaldi_spectra", kaldi_spectra);
FB_OPERATOR("filter_bank", apply_filters);

}  // namespace
