// What each optimizer does to one row, given the sum of its gradients. Formulas: spec of EmbOptimType, as FBGEMM's.
//
// `w` and `g` are the row and its gradient, of `dim` numbers in float32; states of a row lie at the same place in their
// arrays (m1, m2 by element or by row). Every formula is computed in float32 in the order written here.

#pragma once

#include <math.h>

#include "tbe.h"

namespace rec {

enum class Optimizer : int32_t {
    Sgd, Adagrad, RowWiseAdagrad, RowWiseAdagradWithCounter, Adam, PartialRowWiseAdam, Lamb, PartialRowWiseLamb, LarsSgd,
    RowWiseRmspropAr,
};

// Python fills this in.
struct Settings {
    Optimizer optimizer;
    float lr, eps, weight_decay, beta1, beta2, momentum, eta, max_norm;
    int32_t weight_decay_mode;  // 0 none, 1 L2, 2 decoupled, 3 decoupled over all steps missed
    int64_t iteration;          // counted from 1
    // rowwise Adagrad with a counter
    int32_t counter_halflife, learning_rate_mode, regularization_mode, tail_is_ratio;
    int64_t adjustment_iter;
    float adjustment_ub, max_counter, tail_threshold, weight_norm_coefficient, lower_bound;
    // row-wise RMSprop with accelerated regularization
    float ar_alpha, min_shrinkage;
    int32_t grad_sum_decay;           // of rowwise Adagrad with a counter: 0 where sums decay as counts do
    int32_t rowwise_bias_correction;  // of Adam and LAMB: whether steps are counted for each row
    int64_t decay_from;               // the step after which rows make up for decay that they missed
};

// The states of one row; null where the optimizer has none.
struct States {
    float* m1;         // by element or by row
    float* m2;         // by element or by row
    float* prev_iter;  // by row
    float* counter;    // by row
};

FB_INLINE float sum_of_squares(const float* x, int64_t dim) noexcept {
    // Eight sums side by side, as vector registers want.
    float partial[8] = {};
    int64_t i = 0;
    for (; i + 8 <= dim; i += 8)
        for (int k = 0; k < 8; ++k) partial[k] += x[i + k] * x[i + k];
    float sum = 0;
    for (int k = 0; k < 8; ++k) sum += partial[k];
    for (; i < dim; ++i) sum += x[i] * x[i];
    return sum;
}

FB_INLINE void sgd(float* w, const float* g, int64_t dim, const Settings& s) noexcept {
    for (int64_t i = 0; i < dim; ++i) w[i] -= s.lr * g[i];
}

FB_INLINE void adagrad(float* w, const float* g, int64_t dim, const States& state, const Settings& s) noexcept {
    for (int64_t i = 0; i < dim; ++i) {
        const float h = state.m1[i] + g[i] * g[i];
        state.m1[i] = h;
        w[i] -= s.lr * g[i] / (sqrtf(h) + s.eps);
    }
}

FB_INLINE void limit_norm(float* w, int64_t dim, float most) noexcept {
    if (most <= 0) return;
    const float norm = sqrtf(sum_of_squares(w, dim));
    if (norm <= most) return;
    for (int64_t i = 0; i < dim; ++i) w[i] *= most / norm;
}

// The decay that a row missed while it was not looked up; 1 where there is none.
FB_INLINE float missed_decay(const States& state, const Settings& s) noexcept {
    if (s.weight_decay_mode != 3 || !state.prev_iter) return 1;
    const float before = *state.prev_iter;
    *state.prev_iter = float(s.iteration);
    if (before <= 0 || s.iteration <= s.decay_from) return 1;
    const float steps = float(s.iteration) - before - 1;
    if (steps <= 0) return 1;
    const float decay = powf(1 - s.lr * s.weight_decay, steps);
    return decay > s.lower_bound ? decay : s.lower_bound;
}

FB_INLINE void rowwise_adagrad(float* w, float* g, int64_t dim, const States& state, const Settings& s) noexcept {
    const float decay = missed_decay(state, s);
    if (decay != 1)
        for (int64_t i = 0; i < dim; ++i) w[i] *= decay;
    if (s.weight_decay_mode == 1)
        for (int64_t i = 0; i < dim; ++i) g[i] += s.weight_decay * w[i];
    const float v = *state.m1 + sum_of_squares(g, dim) / float(dim);
    *state.m1 = v;
    const float m = s.lr / (sqrtf(v) + s.eps);
    // The gradient has the L2 term in it already, for the state; the row takes it by the factor alone.
    const float keep = s.weight_decay_mode == 1   ? 1 - m * s.weight_decay
                       : s.weight_decay_mode >= 2 ? 1 - s.lr * s.weight_decay
                                                  : 1;
    const float back = s.weight_decay_mode == 1 ? s.weight_decay : 0;
    for (int64_t i = 0; i < dim; ++i) w[i] = keep * w[i] - m * (g[i] - back * w[i]);
    limit_norm(w, dim, s.max_norm);
}

FB_INLINE void rowwise_adagrad_with_counter(float* w, float* g, int64_t dim, const States& state,
                                            const Settings& s) noexcept {
    const float iteration = float(s.iteration), before = *state.prev_iter;
    float count = *state.counter;
    const float gap = before == 0 ? 1 : iteration - before;
    *state.prev_iter = iteration;
    if (s.counter_halflife > 0)
        count = 1 + expf(-gap * (logf(2.0f) / float(s.counter_halflife))) * count;
    else
        count = s.counter_halflife == 0 ? 1 : count + 1;
    *state.counter = count;
    // Rare rows decay more; below 0 the factor is negative, as the reference has it.
    const float frequency = float(s.counter_halflife) / count;
    const bool adjusting = s.adjustment_iter <= 0 || s.iteration > s.adjustment_iter;

    if (s.weight_decay_mode == 1)
        for (int64_t i = 0; i < dim; ++i) g[i] += s.weight_decay * w[i];
    const float back = s.weight_decay_mode == 1 ? s.weight_decay : 0;
    const float faded = s.grad_sum_decay == 0 && s.counter_halflife > 0
                            ? expf(-gap * (logf(2.0f) / float(s.counter_halflife)))
                            : 1;
    const float v = *state.m1 * faded + sum_of_squares(g, dim) / float(dim);
    *state.m1 = v;
    float m = s.lr / (sqrtf(v) + s.eps), keep = 1;
    if (adjusting) {
        const float tail = s.tail_is_ratio ? floorf(s.tail_threshold * s.max_counter) : s.tail_threshold;
        if (count > tail) {
            if (s.learning_rate_mode == 0)
                m *= fminf(fmaxf(powf(s.max_counter / (count + 1), s.adjustment_ub), 1.0f), 10.0f);
            else if (s.learning_rate_mode == 1)
                m *= fminf(fmaxf(powf((count + 1) / s.max_counter, s.adjustment_ub), 0.1f), 1.0f);
            else if (s.learning_rate_mode == 2)
                m = s.lr / (sqrtf(s.adjustment_ub * count) + s.eps);
        }
    }
    if (s.regularization_mode == 4 && adjusting) {  // CowClip
        const float norm = sqrtf(sum_of_squares(w, dim)), size = sqrtf(sum_of_squares(g, dim));
        const float threshold = count * fmaxf(s.weight_norm_coefficient * norm, s.lower_bound);
        m *= fminf(1.0f, threshold / size);
        // Rows decay here however rare they are.
        keep = s.weight_decay_mode == 1 ? 1 - s.weight_decay * m : s.weight_decay_mode == 2 ? 1 - s.weight_decay * s.lr : 1;
    } else if (s.weight_decay_mode == 1 && adjusting) {
        keep = 1 - frequency * s.weight_decay * m;
    } else if (s.weight_decay_mode == 2 && adjusting) {
        keep = 1 - frequency * s.weight_decay * s.lr;
    } else if (s.weight_decay_mode == 3) {
        keep = 1 - s.weight_decay * s.lr;
    }
    if (s.weight_decay_mode == 3 && s.regularization_mode != 4) {  // AdagradW: rare rows learn faster, and make up for decay they missed
        if (adjusting) {
            if (s.counter_halflife == -1) m *= sqrtf(count);
            if (s.counter_halflife == -2) m = fminf(s.lr * count, s.adjustment_ub) / (sqrtf(v) + s.eps);
            const float since = iteration - float(s.adjustment_iter > 0 ? s.adjustment_iter : 0);
            const float lazy = powf(keep, fmaxf(fminf(gap, since) - 1, 0.0f));
            keep *= lazy;
            m *= lazy;
        } else {
            keep = 1;
        }
    }
    for (int64_t i = 0; i < dim; ++i) w[i] = keep * w[i] - m * (g[i] - back * w[i]);
}

// How much larger than its mean an exponential average that begins at 0 has to be read.
FB_INLINE float corrected(float beta, int64_t iteration) noexcept { return 1 - powf(beta, float(iteration)); }

// The direction of Adam, written over the gradient; the second moment is of the row where `by_row`.
FB_INLINE void adam_direction(float* g, int64_t dim, const States& state, const Settings& s, bool by_row) noexcept {
    int64_t step = s.iteration;
    if (s.rowwise_bias_correction && state.counter) step = int64_t(*state.counter += 1);
    const float first = corrected(s.beta1, step), second = corrected(s.beta2, step);
    float row = 0;
    if (by_row) {
        const float v = s.beta2 * *state.m2 + (1 - s.beta2) * (sum_of_squares(g, dim) / float(dim));
        *state.m2 = v;
        row = sqrtf(v / second) + s.eps;
    }
    for (int64_t i = 0; i < dim; ++i) {
        const float m = s.beta1 * state.m1[i] + (1 - s.beta1) * g[i];
        state.m1[i] = m;
        float under = row;
        if (!by_row) {
            const float v = s.beta2 * state.m2[i] + (1 - s.beta2) * g[i] * g[i];
            state.m2[i] = v;
            under = sqrtf(v / second) + s.eps;
        }
        g[i] = (m / first) / under;
    }
}

FB_INLINE void adam(float* w, float* g, int64_t dim, const States& state, const Settings& s, bool by_row) noexcept {
    adam_direction(g, dim, state, s, by_row);
    for (int64_t i = 0; i < dim; ++i) w[i] -= s.lr * (g[i] + s.weight_decay * w[i]);
}

FB_INLINE void lamb(float* w, float* g, int64_t dim, const States& state, const Settings& s, bool by_row) noexcept {
    adam_direction(g, dim, state, s, by_row);
    for (int64_t i = 0; i < dim; ++i) g[i] += s.weight_decay * w[i];
    const float ratio = sqrtf(sum_of_squares(w, dim)) / sqrtf(sum_of_squares(g, dim));
    for (int64_t i = 0; i < dim; ++i) w[i] -= s.lr * ratio * g[i];
}

FB_INLINE void lars_sgd(float* w, const float* g, int64_t dim, const States& state, const Settings& s) noexcept {
    const float norm = sqrtf(sum_of_squares(w, dim)), size = sqrtf(sum_of_squares(g, dim));
    const float rate = s.lr * s.eta * norm / (size + s.weight_decay * norm);
    for (int64_t i = 0; i < dim; ++i) {
        const float m = s.momentum * state.m1[i] + rate * (g[i] + s.weight_decay * w[i]);
        state.m1[i] = m;
        w[i] -= m;
    }
}

FB_INLINE void rowwise_rmsprop_ar(float* w, const float* g, int64_t dim, const States& state,
                                  const Settings& s) noexcept {
    const float v = s.beta2 * *state.m1 + (1 - s.beta2) * (sum_of_squares(g, dim) / float(dim));
    *state.m1 = v;
    const float before = *state.prev_iter, gap = before > 0 ? float(s.iteration) - before : 1;
    *state.prev_iter = float(s.iteration);
    const float shrink = fmaxf(s.min_shrinkage, 1 - fminf(fmaxf(s.lr * s.ar_alpha * gap, 0.0f), 1.0f));
    const float m = s.lr / (sqrtf(v) + s.eps);
    for (int64_t i = 0; i < dim; ++i) w[i] = shrink * w[i] - m * g[i];
}

// Whether the states m1 and m2 hold a number for each element, rather than for each row.
inline bool first_by_element(Optimizer optimizer) noexcept {
    return optimizer != Optimizer::RowWiseAdagrad && optimizer != Optimizer::RowWiseAdagradWithCounter &&
           optimizer != Optimizer::RowWiseRmspropAr;
}
inline bool second_by_element(Optimizer optimizer) noexcept {
    return optimizer == Optimizer::Adam || optimizer == Optimizer::Lamb;
}

}  // namespace rec
