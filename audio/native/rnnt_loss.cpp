// The transducer loss and its gradient (Graves 2012, sections 2.4 and 2.5).
//
// Scores of item n, frame t, place u in the target and class v lie at ((n * frames + t) * places + u) * classes + v.
// What the forward pass leaves for the gradient is small: for each (n, t, u) the logarithm of the softmax's sum, and
// alpha, the logarithm of the probability of reaching the place. Gradients are never held beside the scores of all
// classes; one pass over the scores normalises them, a second one writes the gradient.

#include <flambeau/kernel.h>

#include <cmath>
#include <limits>

namespace {

template <typename T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

// Sums kept side by side, which the compiler may then put into wide registers.
constexpr int kLanes = 16;

// exp(x) for x <= 0, or a little more: 2^n * e^r with |r| <= ln(2) / 2, r by a polynomial; below 1e-38 it is 0. Within
// 2 units in the last place. Written without branches, so that loops over it become vector code.
FB_INLINE float exp_of(float x) noexcept {
    const float kept = x < -87.0f ? -87.0f : x;
    // Adding and taking away 1.5 * 2^23 rounds to whole numbers, whatever the instruction set offers.
    const float n = (kept * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
    const float r = (kept - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const int32_t bits = (int32_t(n) + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x < -87.0f ? 0.0f : p * scale;
}
FB_INLINE double exp_of(double x) noexcept { return std::exp(x); }

template <typename T>
FB_INLINE T row_max(const T* row, int64_t classes) noexcept {
    T best[kLanes];
    for (int k = 0; k < kLanes; ++k) best[k] = kNever<T>;
    int64_t v = 0;
    for (; v + kLanes <= classes; v += kLanes)
        for (int k = 0; k < kLanes; ++k) best[k] = row[v + k] > best[k] ? row[v + k] : best[k];
    for (; v < classes; ++v) best[0] = row[v] > best[0] ? row[v] : best[0];
    for (int k = 1; k < kLanes; ++k) best[0] = best[k] > best[0] ? best[k] : best[0];
    return best[0];
}

// log sum_v exp(row[v]).
template <typename T>
FB_INLINE T log_sum_exp(const T* row, int64_t classes) noexcept {
    const T best = row_max(row, classes);
    T sums[kLanes] = {};
    int64_t v = 0;
    for (; v + kLanes <= classes; v += kLanes)
        for (int k = 0; k < kLanes; ++k) sums[k] += exp_of(row[v + k] - best);
    for (; v < classes; ++v) sums[0] += exp_of(row[v] - best);
    for (int k = 1; k < kLanes; ++k) sums[0] += sums[k];
    return best + std::log(sums[0]);
}

// result[v] = clamp(occupancy * softmax(row)[v]) * scale.
template <typename T>
FB_INLINE void spread(const T* row, int64_t classes, T normaliser, T occupancy, T clamp, T scale, T* result) noexcept {
    const T shift = occupancy - normaliser;
    if (clamp > 0) {
        for (int64_t v = 0; v < classes; ++v) {
            const T g = exp_of(row[v] + shift);
            result[v] = (g > clamp ? clamp : g) * scale;
        }
    } else {
        for (int64_t v = 0; v < classes; ++v) result[v] = exp_of(row[v] + shift) * scale;
    }
}

FB_CLONES float log_sum_exp_of(const float* row, int64_t classes) noexcept { return log_sum_exp(row, classes); }
FB_CLONES double log_sum_exp_of(const double* row, int64_t classes) noexcept { return log_sum_exp(row, classes); }
FB_CLONES void spread_over(const float* row, int64_t classes, float normaliser, float occupancy, float clamp,
                           float scale, float* result) noexcept {
    spread(row, classes, normaliser, occupancy, clamp, scale, result);
}
FB_CLONES void spread_over(const double* row, int64_t classes, double normaliser, double occupancy, double clamp,
                           double scale, double* result) noexcept {
    spread(row, classes, normaliser, occupancy, clamp, scale, result);
}

template <typename T>
T log_add(T a, T b) noexcept {
    const T high = a > b ? a : b, low = a > b ? b : a;
    return low == kNever<T> ? high : high + std::log1p(std::exp(low - high));
}

template <typename T>
struct Lattice {
    const T* scores;
    const int32_t* targets;  // items x places - 1
    const int32_t* frames_of;
    const int32_t* labels_of;
    int64_t items, frames, places, classes, blank;
    bool fused;  // scores are logits, else logarithms of probabilities
    int32_t nthreads;

    int64_t cell(int64_t n, int64_t t, int64_t u) const noexcept { return (n * frames + t) * places + u; }
    const T* row(int64_t cell) const noexcept { return scores + cell * classes; }
    int32_t target(int64_t n, int64_t u) const noexcept { return targets[n * (places - 1) + u]; }

    T stay(int64_t cell, const T* normalisers) const noexcept {  // emit blank: on to the next frame
        return row(cell)[blank] - normalisers[cell];
    }
    T advance(int64_t n, int64_t u, int64_t cell, const T* normalisers) const noexcept {  // emit the next label
        return row(cell)[target(n, u)] - normalisers[cell];
    }

    void normalise(T* normalisers) const noexcept {
        fb::parallel_for(0, items * frames, 4, nthreads, [&](int64_t begin, int64_t end) noexcept {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t n = i / frames, t = i % frames;
                for (int64_t u = 0; u < places; ++u) {
                    const bool there = fused && t < frames_of[n] && u <= labels_of[n];
                    normalisers[i * places + u] = there ? log_sum_exp_of(row(i * places + u), classes) : T(0);
                }
            }
        });
    }

    // Fills alpha and writes the costs.
    void forward(const T* normalisers, T* alphas, T* costs) const noexcept {
        fb::parallel_for(0, items, 1, nthreads, [&](int64_t begin, int64_t end) noexcept {
            for (int64_t n = begin; n < end; ++n) {
                const int64_t last_frame = frames_of[n] - 1, last_place = labels_of[n];
                for (int64_t t = 0; t < frames; ++t)
                    for (int64_t u = 0; u < places; ++u) {
                        T& alpha = alphas[cell(n, t, u)];
                        if (t > last_frame || u > last_place)
                            alpha = kNever<T>;
                        else if (t == 0 && u == 0)
                            alpha = 0;
                        else {
                            const int64_t before = cell(n, t - 1, u), beside = cell(n, t, u - 1);
                            const T from_frame = t ? alphas[before] + stay(before, normalisers) : kNever<T>;
                            const T from_label = u ? alphas[beside] + advance(n, u - 1, beside, normalisers) : kNever<T>;
                            alpha = log_add(from_frame, from_label);
                        }
                    }
                const int64_t end_cell = cell(n, last_frame, last_place);
                costs[n] = -(alphas[end_cell] + stay(end_cell, normalisers));
            }
        });
    }

    void backward(const T* normalisers, T* betas) const noexcept {
        fb::parallel_for(0, items, 1, nthreads, [&](int64_t begin, int64_t end) noexcept {
            for (int64_t n = begin; n < end; ++n) {
                const int64_t last_frame = frames_of[n] - 1, last_place = labels_of[n];
                for (int64_t t = last_frame; t >= 0; --t)
                    for (int64_t u = last_place; u >= 0; --u) {
                        const int64_t here = cell(n, t, u);
                        const T to_frame = t < last_frame    ? betas[cell(n, t + 1, u)]
                                           : u == last_place ? T(0)
                                                             : kNever<T>;
                        const T by_frame = to_frame + stay(here, normalisers);
                        const T by_label = u < last_place
                                               ? betas[cell(n, t, u + 1)] + advance(n, u, here, normalisers)
                                               : kNever<T>;
                        betas[here] = log_add(by_frame, by_label);
                    }
            }
        });
    }

    // The gradient of grads[n] * cost n, each cost's own gradient clamped before.
    void gradient(const T* grads, const T* normalisers, const T* alphas, const T* betas, const T* costs, T clamp,
                  T* result) const noexcept {
        fb::parallel_for(0, items * frames, 4, nthreads, [&](int64_t begin, int64_t end) noexcept {
            for (int64_t i = begin; i < end; ++i)
                for (int64_t u = 0; u < places; ++u)
                    one(i / frames, i % frames, u, grads[i / frames], normalisers, alphas, betas, costs, clamp,
                        result + (i * places + u) * classes);
        });
    }

  private:
    static T limited(T g, T clamp) noexcept { return clamp > 0 ? (g > clamp ? clamp : g < -clamp ? -clamp : g) : g; }

    void one(int64_t n, int64_t t, int64_t u, T scale, const T* normalisers, const T* alphas, const T* betas,
             const T* costs, T clamp, T* result) const noexcept {
        const int64_t last_frame = frames_of[n] - 1, last_place = labels_of[n], here = cell(n, t, u);
        const bool there = t <= last_frame && u <= last_place;
        const T reached = there ? alphas[here] + costs[n] : kNever<T>;
        if (!(reached > kNever<T>)) {
            for (int64_t v = 0; v < classes; ++v) result[v] = 0;
            return;
        }
        const T to_frame = t < last_frame    ? betas[cell(n, t + 1, u)]
                           : u == last_place ? T(0)
                                             : kNever<T>;
        const T by_blank = std::exp(reached + stay(here, normalisers) + to_frame);
        const T by_label =
            u < last_place ? std::exp(reached + advance(n, u, here, normalisers) + betas[cell(n, t, u + 1)]) : T(0);
        const T* given = row(here);
        if (!fused) {
            for (int64_t v = 0; v < classes; ++v) result[v] = 0;
            result[blank] = limited(-by_blank, clamp) * scale;
            if (u < last_place) result[target(n, u)] = limited(-by_label, clamp) * scale;
            return;
        }
        const T occupancy = reached + betas[here];
        spread_over(given, classes, normalisers[here], occupancy, clamp, scale, result);
        const auto share = [&](int64_t v) noexcept { return std::exp(given[v] - normalisers[here] + occupancy); };
        result[blank] = limited(share(blank) - by_blank, clamp) * scale;
        if (u < last_place) result[target(n, u)] = limited(share(target(n, u)) - by_label, clamp) * scale;
    }
};

}  // namespace

// void fb_rnnt_loss_<dtype>(scores, targets, frames_of, labels_of, items, frames, places, classes, blank, fused,
//                           normalisers, alphas, costs, nthreads)
// void fb_rnnt_loss_backward_<dtype>(grads, scores, ..., fused, clamp, normalisers, alphas, costs, betas, result,
//                                    nthreads)
//
// scores, result           items x frames x places x classes
// targets                  items x places - 1
// frames_of, labels_of     items; at least 1 and 0, at most frames and places - 1
// normalisers, alphas      items x frames x places, written by the first; betas likewise is room to work in
// costs, grads             items
#define AUDIO_RNNT(dtype, T)                                                                                           \
    FB_EXPORT void fb_rnnt_loss_##dtype(const T* scores, const int32_t* targets, const int32_t* frames_of,             \
                                        const int32_t* labels_of, int64_t items, int64_t frames, int64_t places,       \
                                        int64_t classes, int64_t blank, bool fused, T* normalisers, T* alphas,         \
                                        T* costs, int32_t nthreads) noexcept {                                         \
        const Lattice<T> lattice{scores, targets, frames_of, labels_of, items, frames,                                 \
                                 places, classes, blank,     fused,     nthreads};                                     \
        lattice.normalise(normalisers);                                                                                \
        lattice.forward(normalisers, alphas, costs);                                                                   \
    }                                                                                                                  \
    FB_EXPORT void fb_rnnt_loss_backward_##dtype(                                                                      \
        const T* grads, const T* scores, const int32_t* targets, const int32_t* frames_of, const int32_t* labels_of,   \
        int64_t items, int64_t frames, int64_t places, int64_t classes, int64_t blank, bool fused, double clamp,       \
        const T* normalisers, const T* alphas, const T* costs, T* betas, T* result, int32_t nthreads) noexcept {       \
        const Lattice<T> lattice{scores, targets, frames_of, labels_of, items, frames,                                 \
                                 places, classes, blank,     fused,     nthreads};                                     \
        lattice.backward(normalisers, betas);                                                                          \
        lattice.gradient(grads, normalisers, alphas, betas, costs, T(clamp), result);                                  \
    }
AUDIO_RNNT(f32, float)
AUDIO_RNNT(f64, double)

namespace {

// The same sentences as `_check` in `flambeau/audio/functional/rnnt_loss.py`.
bool valid(fb::Call& call, const fb::Tensor& scores, const fb::Tensor& targets, const fb::Tensor& frames_of,
           const fb::Tensor& labels_of, int64_t blank) noexcept {
    const auto number = [](int64_t value) { return static_cast<long long>(value); };
    if (scores.dim != 4)
        call.fail("rnnt_loss: logits has shape %s, expected (batch, time, target + 1, classes).", fb::Shape(scores).text);
    else if (scores.dtype != fb::DType::Float32 && scores.dtype != fb::DType::Float64)
        call.fail("rnnt_loss: logits has dtype %s, expected float32 or float64; convert it.", fb::name(scores.dtype));
    else if (targets.dtype != fb::DType::Int32 || frames_of.dtype != fb::DType::Int32 ||
             labels_of.dtype != fb::DType::Int32)
        call.fail("rnnt_loss: targets, logit_lengths and target_lengths have dtypes %s, %s and %s, expected int32.",
                  fb::name(targets.dtype), fb::name(frames_of.dtype), fb::name(labels_of.dtype));
    else if (targets.dim != 2 || targets.sizes[0] != scores.sizes[0] || targets.sizes[1] + 1 != scores.sizes[2])
        call.fail("rnnt_loss: targets has shape %s, expected (%lld, %lld): the batch and one less than the places of logits.",
                  fb::Shape(targets).text, number(scores.sizes[0]), number(scores.sizes[2] - 1));
    else if (frames_of.dim != 1 || labels_of.dim != 1 || frames_of.sizes[0] != scores.sizes[0] ||
             labels_of.sizes[0] != scores.sizes[0])
        call.fail("rnnt_loss: lengths have shapes %s and %s, expected (%lld,) both.", fb::Shape(frames_of).text,
                  fb::Shape(labels_of).text, number(scores.sizes[0]));
    else if (blank < 0 || blank >= scores.sizes[3])
        call.fail("rnnt_loss: blank is class %lld of %lld.", number(blank), number(scores.sizes[3]));
    else
        return true;
    return false;
}

// The same sentences as `_check_values`.
bool valid_values(fb::Call& call, const fb::Tensor& scores, const fb::Tensor& targets, const fb::Tensor& frames_of,
                  const fb::Tensor& labels_of) noexcept {
    const int64_t items = scores.sizes[0], frames = scores.sizes[1], places = scores.sizes[2], classes = scores.sizes[3];
    const int32_t* times = frames_of.as<int32_t>();
    const int32_t* labels = labels_of.as<int32_t>();
    int64_t longest = 0, most = 0;
    for (int64_t n = 0; n < items; ++n) {
        if (times[n] < 1 || labels[n] < 0) {
            call.fail("rnnt_loss: item %lld has %d frames and %d labels, expected at least 1 and 0.",
                      static_cast<long long>(n), int(times[n]), int(labels[n]));
            return false;
        }
        longest = times[n] > longest ? times[n] : longest;
        most = labels[n] > most ? labels[n] : most;
    }
    if (items && longest != frames) {
        call.fail("rnnt_loss: input length mismatch: the longest of logit_lengths is %lld, logits has %lld frames.",
                  static_cast<long long>(longest), static_cast<long long>(frames));
        return false;
    }
    if (items && most + 1 != places) {
        call.fail("rnnt_loss: output length mismatch: the longest of target_lengths is %lld, logits has %lld places, "
                  "one more is expected.",
                  static_cast<long long>(most), static_cast<long long>(places));
        return false;
    }
    for (int64_t n = 0; n < items; ++n)
        for (int64_t u = 0; u < labels[n]; ++u) {
            const int32_t target = targets.as<int32_t>()[n * (places - 1) + u];
            if (target < 0 || target >= classes) {
                call.fail("rnnt_loss: targets holds class %d, expected 0 to %lld.", int(target),
                          static_cast<long long>(classes - 1));
                return false;
            }
        }
    return true;
}

template <typename T, typename Loss>
void run(fb::Call& call, Loss loss, const fb::Tensor& logits, const fb::Tensor& targets, const fb::Tensor& frames_of,
         const fb::Tensor& labels_of, int64_t blank, bool fused) noexcept {
    const int64_t* sizes = logits.sizes;
    fb::Tensor costs = call.empty(logits.dtype, sizes, 1);
    fb::Tensor normalisers = call.empty(logits.dtype, sizes, 3), alphas = call.empty(logits.dtype, sizes, 3);
    if (!costs.defined() || !normalisers.defined() || !alphas.defined()) return;
    loss(logits.as<T>(), targets.as<int32_t>(), frames_of.as<int32_t>(), labels_of.as<int32_t>(), sizes[0], sizes[1],
         sizes[2], sizes[3], blank, fused, normalisers.as<T>(), alphas.as<T>(), costs.as<T>(),
         fb::threads(logits.numel() * 4));
    call.give(costs);
    call.give(normalisers);
    call.give(alphas);
}

void rnnt_loss(fb::Call& call, const fb::Tensor& logits, const fb::Tensor& targets, const fb::Tensor& logit_lengths,
               const fb::Tensor& target_lengths, int64_t blank, bool fused, double) noexcept {
    if (!valid(call, logits, targets, logit_lengths, target_lengths, blank)) return;
    const fb::Tensor scores = call.contiguous(logits), labels = call.contiguous(targets);
    const fb::Tensor frames_of = call.contiguous(logit_lengths), labels_of = call.contiguous(target_lengths);
    if (!scores.defined() || !labels.defined() || !frames_of.defined() || !labels_of.defined()) return;
    if (!valid_values(call, scores, labels, frames_of, labels_of)) return;
    if (scores.dtype == fb::DType::Float32)
        run<float>(call, fb_rnnt_loss_f32, scores, labels, frames_of, labels_of, blank, fused);
    else
        run<double>(call, fb_rnnt_loss_f64, scores, labels, frames_of, labels_of, blank, fused);
}

template <typename T, typename Loss>
void run_backward(fb::Call& call, Loss loss, const fb::Tensor& grads, const fb::Tensor& logits,
                  const fb::Tensor& targets, const fb::Tensor& frames_of, const fb::Tensor& labels_of,
                  const fb::Tensor& normalisers, const fb::Tensor& alphas, const fb::Tensor& costs, int64_t blank,
                  bool fused, double clamp) noexcept {
    const int64_t* sizes = logits.sizes;
    fb::Tensor result = call.empty(logits.dtype, sizes, 4);
    const fb::Tensor betas = call.empty(logits.dtype, sizes, 3);
    if (!result.defined() || !betas.defined()) return;
    loss(grads.as<T>(), logits.as<T>(), targets.as<int32_t>(), frames_of.as<int32_t>(), labels_of.as<int32_t>(),
         sizes[0], sizes[1], sizes[2], sizes[3], blank, fused, clamp, normalisers.as<T>(), alphas.as<T>(), costs.as<T>(),
         betas.as<T>(), result.as<T>(), fb::threads(logits.numel() * 4));
    call.give(result);
}

void rnnt_loss_backward(fb::Call& call, const fb::Tensor& grad, const fb::Tensor& logits, const fb::Tensor& targets,
                        const fb::Tensor& logit_lengths, const fb::Tensor& target_lengths, const fb::Tensor& normalisers,
                        const fb::Tensor& alphas, const fb::Tensor& costs, int64_t blank, bool fused,
                        double clamp) noexcept {
    if (!valid(call, logits, targets, logit_lengths, target_lengths, blank)) return;
    const fb::Tensor grads = call.contiguous(grad), scores = call.contiguous(logits), labels = call.contiguous(targets);
    const fb::Tensor frames_of = call.contiguous(logit_lengths), labels_of = call.contiguous(target_lengths);
    const fb::Tensor sums = call.contiguous(normalisers), reached = call.contiguous(alphas);
    const fb::Tensor losses = call.contiguous(costs);
    if (!grads.defined() || !scores.defined() || !labels.defined() || !frames_of.defined() || !labels_of.defined() ||
        !sums.defined() || !reached.defined() || !losses.defined())
        return;
    if (!valid_values(call, scores, labels, frames_of, labels_of)) return;
    const bool fits = grads.numel() == scores.sizes[0] && losses.numel() == scores.sizes[0] &&
                      sums.numel() * scores.sizes[3] == scores.numel() && reached.numel() == sums.numel() &&
                      grads.dtype == scores.dtype && sums.dtype == scores.dtype && reached.dtype == scores.dtype &&
                      losses.dtype == scores.dtype;
    if (!fits) return call.fail("rnnt_loss_backward: what the loss left does not fit logits of %s.", fb::Shape(scores).text);
    if (scores.dtype == fb::DType::Float32)
        run_backward<float>(call, fb_rnnt_loss_backward_f32, grads, scores, labels, frames_of, labels_of, sums, reached,
                            losses, blank, fused, clamp);
    else
        run_backward<double>(call, fb_rnnt_loss_backward_f64, grads, scores, labels, frames_of, labels_of, sums, reached,
                             losses, blank, fused, clamp);
}

FB_OPERATOR("rnnt_loss", rnnt_loss);
FB_OPERATOR("rnnt_loss_backward", rnnt_loss_backward);

}  // namespace
